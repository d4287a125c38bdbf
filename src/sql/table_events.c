/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events: everything that was recorded about the heap, in its order. Blocks of
 * events are passed over by their times, their ids, and by what the aggregates
 * know of the stacks; by size only where no free is asked for, since a head
 * tells the sizes of allocations alone.
 */
#include "sql/births.h"
#include "sql/site.h"
#include "sql/stack_set.h"
#include "sql/tables.h"
#include "sql/vtab.h"
#include "sql/walk.h"
#include "sql/words.h"

enum {
	EVENT_ID,
	TIME_NS,
	OP,
	THREAD_ID,
	BLOCK_ID,
	SIZE,
	STACK_ID,
	SITE,
	ADDRESS,
	API,
	ALIGN,
	FREE_STACK_ID,
	WEIGHT,
	WEIGHT_BYTES,
};

static const struct vtab_column columns[] = {
	{"event_id", "INTEGER", "number of the event, from 0", PUSH_INTEGER, true},
	{"time_ns", "INTEGER", "since the start of the recording", PUSH_INTEGER, true},
	{"op", "TEXT",
	 "alloc, free, realloc_free, realloc_alloc, realloc_fail, alloc_fail, free_unseen, "
	 "free_older",
	 PUSH_TEXT, false},
	{"thread_id", "INTEGER", "who did it", PUSH_INTEGER, false},
	{"block_id", "INTEGER", "the block that begins or ends; NULL if none", PUSH_INTEGER, false},
	{"size", "INTEGER", "bytes asked for; of a free: the block's", PUSH_INTEGER, false},
	{"stack_id", "INTEGER", "of the allocation; of a free: the block's", PUSH_INTEGER, false},
	{"site", "TEXT", "function_of(stack_id)", PUSH_TEXT, false},
	{"address", "INTEGER", "of the block; NULL if not recorded", PUSH_NOTHING, false},
	{"api", "TEXT", "entry of the allocator: malloc, calloc, realloc, aligned, new, ...",
	 PUSH_NOTHING, false},
	{"align", "INTEGER", "alignment asked for; NULL if none", PUSH_NOTHING, false},
	{"free_stack_id", "INTEGER", "of the free, with --free-stacks", PUSH_NOTHING, false},
	{"weight", "INTEGER", "blocks that it stands for: 1, or of a sampled one an estimate",
	 PUSH_NOTHING, false},
	{"weight_bytes", "INTEGER", "their bytes", PUSH_NOTHING, false},
};

enum {
	OPS_END = 1u << TRACE_FREE | 1u << TRACE_REALLOC_FREE | 1u << TRACE_FREE_UNSEEN,
};

struct events {
	const struct vtab_query *query;
	struct walk walk;
	struct stack_set stacks;
	struct births births;
	unsigned ops;  /* bit per enum trace_op */
	bool complete; /* what a free does not say itself is needed */
	bool loaded;
	size_t at; /* in the loaded block */
};

static bool wants(void *ctx, const struct trace_event_block *facts, uint64_t end_block_id)
{
	const struct events *events = ctx;
	const struct vtab_filter *filters = events->query->filters;
	const struct vtab_filter *size = &filters[SIZE];
	uint64_t end = facts->first_event + facts->event_count;
	if (facts->event_count == 0 || vtab_i64(end - 1) < filters[EVENT_ID].min ||
	    vtab_i64(facts->first_event) > filters[EVENT_ID].max)
		return false;
	if (vtab_i64(facts->end_ns) < filters[TIME_NS].min ||
	    vtab_i64(facts->start_ns) > filters[TIME_NS].max)
		return false;
	if (filters[BLOCK_ID].min > 0 && (uint64_t)filters[BLOCK_ID].min >= end_block_id)
		return false;
	bool ends = events->ops & OPS_END;
	if (!ends && (vtab_i64(facts->max_size_bytes) < size->min ||
		      vtab_i64(facts->min_size_bytes) > size->max))
		return false;
	return stack_set_acts(&events->stacks, facts->first_event, end, ends);
}

static unsigned ops_of(const struct vtab_filter *filter)
{
	unsigned ops = 0;
	for (unsigned i = 0; i < TRACE_OP_COUNT; i++)
		if (vtab_filter_has_text(filter, words_op(i)))
			ops |= 1u << i;
	return ops;
}

static int begin(void *state, const struct vtab_query *query, struct tm_error *err)
{
	struct events *events = state;
	events->query = query;
	events->ops = ops_of(&query->filters[OP]);
	sql_walk_init(&events->walk, query->sql);
	int code = stack_set_init(&events->stacks, query, STACK_ID, SITE, err);
	if (!code && vtab_uses(query, SITE))
		code = sql_load_names(query->sql, err);
	events->complete =
		events->ops & OPS_END && (vtab_uses(query, SIZE) || vtab_uses(query, STACK_ID) ||
					  vtab_uses(query, SITE) || vtab_uses(query, ADDRESS));
	if (!code && events->complete)
		code = births_init(&events->births, query->sql, err);
	return code;
}

static void end(void *state)
{
	struct events *events = state;
	sql_walk_done(&events->walk);
	stack_set_done(&events->stacks);
	births_done(&events->births);
}

static bool passes(const struct events *events, size_t at)
{
	const struct trace_event *event = &events->walk.events[at];
	const struct vtab_filter *filters = events->query->filters;
	return events->ops >> event->op & 1 &&
	       vtab_filter_has(&filters[EVENT_ID], vtab_i64(events->walk.facts.first_event + at)) &&
	       vtab_filter_has(&filters[TIME_NS], vtab_i64(event->time_ns)) &&
	       vtab_filter_has(&filters[THREAD_ID], event->thread_id) &&
	       stack_set_has(&events->stacks, event->stack_id);
}

static int next(void *state, bool *ret_row, struct tm_error *err)
{
	struct events *events = state;
	if (events->loaded)
		events->at++;
	for (;;) {
		for (; events->loaded && events->at < events->walk.facts.event_count; events->at++)
			if (passes(events, events->at)) {
				*ret_row = true;
				return 0;
			}
		int code = sql_walk_load(&events->walk, wants, events, &events->loaded, err);
		if (!code && events->loaded && events->complete)
			code = births_fill(&events->births, &events->walk, &events->stacks, err);
		if (code)
			return code;
		events->at = 0;
		if (!events->loaded) {
			*ret_row = false;
			return 0;
		}
	}
}

/* Whether size, stack and site mean anything: not of frees whose block nobody knows. */
static bool has_block(const struct trace_event *event)
{
	return event->op != TRACE_FREE_OLDER &&
	       !((OPS_END >> event->op & 1) && event->block_id == TRACE_NO_BLOCK);
}

static void put_known(sqlite3_context *ret, const struct trace_event *event, int column)
{
	if (!has_block(event))
		return;
	bool failed = event->op == TRACE_ALLOC_FAIL || event->op == TRACE_REALLOC_UNDO;
	struct trace_weight weight = {1, event->size_bytes};
	if (!failed)
		weight = trace_weigh(event->size_bytes, event->block_id);
	if (column == SIZE)
		vtab_put_u64(ret, failed ? event->size_bytes : trace_word_size(event->size_bytes));
	else if (column == WEIGHT)
		vtab_put_u64(ret, weight.count);
	else if (column == WEIGHT_BYTES)
		vtab_put_u64(ret, weight.bytes);
	else
		vtab_put_u64(ret, event->stack_id);
}

static int value(void *state, int column, sqlite3_context *ret)
{
	const struct events *events = state;
	const struct trace_event *event = &events->walk.events[events->at];
	switch (column) {
	case EVENT_ID:
		vtab_put_u64(ret, events->walk.facts.first_event + events->at);
		break;
	case TIME_NS:
		vtab_put_u64(ret, event->time_ns);
		break;
	case OP:
		vtab_put_static(ret, words_op(event->op));
		break;
	case THREAD_ID:
		vtab_put_u64(ret, event->thread_id);
		break;
	case BLOCK_ID:
		if (event->block_id != TRACE_NO_BLOCK)
			vtab_put_u64(ret, event->block_id);
		break;
	case SIZE:
	case STACK_ID:
	case WEIGHT:
	case WEIGHT_BYTES:
		put_known(ret, event, column);
		break;
	case SITE:
		if (has_block(event))
			site_put(ret, events->query->sql, event->stack_id);
		break;
	case ADDRESS:
		if (event->address)
			vtab_put_u64(ret, event->address);
		break;
	case API:
		if (!(OPS_END >> event->op & 1) && event->op != TRACE_FREE_OLDER)
			vtab_put_static(ret, words_api(event->api));
		break;
	case ALIGN:
		if (event->align_log2 > 0 && event->align_log2 < 63)
			vtab_put_u64(ret, UINT64_C(1) << event->align_log2);
		break;
	case FREE_STACK_ID:
		if (event->free_stack_id)
			vtab_put_u64(ret, event->free_stack_id);
		break;
	}
	return 0;
}

static uint64_t estimate(const struct sql *sql)
{
	return sql->event_count;
}

static const struct vtab_scan scan = {
	.state_bytes = sizeof(struct events),
	.begin = begin,
	.next = next,
	.value = value,
	.end = end,
	.estimate = estimate,
	.key = EVENT_ID,
	.key_rows = 1,
	.key_cost = 30000, /* a block of events is decoded */
};

const struct vtab table_events = {
	.name = "events",
	.help = "everything recorded about the heap, in order",
	.columns = columns,
	.column_count = sizeof columns / sizeof columns[0],
	.scan = &scan,
};
