/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/plan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "inject/clobber.h"
#include "inject/plan_api.h"
#include "inject/plan_find.h"
#include "inject/plan_nim.h"

enum { CODE_BYTES_MAX = 64 << 10 }; /* of one function, looked at for branches into its beginning */

/* While a plan is made. */
struct making {
	const struct plan_source *source;
	struct plan_elf elf;
	struct plan_found found;
	struct plan *plan;
	uint8_t *code; /* CODE_BYTES_MAX */
};

static struct reloc_code code_of(const struct making *making,
				 const struct plan_candidate *candidate)
{
	size_t bytes = CODE_BYTES_MAX;
	if (candidate->next - candidate->address < bytes)
		bytes = candidate->next - candidate->address;
	return (struct reloc_code){
		.bytes = making->code,
		.count = plan_elf_code(&making->elf, candidate->address, making->code, bytes),
		.function_bytes = candidate->bytes,
		.address = making->source->bias + candidate->address,
	};
}

/* ---- which of the names ---- */

/* One function has one hook: the list is sorted so that the best name of an address is first. */
static void drop_aliases(struct plan_found *found)
{
	for (size_t i = 1; i < found->count; i++)
		found->list[i].dropped = found->list[i].address == found->list[i - 1].address;
}

/*
 * operator new of the C++ library ends in malloc, and is left to it; an
 * allocator's own does not. Which one it is shows in whom it calls; those that
 * call one that is left out are left out, too.
 */
static void drop_operators(struct making *making)
{
	struct plan_found *found = &making->found;
	uint64_t targets[PLAN_CANDIDATES_MAX];
	size_t target_count = 0;
	for (size_t i = 0; i < found->count; i++)
		if (found->list[i].match.family != PLAN_FAMILY_CXX &&
		    found->list[i].match.family != PLAN_FAMILY_SYSTEM)
			targets[target_count++] = making->source->bias + found->list[i].address;
	for (bool again = true; again;) {
		again = false;
		for (size_t i = 0; i < found->count; i++) {
			struct plan_candidate *candidate = &found->list[i];
			struct reloc_code code;
			if (candidate->dropped || candidate->match.family != PLAN_FAMILY_CXX)
				continue;
			code = code_of(making, candidate);
			candidate->dropped = !target_count || !making->plan->has_malloc ||
					     reloc_leads_to(&code, targets, target_count);
			if (candidate->dropped) {
				targets[target_count++] = code.address;
				again = true;
			}
		}
	}
}

static bool has(const struct plan_found *found, const char *name)
{
	for (size_t i = 0; i < found->count; i++)
		if (!found->list[i].flaw && !strcmp(found->list[i].name, name))
			return true;
	return false;
}

/* fork itself runs what the program wants run around it. */
static void drop_fork(struct plan_found *found)
{
	bool inner = has(found, "_Fork");
	for (size_t i = 0; i < found->count; i++)
		found->list[i].dropped |= inner && !strcmp(found->list[i].name, "fork");
}

/* ---- what becomes of them ---- */

static void refuse(struct plan *plan, const char *name, const char *reason)
{
	struct plan_refusal *refusal = &plan->refusals[plan->refusal_count++];
	refusal->name = name;
	snprintf(refusal->reason, sizeof refusal->reason, "%.239s", reason);
}

static const char *flaw_text(enum plan_flaw flaw)
{
	switch (flaw) {
	case PLAN_FLAW_DATA:
		return "it is data, not a function";
	case PLAN_FLAW_IFUNC:
		return "it is chosen when the program starts (an ifunc)";
	case PLAN_FLAW_VARIANT:
		return "the compiler has made a variant of it, whose arguments differ";
	case PLAN_FLAW_COPIED:
		return "the compiler has put copies of it into other functions: see docs/nim.md";
	case PLAN_FLAW_NONE:
		break;
	}
	return "";
}

/*
 * Whose block it is: the name goes with the event. Plain malloc needs none. A
 * pool may have its memory from another allocator, so that the same address is
 * known twice.
 */
static void name_source(const struct making *making, const struct plan_candidate *candidate,
			enum plan_family family, struct plan_entry *entry)
{
	static const uint8_t sources[PLAN_FAMILY_COUNT] = {
		[PLAN_FAMILY_JEMALLOC] = 1, [PLAN_FAMILY_MIMALLOC] = 2, [PLAN_FAMILY_TCMALLOC] = 3,
		[PLAN_FAMILY_NIM] = 4,      [PLAN_FAMILY_CUSTOM] = 5,
	};
	entry->allocator = plan_family_name(family);
	entry->site.source = sources[family];
	if (family == PLAN_FAMILY_CUSTOM || family == PLAN_FAMILY_NIM)
		entry->site.flags |= WIRE_SITE_OWN_KEY;
	if (candidate->hook != PLAN_NO_HOOK) {
		const struct plan_hook *hook = &making->source->hooks->list[candidate->hook];
		entry->allocator = hook->allocator;
		entry->site.source = (uint8_t)(entry->site.source + hook->list);
	}
}
_Static_assert(5 + PLAN_ALLOCATORS_MAX <= WIRE_SITE_SOURCES, "each list has a number");

static void add_entry(struct making *making, const struct plan_candidate *candidate, bool jemalloc)
{
	struct plan *plan = making->plan;
	struct plan_entry *entry = &plan->entries[plan->entry_count];
	struct tm_error reason = {0};
	if (candidate->flaw) {
		refuse(plan, candidate->name, flaw_text(candidate->flaw));
		return;
	}
	struct reloc_code code = code_of(making, candidate);
	if (reloc_decode(&code, &entry->reloc, &reason)) {
		refuse(plan, candidate->name, reason.text);
		return;
	}
	enum plan_family family = candidate->match.family;
	entry->site = candidate->match.name->site;
	entry->site.api = (uint8_t)candidate->match.api;
	/* Of a function that returns something, rax needs no care. */
	uint32_t cares = CLOBBER_OTHERS | (entry->site.hook == WIRE_HOOK_FREE ? CLOBBER_RAX : 0);
	if (!(cares & ~clobber_find(&code, &making->elf, making->source->bias)))
		entry->site.flags |= WIRE_SITE_LIGHT;
	if (jemalloc && (family == PLAN_FAMILY_LIBC || family == PLAN_FAMILY_CXX)) {
		family = PLAN_FAMILY_JEMALLOC;
		entry->site.api = WIRE_API_JEMALLOC;
	}
	name_source(making, candidate, family, entry);
	entry->name = candidate->name;
	entry->twin = PLAN_NO_TWIN;
	plan->entry_count++;
}

static uint32_t entry_at(const struct plan *plan, uint64_t address)
{
	for (size_t i = 0; i < plan->entry_count; i++)
		if (plan->entries[i].reloc.address == address)
			return (uint32_t)i;
	return PLAN_NO_TWIN;
}

/* The form that does not throw, whatever name it was kept under. */
static void find_twin(struct making *making, const struct plan_candidate *candidate)
{
	const char *twin = candidate->match.name->twin;
	uint32_t own = entry_at(making->plan, making->source->bias + candidate->address);
	for (size_t i = 0; twin && own != PLAN_NO_TWIN && i < making->found.count; i++)
		if (!strcmp(making->found.list[i].name, twin))
			making->plan->entries[own].twin = entry_at(
				making->plan, making->source->bias + making->found.list[i].address);
}

/*
 * A thread that ends gives the blocks of its cache, which the program has freed
 * long ago, to free() itself.
 */
static void find_own_calls(struct making *making)
{
	static const char caller[] = "__malloc_arena_thread_freeres";
	for (size_t k = 0; making->plan->entry_count && k < making->elf.table_count; k++)
		for (size_t i = 0; i < making->elf.tables[k].count; i++) {
			const struct plan_table *table = &making->elf.tables[k];
			const Elf64_Sym *symbol = &table->symbols[i];
			if (symbol->st_shndx == SHN_UNDEF ||
			    strcmp(plan_elf_name(table, symbol), caller) != 0)
				continue;
			for (size_t n = 0; n < making->plan->entry_count; n++) {
				struct wire_site *site = &making->plan->entries[n].site;
				if (site->hook != WIRE_HOOK_FREE || site->source)
					continue;
				site->flags |= WIRE_SITE_OWN_CALLS;
				site->twin = making->source->bias + symbol->st_value;
				site->label = symbol->st_size;
			}
		}
}

/* The names are the plan's own, so that the tables can go. */
static int keep_names(struct plan *plan)
{
	size_t bytes = 1, at = 0;
	for (size_t i = 0; i < plan->entry_count; i++)
		bytes += strlen(plan->entries[i].name) + 1;
	for (size_t i = 0; i < plan->refusal_count; i++)
		bytes += strlen(plan->refusals[i].name) + 1;
	plan->names = tm_alloc(bytes);
	if (!plan->names)
		return -ENOMEM;
	for (size_t i = 0; i < plan->entry_count + plan->refusal_count; i++) {
		const char **name = i < plan->entry_count
					    ? &plan->entries[i].name
					    : &plan->refusals[i - plan->entry_count].name;
		strcpy(plan->names + at, *name);
		*name = plan->names + at;
		at += strlen(*name) + 1;
	}
	return 0;
}

static int make(struct making *making)
{
	struct plan_found *found = &making->found;
	struct plan *plan = making->plan;
	plan->entries = tm_alloc_array(found->count + 1, sizeof *plan->entries);
	plan->refusals = tm_alloc_array(found->count + 1, sizeof *plan->refusals);
	if (!plan->entries || !plan->refusals)
		return -ENOMEM;
	plan->has_malloc = has(found, "malloc");
	drop_aliases(found);
	drop_fork(found);
	drop_operators(making);
	/* A module with mallocx under no prefix is jemalloc; so is then its malloc. */
	bool jemalloc = has(found, "mallocx");
	for (size_t i = 0; i < found->count; i++)
		if (found->list[i].hook != PLAN_NO_HOOK)
			plan->hooks_found |= 1ull << found->list[i].hook;
	for (size_t i = 0; i < found->count; i++)
		if (!found->list[i].dropped)
			add_entry(making, &found->list[i], jemalloc);
	for (size_t i = 0; i < found->count; i++)
		if (!found->list[i].dropped)
			find_twin(making, &found->list[i]);
	find_own_calls(making);
	if ((making->source->what & PLAN_NATIVE) &&
	    plan_nim_is_hidden(&making->elf, making->source->what & PLAN_LIBC))
		refuse(plan, "Nim's allocator", "the program has no symbols: see docs/nim.md");
	return keep_names(plan);
}

int plan_new(const struct plan_source *source, struct plan **ret_plan, struct tm_error *err)
{
	struct making making = {.source = source};
	int error = plan_elf_open(source->fd, &making.elf, err);
	if (error)
		return error;
	making.plan = tm_alloc(sizeof *making.plan);
	making.code = tm_alloc(CODE_BYTES_MAX);
	error = making.plan && making.code ? plan_find(&making.elf, source, &making.found)
					   : -ENOMEM;
	if (!error) {
		making.plan->has_symbols = making.elf.table_count > 0;
		making.plan->api_table = plan_api_table(&making.elf);
		if (making.plan->api_table)
			making.plan->api_table += source->bias;
		error = make(&making);
	}
	tm_free(making.code);
	tm_free(making.found.list);
	plan_elf_done(&making.elf);
	if (error) {
		plan_free(making.plan);
		return tm_fail(err, error, "out of memory");
	}
	*ret_plan = making.plan;
	return 0;
}

struct plan *plan_free(struct plan *plan)
{
	if (plan) {
		tm_free(plan->entries);
		tm_free(plan->refusals);
		tm_free(plan->names);
	}
	return tm_free(plan);
}
