/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/scopes.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>

#include "base/memory.h"
#include "symbols/walk.h"

/* What one unit may make us keep; how deep inlining is followed. */
enum { SCOPES_MAX = 1 << 22, LOOK_BACK = 64 };

struct add_function {
	struct functions *functions;
	uint64_t die;
};

static int add_function(void *ctx, uint64_t low, uint64_t high)
{
	struct add_function *add = ctx;
	struct functions *functions = add->functions;
	if (functions->count == functions->room) {
		size_t room = functions->room * 2 + 64;
		if (room > SCOPES_MAX)
			return -EFBIG;
		void *grown = tm_grow_array(functions->list, room, sizeof *functions->list);
		if (!grown)
			return -ENOMEM;
		functions->list = grown;
		functions->room = room;
	}
	functions->list[functions->count++] =
		(struct scope_function){.low = low, .high = high, .die = add->die};
	return 0;
}

static int by_low(const void *left, const void *right)
{
	const struct scope_function *a = left, *b = right;
	return (a->low > b->low) - (a->low < b->low);
}

static bool holds_functions(unsigned tag)
{
	return tag == DW_TAG_compile_unit || tag == DW_TAG_namespace || tag == DW_TAG_module;
}

int functions_load(struct functions *functions, struct unit *unit, bool deep)
{
	*functions = (struct functions){.is_deep = true};
	struct walk walk;
	struct die die;
	int depth, code = 0;
	if (!walk_begin(&walk, unit, unit->dies))
		return 0;
	while (!code && walk_next(&walk, &die, &depth)) {
		unsigned tag = die.abbrev->tag;
		if (tag == DW_TAG_subprogram && die.abbrev->has_code)
			code = die_ranges(&die, add_function,
					  &(struct add_function){functions, die.offset});
		if (!deep && !holds_functions(tag) && die.abbrev->has_children &&
		    walk_over(&walk, &die))
			functions->is_deep = false;
	}
	if (code) {
		functions_done(functions);
		return code;
	}
	if (functions->count)
		qsort(functions->list, functions->count, sizeof *functions->list, by_low);
	return 0;
}

void functions_done(struct functions *functions)
{
	tm_free(functions->list);
	*functions = (struct functions){0};
}

const struct scope_function *functions_find(const struct functions *functions, uint64_t address)
{
	size_t low = 0, high = functions->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (functions->list[middle].low <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = low; i-- > 0 && low - i <= LOOK_BACK;)
		if (address < functions->list[i].high)
			return &functions->list[i];
	return NULL;
}

struct add_scope {
	struct scopes *scopes;
	uint32_t depth;
	uint64_t die;
	bool has_code;
};

static int add_scope(void *ctx, uint64_t low, uint64_t high)
{
	struct add_scope *add = ctx;
	struct scopes *scopes = add->scopes;
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
	add->has_code = true;
	scopes->list[scopes->count++] =
		(struct scope){.low = low, .high = high, .depth = add->depth, .die = add->die};
	return 0;
}

static bool return_address(const struct die *die, uint64_t *ret_address)
{
	struct value value = die_value(die, DW_AT_call_return_pc);
	if (!value.form)
		value = die_value(die, DW_AT_low_pc); /* before DWARF 5 */
	return unit_address(die->unit, &value, ret_address);
}

static int add_call(struct scopes *scopes, const struct die *die)
{
	if (die_value(die, DW_AT_call_tail_call).form || die_value(die, DW_AT_GNU_tail_call).form) {
		scopes->has_tail_calls = true;
		return 0;
	}
	uint64_t return_pc;
	if (!return_address(die, &return_pc))
		return 0;
	if (scopes->call_count == scopes->call_room) {
		size_t room = scopes->call_room * 2 + 64;
		if (room > SCOPES_MAX)
			return -EFBIG;
		void *grown = tm_grow_array(scopes->calls, room, sizeof *scopes->calls);
		if (!grown)
			return -ENOMEM;
		scopes->calls = grown;
		scopes->call_room = room;
	}
	scopes->calls[scopes->call_count++] =
		(struct scope_call){.return_pc = return_pc, .die = die->offset};
	return 0;
}

/*
 * How deep inlining is at each depth of the entries: an entry's own depth
 * follows from the one above it.
 */
enum { DEPTH_MAX = 1024 };

struct inside {
	struct scopes *scopes;
	uint32_t inlining[DEPTH_MAX]; /* of what is below the entry at this depth */
	int skip_below;               /* entries deeper than this are not ours; 0 = none */
};

/* Functions inside functions are others; so is what an entry without code holds. */
static int visit(struct inside *inside, struct walk *walk, const struct die *die, int depth)
{
	if (inside->skip_below && depth > inside->skip_below)
		return 0;
	inside->skip_below = 0;
	uint32_t around = inside->inlining[depth - 1];
	inside->inlining[depth] = around;
	bool leave_out = false;
	int code = 0;
	switch (die->abbrev->tag) {
	case DW_TAG_inlined_subroutine: {
		struct add_scope add = {inside->scopes, around + 1, die->offset, false};
		code = die_ranges(die, add_scope, &add);
		leave_out = !add.has_code;
		inside->inlining[depth] = around + 1;
		break;
	}
	case DW_TAG_call_site:
	case DW_TAG_GNU_call_site:
		code = add_call(inside->scopes, die);
		leave_out = true;
		break;
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
		break;
	default:
		leave_out = true;
	}
	if (leave_out && die->abbrev->has_children && !walk_over(walk, die))
		inside->skip_below = depth;
	return code;
}

int scopes_load(struct scopes *scopes, struct unit *unit, uint64_t offset)
{
	*scopes = (struct scopes){0};
	struct inside inside = {.scopes = scopes};
	struct walk walk;
	struct die die;
	int depth, code = 0;
	if (!walk_begin(&walk, unit, offset))
		return 0;
	while (!code && walk_next(&walk, &die, &depth)) {
		if (depth >= DEPTH_MAX)
			break;
		if (depth > 0)
			code = visit(&inside, &walk, &die, depth);
	}
	if (code)
		scopes_done(scopes);
	return code;
}

void scopes_done(struct scopes *scopes)
{
	tm_free(scopes->list);
	tm_free(scopes->calls);
	*scopes = (struct scopes){0};
}

size_t scopes_find(const struct scopes *scopes, uint64_t address, uint64_t *ret_dies, size_t max)
{
	size_t found = 0;
	for (size_t i = 0; i < scopes->count && found < max; i++) {
		const struct scope *scope = &scopes->list[i];
		if (address >= scope->low && address < scope->high && scope->depth == found + 1)
			ret_dies[found++] = scope->die;
	}
	return found;
}

uint64_t scopes_call(const struct scopes *scopes, uint64_t return_pc)
{
	for (size_t i = 0; i < scopes->call_count; i++)
		if (scopes->calls[i].return_pc == return_pc)
			return scopes->calls[i].die;
	return 0;
}

struct probe {
	uint64_t address;
};

static int covers(void *ctx, uint64_t low, uint64_t high)
{
	const struct probe *probe = ctx;
	return probe->address >= low && probe->address < high;
}

static bool holds_scopes(unsigned tag)
{
	return tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block ||
	       tag == DW_TAG_try_block || tag == DW_TAG_catch_block;
}

size_t scopes_search(struct unit *unit, uint64_t function, uint64_t address, uint64_t *ret_dies,
		     size_t max, uint64_t *ret_call)
{
	struct probe probe = {.address = address};
	struct walk walk;
	struct die die;
	int depth, inside = 0, skip_below = 0;
	size_t found = 0;
	*ret_call = 0;
	if (!walk_begin(&walk, unit, function))
		return 0;
	while (found < max && walk_next(&walk, &die, &depth)) {
		/* What is inlined there has no second one beside it; blocks may overlap. */
		if (depth <= inside && depth > 0)
			break;
		if (depth == 0 || (skip_below && depth > skip_below))
			continue;
		skip_below = 0;
		unsigned tag = die.abbrev->tag;
		uint64_t return_pc;
		if ((tag == DW_TAG_call_site || tag == DW_TAG_GNU_call_site) &&
		    return_address(&die, &return_pc) && return_pc == address + 1)
			*ret_call = die.offset;
		bool enter = holds_scopes(tag);
		if (enter && die.abbrev->has_code)
			enter = die_ranges(&die, covers, &probe) != 0;
		else if (tag == DW_TAG_inlined_subroutine)
			enter = false;
		if (enter && tag == DW_TAG_inlined_subroutine) {
			ret_dies[found++] = die.offset;
			inside = depth;
		}
		if (!enter && die.abbrev->has_children && !walk_over(&walk, &die))
			skip_below = depth;
	}
	return found;
}
