/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Known limits: a function whose code lies in several ranges (hot and cold
 * parts) has one entry per range, each followed by all that is inlined into it.
 */
#include "symbols/scopes.h"

#include <dwarf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/memory.h"

enum { RANGES_MAX = 4096 };

struct scopes_function {
	uint64_t low, high;
	size_t first, count; /* in list */
};

static int add_scope(struct scopes *scopes, struct scope scope)
{
	if (scopes->count == scopes->room) {
		size_t room = scopes->room * 2 + 64;
		if (room > SCOPES_MAX)
			return -EFBIG;
		void *grown = tm_grow_array(scopes->list, room, sizeof *scopes->list);
		if (!grown)
			return -ENOMEM;
		scopes->list = grown;
		scopes->room = room;
	}
	scopes->list[scopes->count++] = scope;
	return 0;
}

static int add_function(struct scopes *scopes, struct scopes_function function)
{
	if (scopes->function_count == scopes->function_room) {
		size_t room = scopes->function_room * 2 + 64;
		if (room > SCOPES_MAX)
			return -EFBIG;
		void *grown = tm_grow_array(scopes->functions, room, sizeof *scopes->functions);
		if (!grown)
			return -ENOMEM;
		scopes->functions = grown;
		scopes->function_room = room;
	}
	scopes->functions[scopes->function_count++] = function;
	return 0;
}

/* One scope per range of the entry. Returns 1 if it has code, 0 if not, -errno. */
static int add_ranges(struct scopes *scopes, Dwarf_Die *die, uint32_t depth)
{
	Dwarf_Addr base, low, high;
	ptrdiff_t offset = 0;
	int found = 0;
	for (int i = 0; i < RANGES_MAX; i++) {
		offset = dwarf_ranges(die, offset, &base, &low, &high);
		if (offset <= 0)
			break;
		if (low >= high || low == 0)
			continue; /* empty, or dropped by the linker */
		int code = add_scope(scopes, (struct scope){
						     .low = low,
						     .high = high,
						     .depth = depth,
						     .die = dwarf_dieoffset(die),
					     });
		if (code)
			return code;
		found = 1;
	}
	return found;
}

static bool may_hold_code(int tag)
{
	switch (tag) {
	case DW_TAG_subprogram:
	case DW_TAG_inlined_subroutine:
	case DW_TAG_lexical_block:
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_structure_type: /* Rust and D put methods into types */
	case DW_TAG_class_type:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
		return true;
	}
	return false;
}

/* What one level of the walk remembers. */
struct level {
	Dwarf_Die die;
	uint32_t depth;   /* of scopes found here */
	size_t function;  /* where the function that encloses this level began; SIZE_MAX = none */
	bool is_function; /* this level's entry is that function */
};

/* All ranges of a function, then everything inside: each range gets the whole. */
static int close_function(struct scopes *scopes, size_t first)
{
	for (size_t i = first; i < scopes->count && scopes->list[i].depth == 0; i++) {
		int code = add_function(scopes, (struct scopes_function){
							.low = scopes->list[i].low,
							.high = scopes->list[i].high,
							.first = first,
							.count = scopes->count - first,
						});
		if (code)
			return code;
	}
	return 0;
}

/*
 * Notes an entry's own code. Sets *ret_enter if its children are to be walked,
 * at the level it fills.
 */
static int visit(struct scopes *scopes, const struct level *from, Dwarf_Die *die,
		 struct level *ret_level, bool *ret_enter)
{
	int tag = dwarf_tag(die);
	*ret_enter = false;
	if (!may_hold_code(tag))
		return 0;
	struct level level = {.depth = from->depth, .function = from->function};
	bool inlined = tag == DW_TAG_inlined_subroutine;
	if (inlined && from->function == SIZE_MAX)
		return 0;
	if (inlined || tag == DW_TAG_subprogram) {
		/* A function inside a function is one of its own. */
		size_t first = scopes->count;
		int code = add_ranges(scopes, die, inlined ? from->depth : 0);
		if (code <= 0)
			return code;
		level.depth = inlined ? from->depth + 1 : 1;
		level.is_function = !inlined;
		level.function = inlined ? from->function : first;
	}
	*ret_enter = dwarf_child(die, &level.die) == 0;
	if (!*ret_enter && level.is_function)
		return close_function(scopes, level.function);
	*ret_level = level;
	return 0;
}

static int walk(struct scopes *scopes, Dwarf_Die *unit, struct level *levels)
{
	size_t top = 0;
	levels[0] = (struct level){.function = SIZE_MAX};
	if (dwarf_child(unit, &levels[0].die) != 0)
		return 0;
	for (;;) {
		bool enter = false;
		struct level next;
		int code = visit(scopes, &levels[top], &levels[top].die, &next, &enter);
		if (code)
			return code;
		if (enter && top + 1 < SCOPES_DEPTH_MAX) {
			levels[++top] = next;
			continue;
		}
		if (enter && next.is_function && close_function(scopes, next.function))
			return -ENOMEM;
		while (dwarf_siblingof(&levels[top].die, &levels[top].die) != 0) {
			if (levels[top].is_function &&
			    (code = close_function(scopes, levels[top].function)))
				return code;
			if (top-- == 0)
				return 0;
		}
	}
}

static int by_address(const void *left, const void *right)
{
	const struct scopes_function *a = left, *b = right;
	return (a->low > b->low) - (a->low < b->low);
}

int scopes_init(struct scopes *scopes, Dwarf_Die *unit)
{
	*scopes = (struct scopes){0};
	struct level *levels = tm_alloc_array(SCOPES_DEPTH_MAX, sizeof *levels);
	if (!levels)
		return -ENOMEM;
	int code = walk(scopes, unit, levels);
	tm_free(levels);
	if (code) {
		scopes_done(scopes);
		return code;
	}
	if (scopes->function_count)
		qsort(scopes->functions, scopes->function_count, sizeof *scopes->functions,
		      by_address);
	return 0;
}

void scopes_done(struct scopes *scopes)
{
	tm_free(scopes->list);
	tm_free(scopes->functions);
	*scopes = (struct scopes){0};
}

size_t scopes_bytes(const struct scopes *scopes)
{
	return scopes->room * sizeof *scopes->list +
	       scopes->function_room * sizeof *scopes->functions;
}

static const struct scopes_function *find_function(const struct scopes *scopes, uint64_t address)
{
	size_t low = 0, high = scopes->function_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (scopes->functions[middle].low <= address)
			low = middle + 1;
		else
			high = middle;
	}
	/* The last that begins before it; functions do not overlap. */
	if (!low || address >= scopes->functions[low - 1].high)
		return NULL;
	return &scopes->functions[low - 1];
}

size_t scopes_find(const struct scopes *scopes, uint64_t address, const struct scope **ret_scopes,
		   size_t max)
{
	const struct scopes_function *function = find_function(scopes, address);
	size_t found = 0;
	for (size_t i = 0; function && i < function->count && found < max; i++) {
		const struct scope *scope = &scopes->list[function->first + i];
		if (address >= scope->low && address < scope->high && scope->depth == found)
			ret_scopes[found++] = scope;
	}
	return found;
}
