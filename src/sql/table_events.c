/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events: everything that was recorded about the heap, in its order. Blocks of
 * events are passed over by their times, their ids, and by what the aggregates
 * know of the stacks; by size only where no free is asked for, since a head
 * tells the sizes of allocations alone.
 */
#include "sql/births.h"
#include "sql/scan.h"
#include "sql/sites.h"
#include "sql/stack_set.h"
#include "sql/table.h"
#include "sql/tables.h"
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
};

static const struct table_column columns[] = {
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
};

enum {
	OPS_END = 1u << TRACE_FREE | 1u << TRACE_REALLOC_FREE | 1u << TRACE_FREE_UNSEEN,
};

struct events {
	const struct table_query *query;
	struct scan scan;
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
	const struct table_filter *filters = events->query->filters;
	const struct table_filter *size = &filters[SIZE];
	uint64_t end = facts->first_event + facts->event_count;
	if (facts->event_count == 0 || table_i64(end - 1) < filters[EVENT_ID].min ||
	    table_i64(facts->first_event) > filters[EVENT_ID].max)
		return false;
	if (table_i64(facts->end_ns) < filters[TIME_NS].min ||
	    table_i64(facts->start_ns) > filters[TIME_NS].max)
		return false;
	if (filters[BLOCK_ID].min > 0 && (uint64_t)filters[BLOCK_ID].min >= end_block_id)
		return false;
	bool ends = events->ops & OPS_END;
	if (!ends &&
	    (table_i64(facts->max_size_bytes) < size->min ||
	     table_i64(facts->min_size_bytes) > size->max))
		return false;
	return stack_set_acts(&events->stacks, facts->first_event, end, ends);
}

static unsigned ops_of(const struct table_filter *filter)
{
	unsigned ops = 0;
	for (unsigned i = 0; i < TRACE_OP_COUNT; i++)
		if (table_filter_has_text(filter, words_op(i)))
			ops |= 1u << i;
	return ops;
}

static int begin(void *state, const struct table_query *query, struct tm_error *err)
{
	struct events *events = state;
	events->query = query;
	events->ops = ops_of(&query->filters[OP]);
	scan_init(&events->scan, query->sql);
	int code = stack_set_init(&events->stacks, query, STACK_ID, SITE, err);
	if (!code && table_uses(query, SITE))
		code = sql_load_names(query->sql, err);
	events->complete = events->ops & OPS_END &&
			   (table_uses(query, SIZE) || table_uses(query, STACK_ID) ||
			    table_uses(query, SITE) || table_uses(query, ADDRESS));
	if (!code && events->complete)
		code = births_init(&events->births, query->sql, err);
	return code;
}

static void end(void *state)
{
	struct events *events = state;
	scan_done(&events->scan);
	stack_set_done(&events->stacks);
	births_done(&events->births);
}

static bool passes(const struct events *events, size_t at)
{
	const struct trace_event *event = &events->scan.events[at];
	const struct table_filter *filters = events->query->filters;
	return events->ops >> event->op & 1 &&
	       table_filter_has(&filters[EVENT_ID],
				table_i64(events->scan.facts.first_event + at)) &&
	       table_filter_has(&filters[TIME_NS], table_i64(event->time_ns)) &&
	       table_filter_has(&filters[THREAD_ID], event->thread_id) &&
	       stack_set_has(&events->stacks, event->stack_id);
}

static int next(void *state, bool *ret_row, struct tm_error *err)
{
	struct events *events = state;
	if (events->loaded)
		events->at++;
	for (;;) {
		for (; events->loaded && events->at < events->scan.facts.event_count; events->at++)
			if (passes(events, events->at)) {
				*ret_row = true;
				return 0;
			}
		int code = scan_load(&events->scan, wants, events, &events->loaded, err);
		if (!code && events->loaded && events->complete)
			code = births_fill(&events->births, &events->scan, &events->stacks, err);
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
	if (column == SIZE)
		table_put_u64(ret, event->size_bytes);
	else
		table_put_u64(ret, event->stack_id);
}

static int value(void *state, int column, sqlite3_context *ret)
{
	const struct events *events = state;
	const struct trace_event *event = &events->scan.events[events->at];
	switch (column) {
	case EVENT_ID:
		table_put_u64(ret, events->scan.facts.first_event + events->at);
		break;
	case TIME_NS:
		table_put_u64(ret, event->time_ns);
		break;
	case OP:
		table_put_static(ret, words_op(event->op));
		break;
	case THREAD_ID:
		table_put_u64(ret, event->thread_id);
		break;
	case BLOCK_ID:
		if (event->block_id != TRACE_NO_BLOCK)
			table_put_u64(ret, event->block_id);
		break;
	case SIZE:
	case STACK_ID:
		put_known(ret, event, column);
		break;
	case SITE:
		if (has_block(event))
			sites_put(ret, events->query->sql, event->stack_id);
		break;
	case ADDRESS:
		if (event->address)
			table_put_u64(ret, event->address);
		break;
	case API:
		if (!(OPS_END >> event->op & 1) && event->op != TRACE_FREE_OLDER)
			table_put_static(ret, words_api(event->api));
		break;
	case ALIGN:
		if (event->align_log2 > 0 && event->align_log2 < 63)
			table_put_u64(ret, UINT64_C(1) << event->align_log2);
		break;
	case FREE_STACK_ID:
		if (event->free_stack_id)
			table_put_u64(ret, event->free_stack_id);
		break;
	}
	return 0;
}

static uint64_t estimate(const struct sql *sql)
{
	return sql->event_count;
}

static const struct table_scan scan = {
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

const struct table table_events = {
	.name = "events",
	.help = "everything recorded about the heap, in order",
	.columns = columns,
	.column_count = sizeof columns / sizeof columns[0],
	.scan = &scan,
};
