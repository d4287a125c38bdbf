/* SPDX-License-Identifier: Apache-2.0 */
/* marks: moments that were named, and pauses of the recording. */
#include "sql/tables.h"
#include "sql/vtab.h"

enum { TIME_NS, KIND, NAME };

static const struct vtab_column columns[] = {
	{"time_ns", "INTEGER", "since the start of the recording", PUSH_NOTHING, true},
	{"kind", "TEXT", "mark, pause, resume or mode", PUSH_NOTHING, false},
	{"name", "TEXT", "of a mark or mode; else NULL", PUSH_NOTHING, false},
};

static int load(struct sql *sql, struct tm_error *err)
{
	return trace_reader_moments(sql->reader, &sql->moments, &sql->moment_count, err);
}

/* Before load() the number of rows is only an estimate. */
static uint64_t end(const struct sql *sql)
{
	return sql->moment_count;
}

static int value(struct sql *sql, uint64_t row, int column, sqlite3_context *ret)
{
	static const char *const kinds[TRACE_MOMENT_KINDS] = {
		[TRACE_MOMENT_MARK] = "mark",
		[TRACE_MOMENT_PAUSE] = "pause",
		[TRACE_MOMENT_RESUME] = "resume",
		[TRACE_MOMENT_MODE] = "mode",
	};
	const struct trace_moment *moment = &sql->moments[row];
	if (column == TIME_NS)
		vtab_put_u64(ret, moment->time_ns);
	else if (column == KIND)
		sqlite3_result_text(ret, kinds[moment->kind], -1, SQLITE_STATIC);
	else if (moment->kind == TRACE_MOMENT_MARK || moment->kind == TRACE_MOMENT_MODE)
		sqlite3_result_text(ret, moment->text, -1, SQLITE_STATIC);
	return 0;
}

static const struct vtab_rows rows = {.load = load, .end = end, .key = -1, .value = value};

const struct vtab table_marks = {
	.name = "marks",
	.help = "moments that were named, pauses, and changes of how it is recorded",
	.columns = columns,
	.column_count = sizeof columns / sizeof columns[0],
	.rows = &rows,
};
