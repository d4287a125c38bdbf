/* SPDX-License-Identifier: Apache-2.0 */
#include "sql/stack_set.h"

#include <errno.h>

#include "base/memory.h"
#include "sql/site.h"

static void fill_bits(struct stack_set *set, const struct vtab_query *query, int stack_column,
		      int site_column)
{
	const struct vtab_filter *ids = &query->filters[stack_column];
	const struct vtab_filter *sites = site_column >= 0 ? &query->filters[site_column] : NULL;
	for (size_t i = 0; i < set->count; i++) {
		struct site site;
		if (!vtab_filter_has(ids, (int64_t)i))
			continue;
		if (sites && vtab_filter_asks_text(sites)) {
			site_find(query->sql, (uint32_t)i, &site);
			if (!vtab_filter_has_text(sites, site.text))
				continue;
		}
		set->bits[i / 8] |= (uint8_t)(1u << i % 8);
	}
}

struct gather {
	struct stack_set *set;
	uint64_t end; /* of the slices so far */
};

static int add_range(struct stack_set *set, struct stack_range range)
{
	struct stack_range *last = set->range_count > 0 ? &set->ranges[set->range_count - 1] : NULL;
	if (last && last->end == range.first && last->births == range.births &&
	    last->deaths == range.deaths) {
		last->end = range.end;
		return 0;
	}
	if (!set->ranges || set->range_count == set->range_room) {
		size_t room = set->range_room * 2 + 64;
		void *grown = tm_grow_array(set->ranges, room, sizeof *set->ranges);
		if (!grown)
			return -ENOMEM;
		set->ranges = grown;
		set->range_room = room;
	}
	set->ranges[set->range_count++] = range;
	return 0;
}

static int add_slice(void *ctx, const struct trace_slice *slice)
{
	struct gather *gather = ctx;
	struct stack_range range = {.first = slice->first_event,
				    .end = slice->first_event + slice->event_count};
	if (range.end < range.first || range.first != gather->end)
		return -EBADMSG;
	gather->end = range.end;
	for (uint32_t i = 0; i < slice->row_count; i++) {
		const struct trace_slice_row *row = &slice->rows[i];
		if (!stack_set_has(gather->set, row->stack_id))
			continue;
		range.births |= row->births > 0 || row->failed > 0;
		range.deaths |= row->death_count > 0;
	}
	return range.births || range.deaths ? add_range(gather->set, range) : 0;
}

/* Slices that are damaged or have gaps tell nothing: then everything is read. */
static int find_ranges(struct stack_set *set, struct sql *sql)
{
	struct gather gather = {.set = set};
	int code = trace_reader_slices(sql->reader, add_slice, &gather, NULL);
	if (!code)
		code = add_range(set, (struct stack_range){gather.end, UINT64_MAX, true, true});
	if (code == -ENOMEM)
		return code;
	if (code) {
		set->ranges = tm_free(set->ranges);
		set->range_count = set->range_room = 0;
	}
	return 0;
}

int stack_set_init(struct stack_set *set, const struct vtab_query *query, int stack_column,
		   int site_column, struct tm_error *err)
{
	const struct vtab_filter *ids = &query->filters[stack_column];
	bool by_site = site_column >= 0 && vtab_filter_asks_text(&query->filters[site_column]);
	*set = (struct stack_set){0};
	if (!by_site && !ids->has_values && ids->min <= 0 && ids->max == INT64_MAX) {
		set->all = true;
		return 0;
	}
	int code = by_site ? sql_load_names(query->sql, err) : 0;
	if (code)
		return code;
	set->count = query->sql->input.stack_count;
	set->bits = tm_alloc(set->count / 8 + 1);
	if (!set->bits)
		return tm_fail(err, -ENOMEM, "out of memory");
	fill_bits(set, query, stack_column, site_column);
	return find_ranges(set, query->sql) ? tm_fail(err, -ENOMEM, "out of memory") : 0;
}

void stack_set_done(struct stack_set *set)
{
	tm_free(set->bits);
	tm_free(set->ranges);
	*set = (struct stack_set){0};
}

bool stack_set_acts(const struct stack_set *set, uint64_t first, uint64_t end, bool deaths)
{
	if (!set->ranges)
		return true;
	size_t low = 0, high = set->range_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (set->ranges[middle].end <= first)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < set->range_count && set->ranges[low].first < end; low++)
		if (set->ranges[low].births || (deaths && set->ranges[low].deaths))
			return true;
	return false;
}
