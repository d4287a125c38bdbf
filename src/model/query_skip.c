/* SPDX-License-Identifier: Apache-2.0 */
#include "model/query_skip.h"

#include <errno.h>

#include "base/memory.h"

static bool may_be_born(const struct section_part *part, const struct filter_bound *filter)
{
	const struct filter_span span = {.min_size_bytes = part->min_size_bytes,
					 .max_size_bytes = part->max_size_bytes,
					 .start_ns = part->start_ns,
					 .end_ns = part->end_ns,
					 .min_address = 1,
					 .max_address = 0};
	return filter_span_may_match(filter, &span);
}

/* The part in which a block was born. */
static size_t part_of_block(const struct query_section *s, uint64_t block_id)
{
	size_t low = 0, high = s->part_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (s->parts[middle].first_block_id > block_id)
			high = middle;
		else
			low = middle + 1;
	}
	return low ? low - 1 : 0;
}

/*
 * before[i] counts the parts before i in which something may be born. False if
 * some part says nothing of its ends, or has a realloc that failed, which may
 * have begun in a part that would be left out.
 */
static bool plan(const struct query_section *s, const struct filter_bound *filter, size_t *before,
		 bool *skip)
{
	for (size_t i = 0; i < s->part_count; i++) {
		struct trace_ends_facts ends;
		bool born = may_be_born(&s->parts[i], filter);
		before[i + 1] = before[i] + born;
		if (trace_reader_ends_facts(s->reader, i, &ends) || ends.undone)
			return false;
		size_t first = part_of_block(s, ends.lowest_block_id);
		size_t last = part_of_block(s, ends.highest_block_id);
		bool end = ends.count > 0 && last < s->part_count && first <= last && last <= i &&
			   before[last + 1] > before[first];
		skip[i] = !born && !end;
	}
	return true;
}

int skip_plan_make(const struct query_section *section, const struct filter_bound *filter,
		   struct skip_plan *ret)
{
	*ret = (struct skip_plan){0};
	if (!filter)
		return 0;
	size_t *before = tm_alloc_array(section->part_count + 2, sizeof *before);
	ret->skip = tm_alloc_array(section->part_count + 1, sizeof *ret->skip);
	if (before && ret->skip)
		ret->active = plan(section, filter, before, ret->skip);
	bool failed = !before || !ret->skip;
	tm_free(before);
	return failed ? -ENOMEM : 0;
}

void skip_plan_done(struct skip_plan *plan)
{
	tm_free(plan->skip);
	*plan = (struct skip_plan){0};
}

bool skip_plan_skips(const void *ctx, size_t index)
{
	const struct skip_plan *plan = ctx;
	return plan->active && plan->skip[index];
}
