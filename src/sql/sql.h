/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Front door of the SQL layer: one section of a trace as SQLite tables that read
 * the file as they are asked, in bounded memory. docs/sql.md describes the tables.
 *
 * A query from a stranger does no harm: it can only read these tables. Writing,
 * ATTACH, extensions and all pragmas but those that describe tables are refused;
 * lengths, depths and memory have limits; and whoever runs it can stop it.
 *
 * Not thread-safe: one thread at a time uses a struct sql.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sql;
struct trace_reader;

struct sql_progress {
	uint64_t done_events, total_events; /* of the scan that runs now; 0, 0: none does */
};
/* Called often while a query runs. Return not 0 to cancel it. */
typedef int (*sql_progress_fn)(void *ctx, const struct sql_progress *progress);

struct sql_options {
	bool has_section;
	size_t section;        /* else the last */
	bool no_lookup;        /* take names from the trace alone, not from this machine's files */
	uint64_t memory_bytes; /* for blocks that a scan must remember; 0 = 128 MiB */
	sql_progress_fn progress; /* may be NULL */
	void *progress_ctx;
};

/*
 * Takes over the reader, also on failure. -ENODATA: no recording in it; -EINVAL: no such section;
 * -ENOMEM; or a failure to read.
 */
TM_MUST_CHECK int sql_open(struct trace_reader *reader, const struct sql_options *options,
			   struct sql **ret_sql, struct tm_error *err);
struct sql *sql_close(struct sql *sql);

enum sql_type { SQL_NULL, SQL_INTEGER, SQL_REAL, SQL_TEXT, SQL_BLOB };
struct sql_value {
	enum sql_type type;
	int64_t integer;
	double real;
	const char *text; /* of text and blobs; text is NUL-terminated */
	size_t bytes;
};
/* Takes what a statement gives; valid during the call. Not 0 ends the statement with that. */
struct sql_sink {
	int (*begin)(void *ctx, size_t count, const char *const *names);
	int (*row)(void *ctx, size_t count, const struct sql_value *values);
	void *ctx;
};

/*
 * Runs the first statement of `text`; *ret_rest is where the next begins (also on failure, when
 * that is known). -EINVAL: a mistake in it; -EPERM: refused; -ECANCELED: by the progress function;
 * -ENOMEM: it needs more memory than queries may have; what the sink returned; what reading says.
 */
TM_MUST_CHECK int sql_run(struct sql *sql, const char *text, const char **ret_rest,
			  const struct sql_sink *sink, struct tm_error *err);
/* Whether the text ends with a whole statement, so that it can be run. */
bool sql_is_complete(const char *text);

/* What was damaged or could not be read so far: a sentence, or NULL. Borrowed, it may change. */
const char *sql_warning(struct sql *sql);

/* Event blocks that queries decoded, and passed over because of what their heads say. */
struct sql_stats {
	uint64_t blocks_read, blocks_skipped;
};
void sql_stats(const struct sql *sql, struct sql_stats *ret);

/* The tables and functions, for people. */
struct sql_help {
	const char *name, *help;
};
/* Number `index`; false at their end. */
bool sql_table_help(size_t index, struct sql_help *ret);
bool sql_function_help(size_t index, struct sql_help *ret);
/* Columns of a table; false if there is no such table or column. */
bool sql_column_help(const char *table, size_t index, struct sql_help *ret, const char **ret_type);
