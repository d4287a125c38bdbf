/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_timeline: for each slice the stacks that changed in it, and what each
 * had live at the slice's end. From the aggregates: no event is read.
 */
#include <errno.h>

#include "base/memory.h"
#include "sql/site.h"
#include "sql/slice_walk.h"
#include "sql/stack_set.h"
#include "sql/tables.h"
#include "sql/vtab.h"

enum {
	SLICE_ID,
	START_NS,
	END_NS,
	STACK_ID,
	SITE,
	ALLOCATIONS,
	ALLOCATED_BYTES,
	FREES,
	FREED_BYTES,
	TEMPORARY,
	LIVE_BLOCKS,
	LIVE_BYTES,
};

static const struct vtab_column columns[] = {
	{"slice_id", "INTEGER", "as in timeline", PUSH_INTEGER, true},
	{"start_ns", "INTEGER", "of the slice", PUSH_INTEGER, true},
	{"end_ns", "INTEGER", "of the slice", PUSH_NOTHING, true},
	{"stack_id", "INTEGER", "", PUSH_INTEGER, false},
	{"site", "TEXT", "function_of(stack_id)", PUSH_TEXT, false},
	{"allocations", "INTEGER", "of this stack in this slice", PUSH_NOTHING, false},
	{"allocated_bytes", "INTEGER", "", PUSH_NOTHING, false},
	{"frees", "INTEGER", "of its blocks in this slice", PUSH_NOTHING, false},
	{"freed_bytes", "INTEGER", "", PUSH_NOTHING, false},
	{"temporary", "INTEGER", "", PUSH_NOTHING, false},
	{"live_blocks", "INTEGER", "of this stack at the slice's end", PUSH_NOTHING, false},
	{"live_bytes", "INTEGER", "of this stack at the slice's end", PUSH_NOTHING, false},
};

struct live {
	uint64_t blocks, bytes;
};

struct stack_timeline {
	const struct vtab_query *query;
	struct stack_set stacks;
	struct slice_walk slices;
	struct live *live; /* by stack_id */
	size_t at;         /* the present row */
	bool loaded;
};

static int begin(void *state, const struct vtab_query *query, struct tm_error *err)
{
	struct stack_timeline *timeline = state;
	timeline->query = query;
	slice_walk_init(&timeline->slices, query->sql, true);
	timeline->live = tm_alloc_array(query->sql->input.stack_count + 1, sizeof *timeline->live);
	if (!timeline->live)
		return tm_fail(err, -ENOMEM, "out of memory");
	int code = vtab_uses(query, SITE) ? sql_load_names(query->sql, err) : 0;
	return code ? code : stack_set_init(&timeline->stacks, query, STACK_ID, SITE, err);
}

static void end(void *state)
{
	struct stack_timeline *timeline = state;
	slice_walk_close(&timeline->slices);
	stack_set_done(&timeline->stacks);
	tm_free(timeline->live);
}

/* What each stack has live: sums wrap as the aggregates do (a failed realloc takes a death back).
 */
static void settle(struct stack_timeline *timeline)
{
	for (size_t i = 0; i < timeline->slices.row_count; i++) {
		const struct slice_walk_row *row = &timeline->slices.rows[i];
		if (row->stack_id >= timeline->query->sql->input.stack_count)
			continue;
		struct live *live = &timeline->live[row->stack_id];
		live->blocks += row->births - row->deaths;
		live->bytes += row->birth_bytes - row->death_bytes;
	}
}

static int next(void *state, bool *ret_row, struct tm_error *err)
{
	struct stack_timeline *timeline = state;
	const struct vtab_filter *filters = timeline->query->filters;
	struct slice_walk *slices = &timeline->slices;
	*ret_row = false;
	timeline->at += timeline->loaded;
	for (;;) {
		bool shown = timeline->loaded &&
			     vtab_filter_has(&filters[SLICE_ID], slices->slice.slice_id) &&
			     vtab_i64(slices->slice.start_ns) >= filters[START_NS].min;
		for (; shown && timeline->at < slices->row_count; timeline->at++)
			if (stack_set_has(&timeline->stacks, slices->rows[timeline->at].stack_id)) {
				*ret_row = true;
				return 0;
			}
		if (vtab_i64(slices->next) > filters[SLICE_ID].max)
			return 0;
		int code = slice_walk_load(slices, &timeline->loaded, err);
		if (code || !timeline->loaded ||
		    vtab_i64(slices->slice.start_ns) > filters[START_NS].max)
			return code;
		timeline->at = 0;
		settle(timeline);
	}
}

static int value(void *state, int column, sqlite3_context *ret)
{
	const struct stack_timeline *timeline = state;
	const struct trace_slice *slice = &timeline->slices.slice;
	const struct slice_walk_row *row = &timeline->slices.rows[timeline->at];
	const struct live *live = &timeline->live[row->stack_id];
	const uint64_t values[] = {
		[SLICE_ID] = slice->slice_id, [START_NS] = slice->start_ns,
		[END_NS] = slice->end_ns,     [STACK_ID] = row->stack_id,
		[ALLOCATIONS] = row->births,  [ALLOCATED_BYTES] = row->birth_bytes,
		[FREES] = row->deaths,        [FREED_BYTES] = row->death_bytes,
		[TEMPORARY] = row->temporary, [LIVE_BLOCKS] = live->blocks,
		[LIVE_BYTES] = live->bytes,
	};
	if (column == SITE)
		site_put(ret, timeline->query->sql, row->stack_id);
	else if (column == FREES || column == FREED_BYTES)
		sqlite3_result_int64(ret, (int64_t)values[column]);
	else
		vtab_put_u64(ret, values[column]);
	return 0;
}

enum { STACKS_PER_SLICE = 200 };

static uint64_t estimate(const struct sql *sql)
{
	return trace_reader_slice_count(sql->reader) * STACKS_PER_SLICE;
}

static const struct vtab_scan scan = {
	.state_bytes = sizeof(struct stack_timeline),
	.begin = begin,
	.next = next,
	.value = value,
	.end = end,
	.estimate = estimate,
	.key = -1,
};

const struct vtab table_stack_timeline = {
	.name = "stack_timeline",
	.help = "what each stack did in each slice, and had live at its end",
	.columns = columns,
	.column_count = sizeof columns / sizeof columns[0],
	.scan = &scan,
};
