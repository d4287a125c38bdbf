/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share of an open section. */
#pragma once

#include "model/history.h"
#include "model/model.h"
#include "sql/sql.h"
#include "trace/trace.h"
#include "views/views.h"

#include <sqlite3.h>

enum { SQL_WARNING_BYTES = 400 };

struct sql {
	sqlite3 *db;
	struct trace_reader *reader;
	struct sql_options options;
	struct view_input input; /* the tables of the trace: stacks, modules, ... */
	const struct trace_thread *threads;
	size_t thread_count;
	const struct trace_sample *samples; /* loaded when asked for */
	size_t sample_count;
	const struct trace_moment *moments; /* likewise */
	size_t moment_count;
	const struct trace_map_event *maps; /* likewise */
	size_t map_count;
	uint64_t event_count;
	struct history history;
	struct model *model;    /* loaded when names or figures are asked for */
	struct view_data *data; /* likewise */
	uint64_t memory_left;   /* for tables of open blocks */
	struct sql_stats stats;
	uint64_t unread_events; /* in damaged blocks of events */
	size_t unread_upto;     /* damaged blocks before this one have been counted */
	bool cancelled;
	char refused[160]; /* why the guard refused the statement, or "" */
	char warning[SQL_WARNING_BYTES];
};

/* Model and names, loaded on first use. */
TM_MUST_CHECK int sql_load_names(struct sql *sql, struct tm_error *err);
/* Tells the progress function; -ECANCELED if it wants the end. */
TM_MUST_CHECK int sql_tell(struct sql *sql, uint64_t done_events, uint64_t total_events,
			   struct tm_error *err);
