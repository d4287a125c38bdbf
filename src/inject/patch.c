/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/patch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

/*
 * The island:   pointers to the glue | sites | per entry: pointer to the site, stub, copy, label
 */
enum {
	PAGE_BYTES = 4096,
	GLUE_BYTES = 8 * WIRE_GLUE_COUNT,
	STUB_BYTES = 24,  /* push or lea, jmp: 6 or 7 bytes each; what follows is aligned */
	LABEL_BYTES = 80, /* longer names of allocators are cut */
	LABEL_AT = 8 + STUB_BYTES + RELOC_COPY_BYTES,
	SLOT_BYTES = LABEL_AT + LABEL_BYTES, /* a multiple of 16 */
	REACH_MARGIN = 1 << 20,
	LOWEST = 0x10000, /* what mmap_min_addr may forbid */
};
#define REACH       ((uint64_t)INT32_MAX - REACH_MARGIN)
#define PLAIN_FLAGS ((unsigned)(WIRE_SITE_LIGHT | WIRE_SITE_ONE | WIRE_SITE_FEW | WIRE_SITE_PLAIN))

_Static_assert(SLOT_BYTES % 16 == 0, "stubs are aligned");

static size_t sites_bytes(const struct plan *plan)
{
	return (GLUE_BYTES + plan->entry_count * sizeof(struct wire_site) + 15) & ~(size_t)15;
}

static size_t slot_offset(const struct plan *plan, size_t index)
{
	return sites_bytes(plan) + index * SLOT_BYTES;
}

size_t patch_island_bytes(const struct plan *plan)
{
	size_t bytes = plan->entry_count ? slot_offset(plan, plan->entry_count) : 0;
	return (bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
}

bool patch_reach(const struct plan *plan, uint64_t *ret_low, uint64_t *ret_high)
{
	uint64_t first = UINT64_MAX, last = 0;
	for (size_t i = 0; i < plan->entry_count; i++) {
		const struct reloc *reloc = &plan->entries[i].reloc;
		first = reloc->address < first ? reloc->address : first;
		last = reloc->address > last ? reloc->address : last;
		for (unsigned k = 0; k < reloc->steps; k++) {
			uint64_t target = reloc->step[k].target;
			first = target && target < first ? target : first;
			last = target > last ? target : last;
		}
	}
	uint64_t low = last > REACH + LOWEST ? last - REACH : LOWEST;
	if (!plan->entry_count || low >= first + REACH)
		return false;
	*ret_low = low;
	*ret_high = first + REACH;
	return true;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* The place in the gap that is nearest to `near`, or 0. */
static uint64_t place_in(uint64_t start, uint64_t end, uint64_t near, size_t bytes)
{
	start = (start + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
	end &= ~(uint64_t)(PAGE_BYTES - 1);
	if (start >= end || end - start < bytes)
		return 0;
	uint64_t last = end - bytes;
	near &= ~(uint64_t)(PAGE_BYTES - 1);
	return near < start ? start : near > last ? last : near;
}

uint64_t patch_find_gap(const struct patch_range *ranges, size_t count,
			const struct patch_range *within, uint64_t near, size_t bytes)
{
	uint64_t best = 0, start = within->start;
	for (size_t i = 0; i <= count; i++) {
		uint64_t end = i < count ? ranges[i].start : within->end;
		end = end < within->end ? end : within->end;
		uint64_t place = place_in(start, end, near, bytes);
		if (place && (!best || distance(place, near) < distance(best, near)))
			best = place;
		if (i < count && ranges[i].end > start)
			start = ranges[i].end;
	}
	return best;
}

/* ---- the bytes ---- */

static void put_u64(uint8_t *at, uint64_t value)
{
	memcpy(at, &value, sizeof value);
}

/* An instruction whose operand lies `back` bytes before its end. Returns its end. */
static uint8_t *put_indirect(uint8_t *at, const char *opcode, uint64_t back)
{
	int32_t distance_back = -(int32_t)back;
	size_t bytes = strlen(opcode);
	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)opcode[i];
	memcpy(at + bytes, &distance_back, sizeof distance_back);
	return at + bytes + sizeof distance_back;
}

/* What is most common has the shortest way in the agent. */
static bool is_plain(const struct wire_site *site)
{
	return site->hook == WIRE_HOOK_ALLOC && site->size == 0 && !(site->flags & ~PLAIN_FLAGS) &&
	       site->count >= WIRE_SITE_ARGUMENTS && site->alignment >= WIRE_SITE_ARGUMENTS;
}

static enum wire_glue glue_of(const struct wire_site *site)
{
	unsigned special = site->flags & ~PLAIN_FLAGS;
	if (!(site->flags & WIRE_SITE_LIGHT))
		return WIRE_GLUE_FULL;
	if (is_plain(site) && site->flags & WIRE_SITE_ONE)
		return WIRE_GLUE_ALLOC;
	if (site->hook == WIRE_HOOK_FREE && site->pointer == 0 && !special)
		return site->flags & WIRE_SITE_ONE   ? WIRE_GLUE_FREE
		       : site->flags & WIRE_SITE_FEW ? WIRE_GLUE_FEW_FREE
						     : WIRE_GLUE_LIGHT;
	if (!(site->flags & WIRE_SITE_FEW))
		return WIRE_GLUE_LIGHT;
	if ((site->hook == WIRE_HOOK_ALLOC || site->hook == WIRE_HOOK_OUT) && !special)
		return WIRE_GLUE_FEW_ALLOC;
	return site->hook == WIRE_HOOK_REALLOC && !(special & ~(unsigned)WIRE_SITE_FREES_AT_ZERO)
		       ? WIRE_GLUE_FEW_REALLOC
		       : WIRE_GLUE_LIGHT;
}

/* The slot begins with the site's address. */
static void put_stub(struct patch_set *set, size_t offset, enum wire_glue glue, uint64_t site)
{
	uint8_t *slot = set->island + offset, *at = slot + 8;
	put_u64(slot, site);
	if (glue >= WIRE_GLUE_ALLOC)
		at = put_indirect(at, "\x48\x8d\x0d", /* lea site(%rip), %rcx */
				  set->address + offset + 8 + 7 - site);
	else
		at = put_indirect(at, "\xff\x35", 8 + 6); /* pushq site(%rip) */
	/* jmp *glue(%rip): the pointers are at the island's start */
	put_indirect(at, "\xff\x25", (uint64_t)(at - set->island) + 6 - 8 * glue);
}

static int put_slot(struct patch_set *set, struct plan *plan, size_t index)
{
	struct plan_entry *entry = &plan->entries[index];
	struct patch *patch = &set->patches[index];
	size_t offset = slot_offset(plan, index), copied = 0;
	uint8_t *slot = set->island + offset;
	uint64_t address = set->address + offset;
	uint64_t site = set->address + GLUE_BYTES + index * sizeof(struct wire_site);
	put_stub(set, offset, glue_of(&entry->site), site);
	patch->copy = address + 8 + STUB_BYTES;
	int error = reloc_emit(&entry->reloc, patch->copy, slot + 8 + STUB_BYTES, &copied);
	if (error)
		return error;
	patch->entry = entry;
	patch->address = entry->reloc.address + entry->reloc.entry;
	memcpy(patch->old, entry->reloc.old + entry->reloc.entry, sizeof patch->old);
	return reloc_jump(patch->address, address + 8, patch->new);
}

static void put_sites(struct patch_set *set, struct plan *plan)
{
	for (size_t i = 0; i < plan->entry_count; i++) {
		struct plan_entry *entry = &plan->entries[i];
		if (is_plain(&entry->site))
			entry->site.flags |= WIRE_SITE_PLAIN;
		entry->site.original = set->patches[i].copy;
		if (entry->twin != PLAN_NO_TWIN)
			entry->site.twin = set->patches[entry->twin].copy;
		size_t label = slot_offset(plan, i) + LABEL_AT;
		if (entry->site.source) {
			entry->site.label = set->address + label;
			snprintf((char *)set->island + label, LABEL_BYTES, "%s", entry->allocator);
		}
		memcpy(set->island + GLUE_BYTES + i * sizeof entry->site, &entry->site,
		       sizeof entry->site);
	}
}

int patch_place(struct plan *plan, uint64_t island, uint64_t glue, struct patch_set **ret_set,
		struct tm_error *err)
{
	struct patch_set *set = tm_alloc(sizeof *set);
	int error = set ? 0 : -ENOMEM;
	if (set) {
		set->address = island;
		set->island_bytes = patch_island_bytes(plan);
		set->island = tm_alloc(set->island_bytes + 1);
		set->patches = tm_alloc_array(plan->entry_count + 1, sizeof *set->patches);
		set->count = plan->entry_count;
		if (!set->island || !set->patches)
			error = -ENOMEM;
	}
	for (size_t i = 0; !error && i < plan->entry_count; i++)
		error = put_slot(set, plan, i);
	if (error) {
		patch_set_free(set);
		return tm_fail(err, error, "%s",
			       error == -ERANGE ? "the code is too far from free memory"
						: "out of memory");
	}
	if (set->count) {
		for (size_t i = 0; i < WIRE_GLUE_COUNT; i++)
			put_u64(set->island + 8 * i, glue + i * WIRE_GLUE_BYTES);
		put_sites(set, plan);
	}
	*ret_set = set;
	return 0;
}

struct patch_set *patch_set_free(struct patch_set *set)
{
	if (set) {
		tm_free(set->island);
		tm_free(set->patches);
	}
	return tm_free(set);
}

uint64_t patch_move_pc(const struct patch_set *set, uint64_t pc)
{
	for (size_t i = 0; i < set->count; i++) {
		const struct patch *patch = &set->patches[i];
		const struct reloc *reloc = &patch->entry->reloc;
		if (pc <= patch->address || pc >= patch->address + RELOC_PATCH_BYTES)
			continue;
		for (unsigned k = 0; k < reloc->steps; k++)
			if (reloc->address + reloc->step[k].from == pc)
				return patch->copy + reloc->step[k].to;
	}
	return pc;
}
