/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a section, and running statements on it. */
#include "sql/sql.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "sql/functions.h"
#include "sql/guard.h"
#include "sql/state.h"
#include "sql/tables.h"
#include "sql/vtab.h"

enum { MEMORY_DEFAULT = 128 << 20, PROGRESS_STEPS = 1000, COLUMNS_MAX = 200 };

static int select_section(struct sql *sql, struct tm_error *err)
{
	size_t count = trace_reader_section_count(sql->reader);
	if (count == 0)
		return tm_fail(err, -ENODATA,
			       "the trace holds no recording: it was cut off before its first "
			       "block was written");
	if (!sql->options.has_section)
		return 0;
	if (sql->options.section >= count)
		return tm_fail(err, -EINVAL,
			       "the trace has no section %zu: its sections are 0 to %zu",
			       sql->options.section, count - 1);
	return trace_reader_select(sql->reader, sql->options.section, err);
}

static int load(struct sql *sql, struct tm_error *err)
{
	int code = select_section(sql, err);
	if (!code)
		code = view_input_read(sql->reader, &sql->input, err);
	if (!code)
		code = trace_reader_threads(sql->reader, &sql->threads, &sql->thread_count, err);
	if (code)
		return code;
	sql->input.no_lookup = sql->options.no_lookup;
	history_init(&sql->history, sql->reader);
	size_t count = trace_reader_event_block_count(sql->reader);
	for (size_t i = 0; i < count; i++) {
		struct trace_event_block facts;
		if (!trace_reader_event_block(sql->reader, i, &facts))
			sql->event_count += facts.event_count;
	}
	return 0;
}

static int on_steps(void *ctx)
{
	return sql_tell(ctx, 0, 0, NULL) ? 1 : 0;
}

static int open_database(struct sql *sql, struct tm_error *err)
{
	int code = sqlite3_open_v2(":memory:", &sql->db,
				   SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	if (code == SQLITE_OK)
		code = guard_limit(sql->db);
	for (size_t i = 0; code == SQLITE_OK && tables_all[i]; i++)
		code = vtab_register(sql, tables_all[i]);
	if (code == SQLITE_OK)
		code = functions_register(sql);
	if (code == SQLITE_OK)
		code = guard_install(sql);
	if (code != SQLITE_OK)
		return tm_fail(err, code == SQLITE_NOMEM ? -ENOMEM : -EIO,
			       "SQLite cannot be started: %s", sqlite3_errstr(code));
	sqlite3_progress_handler(sql->db, PROGRESS_STEPS, on_steps, sql);
	return 0;
}

int sql_open(struct trace_reader *reader, const struct sql_options *options, struct sql **ret_sql,
	     struct tm_error *err)
{
	struct sql *sql = tm_alloc(sizeof *sql);
	if (!sql) {
		trace_reader_close(reader);
		return tm_fail(err, -ENOMEM, "out of memory");
	}
	sql->reader = reader;
	sql->options = *options;
	sql->memory_left = options->memory_bytes ? options->memory_bytes : MEMORY_DEFAULT;
	int code = load(sql, err);
	if (!code)
		code = open_database(sql, err);
	if (code) {
		sql_close(sql);
		return code;
	}
	*ret_sql = sql;
	return 0;
}

struct sql *sql_close(struct sql *sql)
{
	if (!sql)
		return NULL;
	sqlite3_close(sql->db);
	history_done(&sql->history);
	view_data_free(sql->data);
	model_free(sql->model);
	trace_reader_close(sql->reader);
	return tm_free(sql);
}

int sql_load_names(struct sql *sql, struct tm_error *err)
{
	if (sql->data)
		return 0;
	int code = sql->model ? 0 : model_load(sql->reader, &sql->model, err);
	if (code)
		return code;
	sql->input.model = sql->model;
	return view_data_new(&sql->input, &sql->data, err);
}

int sql_tell(struct sql *sql, uint64_t done_events, uint64_t total_events, struct tm_error *err)
{
	const struct sql_progress progress = {done_events, total_events};
	if (!sql->cancelled && sql->options.progress &&
	    sql->options.progress(sql->options.progress_ctx, &progress))
		sql->cancelled = true;
	return sql->cancelled ? tm_fail(err, -ECANCELED, "the query was stopped") : 0;
}

/* ---- running ---- */

/* SQLite's failure as a sentence of ours. */
static int fail(struct sql *sql, int code, struct tm_error *err)
{
	const char *said = sqlite3_errmsg(sql->db);
	if (sql->cancelled || code == SQLITE_INTERRUPT)
		return tm_fail(err, -ECANCELED, "the query was stopped");
	if (sql->refused[0])
		return tm_fail(err, -EPERM, "%s", sql->refused);
	switch (code) {
	case SQLITE_NOMEM:
		return tm_fail(err, -ENOMEM,
			       "the query needs more than the %d MiB that SQLite may use here: "
			       "select fewer columns or a shorter time",
			       GUARD_HEAP_MIB);
	case SQLITE_TOOBIG:
		return tm_fail(err, -E2BIG, "a text or a value is too long: at most %d bytes",
			       GUARD_LENGTH);
	case SQLITE_FULL:
	case SQLITE_IOERR:
	case SQLITE_CANTOPEN:
		return tm_fail(err, -EIO,
			       "temporary data cannot be written (%s): set SQLITE_TMPDIR to a "
			       "folder with more room",
			       said);
	}
	int offset = sqlite3_error_offset(sql->db);
	if (offset >= 0)
		return tm_fail(err, -EINVAL, "%s, at character %d of the statement", said,
			       offset + 1);
	return tm_fail(err, -EINVAL, "%s", said);
}

static struct sql_value value_of(sqlite3_stmt *statement, int column)
{
	struct sql_value value = {0};
	switch (sqlite3_column_type(statement, column)) {
	case SQLITE_INTEGER:
		value.type = SQL_INTEGER;
		value.integer = sqlite3_column_int64(statement, column);
		return value;
	case SQLITE_FLOAT:
		value.type = SQL_REAL;
		value.real = sqlite3_column_double(statement, column);
		return value;
	case SQLITE_TEXT:
		value.type = SQL_TEXT;
		value.text = (const char *)sqlite3_column_text(statement, column);
		break;
	case SQLITE_BLOB:
		value.type = SQL_BLOB;
		value.text = sqlite3_column_blob(statement, column);
		break;
	}
	/* An empty blob, or no memory for a copy: an empty text then is the least surprise. */
	value.bytes = value.text ? (size_t)sqlite3_column_bytes(statement, column) : 0;
	if (!value.text)
		value.text = "";
	return value;
}

static int begin_rows(sqlite3_stmt *statement, size_t count, const struct sql_sink *sink)
{
	const char *names[COLUMNS_MAX];
	for (size_t i = 0; i < count; i++) {
		names[i] = sqlite3_column_name(statement, (int)i);
		if (!names[i])
			return -ENOMEM;
	}
	return sink->begin ? sink->begin(sink->ctx, count, names) : 0;
}

static int step_all(struct sql *sql, sqlite3_stmt *statement, const struct sql_sink *sink,
		    struct tm_error *err)
{
	struct sql_value values[COLUMNS_MAX];
	size_t count = (size_t)sqlite3_column_count(statement);
	int rc = begin_rows(statement, count, sink);
	while (rc == 0) {
		int code = sqlite3_step(statement);
		if (code == SQLITE_DONE)
			return 0;
		if (code != SQLITE_ROW)
			return fail(sql, code & 0xff, err);
		for (size_t i = 0; i < count; i++)
			values[i] = value_of(statement, (int)i);
		rc = sink->row ? sink->row(sink->ctx, count, values) : 0;
	}
	return tm_fail(err, rc, "the rows could not be taken: %s", strerror(-rc));
}

int sql_run(struct sql *sql, const char *text, const char **ret_rest, const struct sql_sink *sink,
	    struct tm_error *err)
{
	sqlite3_stmt *statement = NULL;
	const char *rest = NULL;
	sql->refused[0] = '\0';
	sql->cancelled = false;
	*ret_rest = text + strlen(text);
	if ((size_t)(*ret_rest - text) > GUARD_STATEMENT)
		return tm_fail(err, -E2BIG, "the statement is too long: at most %d bytes",
			       GUARD_STATEMENT);
	int code = sqlite3_prepare_v2(sql->db, text, -1, &statement, &rest);
	if (rest)
		*ret_rest = rest;
	if (code != SQLITE_OK)
		return fail(sql, code & 0xff, err);
	if (!statement)
		return 0;
	code = step_all(sql, statement, sink, err);
	sqlite3_finalize(statement);
	return code;
}

bool sql_is_complete(const char *text)
{
	return sqlite3_complete(text) == 1;
}

const char *sql_warning(struct sql *sql)
{
	const char *said = trace_reader_warning(sql->reader);
	int used = snprintf(sql->warning, sizeof sql->warning, "%s", said ? said : "");
	if (sql->unread_events > 0 && used >= 0 && (size_t)used < sizeof sql->warning)
		snprintf(sql->warning + used, sizeof sql->warning - (size_t)used,
			 "%s%llu events lie in damaged parts of the file and are left out",
			 used ? "; " : "", (unsigned long long)sql->unread_events);
	used = (int)strlen(sql->warning);
	const struct trace_end *end = sql->input.end;
	if (end->folded_events)
		snprintf(sql->warning + used, sizeof sql->warning - (size_t)used,
			 "%s%llu older events were folded: the tables events and blocks begin at "
			 "%llu ns",
			 used ? "; " : "", (unsigned long long)end->folded_events,
			 (unsigned long long)end->exact_since_ns);
	used = (int)strlen(sql->warning);
	if (end->culled_events)
		snprintf(sql->warning + used, sizeof sql->warning - (size_t)used,
			 "%s%llu events of short-lived blocks were culled: the tables events and "
			 "blocks do not have them",
			 used ? "; " : "", (unsigned long long)end->culled_events);
	return sql->warning[0] ? sql->warning : NULL;
}

void sql_stats(const struct sql *sql, struct sql_stats *ret)
{
	*ret = sql->stats;
}

bool sql_table_help(size_t index, struct sql_help *ret)
{
	for (size_t i = 0; i <= index; i++)
		if (!tables_all[i])
			return false;
	*ret = (struct sql_help){tables_all[index]->name, tables_all[index]->help};
	return true;
}

bool sql_column_help(const char *table, size_t index, struct sql_help *ret, const char **ret_type)
{
	for (size_t i = 0; tables_all[i]; i++) {
		if (strcmp(tables_all[i]->name, table) || index >= tables_all[i]->column_count)
			continue;
		const struct vtab_column *column = &tables_all[i]->columns[index];
		*ret = (struct sql_help){column->name, column->help};
		*ret_type = column->type;
		return true;
	}
	return false;
}
