/* SPDX-License-Identifier: Apache-2.0 */
/* timeline: the slices of the recording, from the aggregates: no event is read. */
#include "sql/slice_walk.h"
#include "sql/tables.h"
#include "sql/vtab.h"

enum {
	SLICE_ID,
	START_NS,
	END_NS,
	EVENTS,
	LIVE_BYTES,
	LIVE_BLOCKS,
	MIN_LIVE_BYTES,
	MAX_LIVE_BYTES,
	MAX_LIVE_NS,
	ALLOCATIONS,
	ALLOCATED_BYTES,
	FREES,
	FREED_BYTES,
	TEMPORARY,
	MAPPED_BYTES,
};

static const struct vtab_column columns[] = {
	{"slice_id", "INTEGER", "number of the slice, from 0", PUSH_INTEGER, true},
	{"start_ns", "INTEGER", "", PUSH_INTEGER, true},
	{"end_ns", "INTEGER", "its last event", PUSH_NOTHING, true},
	{"events", "INTEGER", "in it", PUSH_NOTHING, false},
	{"live_bytes", "INTEGER", "at its end", PUSH_NOTHING, false},
	{"live_blocks", "INTEGER", "at its end", PUSH_NOTHING, false},
	{"min_live_bytes", "INTEGER", "least within it", PUSH_NOTHING, false},
	{"max_live_bytes", "INTEGER", "most within it", PUSH_NOTHING, false},
	{"max_live_ns", "INTEGER", "when that was", PUSH_NOTHING, false},
	{"allocations", "INTEGER", "in it", PUSH_NOTHING, false},
	{"allocated_bytes", "INTEGER", "in it", PUSH_NOTHING, false},
	{"frees", "INTEGER", "in it", PUSH_NOTHING, false},
	{"freed_bytes", "INTEGER", "in it", PUSH_NOTHING, false},
	{"temporary", "INTEGER", "frees of temporary blocks in it", PUSH_NOTHING, false},
	{"mapped_bytes", "INTEGER", "mapped memory at its end", PUSH_NOTHING, false},
};

struct timeline {
	const struct vtab_query *query;
	struct slice_walk slices;
};

static int begin(void *state, const struct vtab_query *query, struct tm_error *err)
{
	struct timeline *timeline = state;
	int64_t first = query->filters[SLICE_ID].min;
	(void)err;
	timeline->query = query;
	slice_walk_init(&timeline->slices, query->sql, false);
	if (first > 0)
		timeline->slices.next = (size_t)first;
	return 0;
}

static void end(void *state)
{
	slice_walk_close(&((struct timeline *)state)->slices);
}

static int next(void *state, bool *ret_row, struct tm_error *err)
{
	struct timeline *timeline = state;
	const struct vtab_filter *filters = timeline->query->filters;
	*ret_row = false;
	if (vtab_i64(timeline->slices.next) > filters[SLICE_ID].max)
		return 0;
	int code = slice_walk_load(&timeline->slices, ret_row, err);
	if (*ret_row && vtab_i64(timeline->slices.slice.start_ns) > filters[START_NS].max)
		*ret_row = false;
	return code;
}

static int value(void *state, int column, sqlite3_context *ret)
{
	const struct trace_slice *slice = &((struct timeline *)state)->slices.slice;
	const uint64_t values[] = {
		[SLICE_ID] = slice->slice_id,
		[START_NS] = slice->start_ns,
		[END_NS] = slice->end_ns,
		[EVENTS] = slice->event_count,
		[LIVE_BYTES] = slice->live_bytes,
		[LIVE_BLOCKS] = slice->live_blocks,
		[MIN_LIVE_BYTES] = slice->min_live_bytes,
		[MAX_LIVE_BYTES] = slice->max_live_bytes,
		[MAX_LIVE_NS] = slice->max_live_time_ns,
		[ALLOCATIONS] = slice->births,
		[ALLOCATED_BYTES] = slice->birth_bytes,
		[FREES] = slice->deaths,
		[FREED_BYTES] = slice->death_bytes,
		[TEMPORARY] = slice->temporary,
		[MAPPED_BYTES] = slice->mapped_bytes,
	};
	vtab_put_u64(ret, values[column]);
	return 0;
}

static uint64_t estimate(const struct sql *sql)
{
	return trace_reader_slice_count(sql->reader);
}

static const struct vtab_scan scan = {
	.state_bytes = sizeof(struct timeline),
	.begin = begin,
	.next = next,
	.value = value,
	.end = end,
	.estimate = estimate,
	.key = SLICE_ID,
	.key_rows = 1,
	.key_cost = 10,
};

const struct vtab table_timeline = {
	.name = "timeline",
	.help = "live memory and rates, slice by slice",
	.columns = columns,
	.column_count = sizeof columns / sizeof columns[0],
	.scan = &scan,
};
