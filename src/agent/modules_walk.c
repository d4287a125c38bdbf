/* SPDX-License-Identifier: Apache-2.0 */
/* The loader's list: copying, comparing, sorting. */
#include "agent/modules_scan.h"

static bool add(struct scan_list *list, const struct scan_entry *entry)
{
	if (list->count == list->capacity)
		return false;
	list->entries[list->count++] = *entry;
	return true;
}

/* The vdso has p_vaddr 0, so its bias is the address of its header. */
static bool is_vdso(const struct scan *scan, uintptr_t bias)
{
	return scan->scope.auxv.vdso && bias == scan->scope.auxv.vdso;
}

static struct scan_entry entry_of(uintptr_t at, const struct elf_link_map *map)
{
	return (struct scan_entry){
		.map = at,
		.bias = map->bias,
		.dynamic = map->dynamic,
		.name = map->name,
		.key = map->dynamic,
	};
}

static enum scan_result walk_namespace(struct scan *scan, uintptr_t at, struct scan_list *ret,
				       bool *ret_vdso)
{
	for (unsigned i = 0; at; i++) {
		struct elf_link_map map;
		if (i == SCAN_OBJECTS_MAX || !scan->peek(scan->ctx, at, &map, sizeof map))
			return SCAN_BUSY;
		struct scan_entry entry = entry_of(at, &map);
		*ret_vdso |= is_vdso(scan, map.bias);
		if (!add(ret, &entry))
			return SCAN_FULL;
		at = map.next;
	}
	return SCAN_OK;
}

/* Ourselves, where a tracer has mapped us; else nothing to add. */
static bool add_own(const struct scan *scan, struct scan_list *ret)
{
	struct scan_entry own = {
		.bias = scan->own_image,
		.dynamic = scan->own_dynamic,
		.key = scan->own_dynamic,
	};
	return !scan->own_image || add(ret, &own);
}

/* The r_debug of one namespace, in whatever state. */
static bool read_debug(struct scan *scan, uintptr_t at, struct elf_debug *ret)
{
	*ret = (struct elf_debug){.version = 0};
	if (!scan->peek(scan->ctx, at, ret, ELF_DEBUG_BYTES_V1))
		return false;
	if (ret->version < 2)
		return true;
	return scan->peek(scan->ctx, at + ELF_DEBUG_BYTES_V1, &ret->next, sizeof ret->next);
}

/* May the list be believed in this state? */
static bool is_settled(const struct elf_debug *debug)
{
	return debug->state == ELF_RT_CONSISTENT;
}

static enum scan_result walk_loader(struct scan *scan, struct scan_list *ret, bool *ret_vdso)
{
	uintptr_t at = scan->scope.debug;

	for (unsigned i = 0; at && i < SCAN_NAMESPACES_MAX; i++) {
		struct elf_debug debug;
		struct elf_debug after;
		if (!read_debug(scan, at, &debug) || !is_settled(&debug))
			return SCAN_BUSY;
		enum scan_result result = walk_namespace(scan, debug.map, ret, ret_vdso);
		if (result != SCAN_OK)
			return result;
		if (!read_debug(scan, at, &after) || !is_settled(&after) || after.map != debug.map)
			return SCAN_BUSY;
		at = debug.next;
	}
	return SCAN_OK;
}

enum scan_result scan_walk(struct scan *scan, struct scan_list *ret)
{
	bool have_vdso = false;
	const struct elf_scope *scope = &scan->scope;

	ret->count = 0;
	if (scope->debug) {
		enum scan_result result = walk_loader(scan, ret, &have_vdso);
		if (result != SCAN_OK)
			return result;
	} else if (scope->auxv.phdr) {
		struct scan_entry program = {
			.bias = scope->main_bias,
			.dynamic = scope->main_dynamic,
			.key = scope->auxv.phdr,
		};
		if (!add(ret, &program))
			return SCAN_FULL;
	}
	if (scope->auxv.vdso && !have_vdso) {
		struct scan_entry vdso = {.bias = scope->auxv.vdso, .key = scope->auxv.vdso};
		if (!add(ret, &vdso))
			return SCAN_FULL;
	}
	return add_own(scan, ret) ? SCAN_OK : SCAN_FULL;
}

/* Keep entry if it is nearer to pc than what is there. */
static void keep_nearer(const struct scan_entry *entry, uintptr_t pc, struct scan_entry *below,
			struct scan_entry *above)
{
	if (entry->key <= pc && entry->key > below->key)
		*below = *entry;
	if (entry->key > pc && entry->key < above->key)
		*above = *entry;
}

unsigned scan_near(struct scan *scan, uintptr_t pc, struct scan_entry ret[2])
{
	struct scan_entry below = {.key = 0};
	struct scan_entry above = {.key = UINTPTR_MAX};
	uintptr_t debug_at = scan->scope.debug;
	unsigned count = 0;

	for (unsigned i = 0; debug_at && i < SCAN_NAMESPACES_MAX; i++) {
		struct elf_debug debug;
		struct elf_link_map map;
		if (!read_debug(scan, debug_at, &debug))
			break;
		uintptr_t at = debug.map;
		for (unsigned j = 0; at && j < SCAN_NEAR_MAX; j++, at = map.next) {
			if (!scan->peek(scan->ctx, at, &map, sizeof map))
				break;
			struct scan_entry entry = entry_of(at, &map);
			keep_nearer(&entry, pc, &below, &above);
		}
		debug_at = debug.next;
	}
	if (below.key)
		ret[count++] = below;
	if (above.key != UINTPTR_MAX)
		ret[count++] = above;
	return count;
}

bool scan_same(const struct scan_list *a, const struct scan_list *b)
{
	return a->count == b->count &&
	       __builtin_memcmp(a->entries, b->entries, a->count * sizeof a->entries[0]) == 0;
}

/* Shell's sort: in place, no recursion, fast enough for some thousand entries. */
void scan_sort(struct scan_list *list)
{
	for (uint32_t gap = list->count / 2; gap; gap /= 2) {
		for (uint32_t i = gap; i < list->count; i++) {
			struct scan_entry entry = list->entries[i];
			uint32_t place = i;
			while (place >= gap && list->entries[place - gap].key > entry.key) {
				list->entries[place] = list->entries[place - gap];
				place -= gap;
			}
			list->entries[place] = entry;
		}
	}
}
