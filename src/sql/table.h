/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of the trace is a const descriptor; one adapter makes a SQLite virtual
 * table of each. There are two kinds: rows that are numbered and can be had in
 * any order (struct table_rows), and rows that come out of a scan (struct
 * table_scan).
 *
 * Push-down: what a query compares with constants arrives as one struct
 * table_filter per column. A filter only says what may be left out: SQLite tests
 * every row again, so a table may ignore any filter and stay right.
 */
#pragma once

#include "sql/state.h"

enum { TABLE_COLUMNS_MAX = 24 };
enum table_push { PUSH_NOTHING, PUSH_INTEGER, PUSH_TEXT };

struct table_column {
	const char *name, *type, *help;
	enum table_push push;
	bool sorted; /* the rows come in rising order of it */
};

struct table_filter {
	int64_t min, max;     /* of integers */
	bool has_values;      /* only these; then min and max are their ends */
	int64_t *values;      /* sorted */
	size_t value_count;
	bool has_texts;       /* only these */
	char **texts;
	size_t text_count;
	bool only_null;
};

struct table_query {
	struct sql *sql;
	uint32_t columns_used; /* bit per column: its value will be asked for */
	struct table_filter filters[TABLE_COLUMNS_MAX];
};

static inline bool table_uses(const struct table_query *query, int column)
{
	return query->columns_used >> column & 1;
}

/* As SQLite sees it: beyond 2^63 it is cut. */
static inline int64_t table_i64(uint64_t value)
{
	return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

/* Whether an integer can pass the filter. O(log values). */
bool table_filter_has(const struct table_filter *filter, int64_t value);
/* Whether a text can. */
bool table_filter_has_text(const struct table_filter *filter, const char *text);

struct table_rows {
	int (*load)(struct sql *sql, struct tm_error *err); /* may be NULL */
	uint64_t first;                                     /* number of the first row */
	uint64_t (*end)(const struct sql *sql);             /* after the last */
	int key;   /* the column that is the row's number; -1 = none */
	int (*value)(struct sql *sql, uint64_t row, int column, sqlite3_context *ret);
};

struct table_scan {
	size_t state_bytes; /* zeroed before begin() */
	/* The query outlives the scan. After a failure end() is called all the same. */
	int (*begin)(void *state, const struct table_query *query, struct tm_error *err);
	/* *ret_row false: no more. */
	int (*next)(void *state, bool *ret_row, struct tm_error *err);
	int (*value)(void *state, int column, sqlite3_context *ret);
	void (*end)(void *state);
	uint64_t (*estimate)(const struct sql *sql); /* rows, about */
	int key; /* a column by which rows are found without a scan; -1 = none */
	uint64_t key_rows, key_cost;
	uint32_t unsorted_by;  /* columns whose use gives the rows another order */
};

struct table {
	const char *name, *help;
	const struct table_column *columns;
	size_t column_count;
	const struct table_rows *rows; /* one of the two */
	const struct table_scan *scan;
};

/* A SQLite code. */
int table_register(struct sql *sql, const struct table *table);

/* Results: sizes beyond 2^63 are cut there; a time of UINT64_MAX is NULL. */
void table_put_u64(sqlite3_context *ret, uint64_t value);
void table_put_time(sqlite3_context *ret, uint64_t time_ns);
/* Borrowed text that outlives the statement; NULL is NULL. */
void table_put_static(sqlite3_context *ret, const char *text);
/* Text that is copied. */
void table_put_text(sqlite3_context *ret, const char *text);
