/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Known limits: the function that is called must be defined in the unit of the
 * call, and one frame is restored where several functions tail-called in a row.
 */
#include "symbols/tail.h"

#include <dwarf.h>
#include <stdlib.h>

#include "base/memory.h"

struct tail_instance {
	uint64_t origin, die;
};

void tail_done(struct tail *tail)
{
	tm_free(tail->instances);
	namemap_done(&tail->known);
	*tail = (struct tail){0};
}

static int by_origin(const void *left, const void *right)
{
	const struct tail_instance *a = left, *b = right;
	return (a->origin > b->origin) - (a->origin < b->origin);
}

/* Functions with code, by the abstract entry or declaration that calls refer to. */
static void load_instances(struct tail *tail, struct unit *unit, const struct functions *functions)
{
	if (tail->has_instances)
		return;
	tail->has_instances = true;
	tail->instances = tm_alloc_array(functions->count, sizeof *tail->instances);
	for (size_t i = 0; tail->instances && i < functions->count; i++) {
		struct die die, origin;
		if (!die_at(unit, functions->list[i].die, &die))
			continue;
		struct value value = die_value(&die, DW_AT_abstract_origin);
		if (!value.form)
			value = die_value(&die, DW_AT_specification);
		if (value.form && die_follow(unit, &value, &origin) && origin.unit == unit)
			tail->instances[tail->instance_count++] =
				(struct tail_instance){.origin = origin.offset, .die = die.offset};
	}
	if (tail->instances && tail->instance_count)
		qsort(tail->instances, tail->instance_count, sizeof *tail->instances, by_origin);
}

/* The entry with the code of a function; the same if it has none. */
static uint64_t with_code(struct tail *tail, struct unit *unit, const struct functions *functions,
			  const struct die *die)
{
	if (die->abbrev->has_code)
		return die->offset;
	load_instances(tail, unit, functions);
	const struct tail_instance key = {.origin = die->offset};
	const struct tail_instance *found = NULL;
	if (tail->instance_count)
		found = bsearch(&key, tail->instances, tail->instance_count, sizeof key, by_origin);
	return found ? found->die : die->offset;
}

static bool makes_tail_calls(struct tail *tail, struct unit *unit,
			     const struct functions *functions, const struct die *callee)
{
	const struct namemap_entry *known = namemap_find(&tail->known, callee->offset);
	if (known)
		return known->flag;
	struct scopes scopes;
	bool does = !scopes_load(&scopes, unit, with_code(tail, unit, functions, callee)) &&
		    scopes.has_tail_calls;
	scopes_done(&scopes);
	namemap_put(&tail->known,
		    (struct namemap_entry){.key = callee->offset, .name = "", .flag = does});
	return does;
}

bool tail_callee(struct tail *tail, struct unit *unit, const struct functions *functions,
		 uint64_t call_site, struct die *ret_callee)
{
	struct die site;
	if (!call_site || !die_at(unit, call_site, &site))
		return false;
	struct value value = die_value(&site, DW_AT_call_origin);
	if (!value.form)
		value = die_value(&site, DW_AT_abstract_origin); /* before DWARF 5 */
	return value.form && die_follow(unit, &value, ret_callee) && ret_callee->unit == unit &&
	       makes_tail_calls(tail, unit, functions, ret_callee);
}
