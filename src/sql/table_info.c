/* SPDX-License-Identifier: Apache-2.0 */
/* info: what was recorded, how, and its totals, one fact per row. */
#include <stdio.h>

#include "sql/tables.h"
#include "sql/vtab.h"
#include "sql/words.h"
#include "views/to_json.h"

enum { NAME, VALUE };

static const struct vtab_column columns[] = {
	{"name", "TEXT", "what: program, command, pid, duration_ns, peak_bytes, ...", PUSH_NOTHING,
	 false},
	{"value", "", "", PUSH_NOTHING, false},
};

enum fact {
	PROGRAM,
	COMMAND,
	HOST,
	SOURCE,
	TOOL_VERSION,
	MODE,
	PID,
	START_UNIX_NS,
	DURATION_NS,
	END_CAUSE,
	END_STATUS,
	EVENTS,
	ALLOCATIONS,
	ALLOCATED_BYTES,
	FREES,
	FREED_BYTES,
	TEMPORARY,
	FAILED,
	LIVE_BYTES,
	LIVE_BLOCKS,
	PEAK_BYTES,
	PEAK_BLOCKS,
	PEAK_NS,
	PEAK_RSS_BYTES,
	LOST_EVENTS,
	EVENTS_NOT_STORED,
	FOLDED_EVENTS,
	EXACT_SINCE_NS,
	CULLED_EVENTS,
	CULL_NS,
	SAMPLE_BYTES,
	FACTS,
};

static const char *const names[FACTS] = {
	[PROGRAM] = "program",
	[COMMAND] = "command",
	[HOST] = "host",
	[SOURCE] = "source",
	[TOOL_VERSION] = "tool_version",
	[MODE] = "mode",
	[PID] = "pid",
	[START_UNIX_NS] = "start_unix_ns",
	[DURATION_NS] = "duration_ns",
	[END_CAUSE] = "end_cause",
	[END_STATUS] = "end_status",
	[EVENTS] = "events",
	[ALLOCATIONS] = "allocations",
	[ALLOCATED_BYTES] = "allocated_bytes",
	[FREES] = "frees",
	[FREED_BYTES] = "freed_bytes",
	[TEMPORARY] = "temporary",
	[FAILED] = "failed",
	[LIVE_BYTES] = "live_bytes",
	[LIVE_BLOCKS] = "live_blocks",
	[PEAK_BYTES] = "peak_bytes",
	[PEAK_BLOCKS] = "peak_blocks",
	[PEAK_NS] = "peak_ns",
	[PEAK_RSS_BYTES] = "peak_rss_bytes",
	[LOST_EVENTS] = "lost_events",
	[EVENTS_NOT_STORED] = "events_not_stored",
	[FOLDED_EVENTS] = "folded_events",
	[EXACT_SINCE_NS] = "exact_since_ns",
	[CULLED_EVENTS] = "culled_events",
	[CULL_NS] = "cull_ns",
	[SAMPLE_BYTES] = "sample_bytes",
};

static uint64_t end(const struct sql *sql)
{
	(void)sql;
	return FACTS;
}

/* The texts among the facts; the others have none. */
static const char *text_of(const struct sql *sql, enum fact fact)
{
	const struct trace_meta *meta = sql->input.meta;
	const char *const texts[FACTS] = {
		[PROGRAM] = meta->program,
		[COMMAND] = meta->command,
		[HOST] = meta->host,
		[SOURCE] = meta->source,
		[TOOL_VERSION] = meta->tool_version,
		[MODE] = meta->mode,
		[END_CAUSE] = view_end_name(sql->input.end),
	};
	return texts[fact];
}

static uint64_t figure_of(const struct sql *sql, enum fact fact)
{
	const struct trace_meta *meta = sql->input.meta;
	const struct trace_end *last = sql->input.end;
	struct model_totals totals;
	model_totals(sql->model, &totals);
	const uint64_t figures[FACTS] = {
		[PID] = meta->pid,
		[START_UNIX_NS] = meta->start_unix_ns,
		[DURATION_NS] = last->duration_ns ? last->duration_ns : totals.duration_ns,
		[EVENTS] = totals.events,
		[ALLOCATIONS] = totals.allocations,
		[ALLOCATED_BYTES] = totals.allocated_bytes,
		[FREES] = totals.frees,
		[FREED_BYTES] = totals.freed_bytes,
		[TEMPORARY] = totals.temporary,
		[FAILED] = totals.failed,
		[LIVE_BYTES] = totals.live_bytes,
		[LIVE_BLOCKS] = totals.live_blocks,
		[PEAK_BYTES] = totals.peak_bytes,
		[PEAK_BLOCKS] = totals.peak_blocks,
		[PEAK_NS] = totals.peak_time_ns,
		[PEAK_RSS_BYTES] = totals.peak_rss_bytes,
		[LOST_EVENTS] = last->lost_events,
		[EVENTS_NOT_STORED] = last->events_not_stored,
		[FOLDED_EVENTS] = last->folded_events,
		[EXACT_SINCE_NS] = last->exact_since_ns,
		[CULLED_EVENTS] = last->culled_events,
		[CULL_NS] = meta->cull_ns,
		[SAMPLE_BYTES] = trace_reader_sample_bytes(sql->reader),
	};
	return figures[fact];
}

static int value(struct sql *sql, uint64_t row, int column, sqlite3_context *ret)
{
	enum fact fact = (enum fact)row;
	if (column == NAME)
		vtab_put_static(ret, names[fact]);
	else if (fact <= MODE || fact == END_CAUSE)
		vtab_put_static(ret, text_of(sql, fact));
	else if (fact == END_STATUS)
		sqlite3_result_int64(ret, sql->input.end->status);
	else
		vtab_put_u64(ret, figure_of(sql, fact));
	return 0;
}

static const struct vtab_rows rows = {
	.load = sql_load_names, .end = end, .key = -1, .value = value};

const struct vtab table_info = {
	.name = "info",
	.help = "what was recorded, and its totals",
	.columns = columns,
	.column_count = sizeof columns / sizeof columns[0],
	.rows = &rows,
};
