/* SPDX-License-Identifier: Apache-2.0 */
/* threads: every thread that did anything with the heap. */
#include "sql/tables.h"
#include "sql/vtab.h"

enum { THREAD_ID, TID, NAME, START_NS, END_NS };

static const struct vtab_column columns[] = {
	{"thread_id", "INTEGER", "number of the thread, from 0, never reused", PUSH_INTEGER, true},
	{"tid", "INTEGER", "the kernel's number", PUSH_NOTHING, false},
	{"name", "TEXT", "", PUSH_NOTHING, false},
	{"start_ns", "INTEGER", "when it was first seen", PUSH_NOTHING, false},
	{"end_ns", "INTEGER", "when it was seen to be gone; NULL if it lived to the end",
	 PUSH_NOTHING, false},
};

static uint64_t end(const struct sql *sql)
{
	return sql->thread_count;
}

static int value(struct sql *sql, uint64_t row, int column, sqlite3_context *ret)
{
	const struct trace_thread *thread = &sql->threads[row];
	switch (column) {
	case THREAD_ID:
		vtab_put_u64(ret, row);
		break;
	case TID:
		vtab_put_u64(ret, thread->tid);
		break;
	case NAME:
		vtab_put_static(ret, thread->name);
		break;
	case START_NS:
		vtab_put_u64(ret, thread->start_ns);
		break;
	case END_NS:
		vtab_put_time(ret, thread->end_ns);
		break;
	}
	return 0;
}

static const struct vtab_rows rows = {.end = end, .key = THREAD_ID, .value = value};

const struct vtab table_threads = {
	.name = "threads",
	.help = "threads that used the heap",
	.columns = columns,
	.column_count = sizeof columns / sizeof columns[0],
	.rows = &rows,
};
