/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks that a query asks for, by stack_id and by site, and the parts of the
 * recording in which they did anything: the aggregates know that, so blocks of
 * events in which none of them occurs need not be read.
 */
#pragma once

#include "sql/vtab.h"

struct stack_range { /* events [first, end) */
	uint64_t first, end;
	bool births, deaths;
};

struct stack_set {
	bool all;
	uint8_t *bits; /* by stack_id */
	size_t count;
	struct stack_range *ranges; /* in order; NULL: not known, everything may match */
	size_t range_count, range_room;
};

/* Reads the filters of the two columns. Loads names if the site is asked for. */
TM_MUST_CHECK int stack_set_init(struct stack_set *set, const struct vtab_query *query,
				 int stack_column, int site_column, struct tm_error *err);
void stack_set_done(struct stack_set *set);

static inline bool stack_set_has(const struct stack_set *set, uint32_t stack_id)
{
	return set->all || (stack_id < set->count && set->bits[stack_id / 8] >> stack_id % 8 & 1);
}

/* Whether any of the stacks allocates (or failed), or frees if asked, in the events [first, end).
 */
bool stack_set_acts(const struct stack_set *set, uint64_t first, uint64_t end, bool deaths);
