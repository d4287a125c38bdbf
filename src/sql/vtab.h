/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of the trace is a const descriptor; one adapter makes a SQLite virtual
 * table of each. There are two kinds: rows that are numbered and can be had in
 * any order (struct vtab_rows), and rows that come out of a scan (struct
 * vtab_scan).
 *
 * Push-down: what a query compares with constants arrives as one struct
 * table_filter per column. A filter only says what may be left out: SQLite tests
 * every row again, so a table may ignore any filter and stay right.
 */
#pragma once

#include "sql/state.h"

enum { VTAB_COLUMNS_MAX = 24 };
enum vtab_push { PUSH_NOTHING, PUSH_INTEGER, PUSH_TEXT };

struct vtab_column {
	const char *name, *type, *help;
	enum vtab_push push;
	bool sorted; /* the rows come in rising order of it */
};

struct vtab_filter {
	int64_t min, max; /* of integers */
	bool has_values;  /* only these; then min and max are their ends */
	int64_t *values;  /* sorted */
	size_t value_count;
	bool has_texts; /* only these */
	char **texts;
	size_t text_count;
	char *like, *glob; /* only what matches; NULL = none */
	bool only_null;
};

struct vtab_query {
	struct sql *sql;
	uint32_t columns_used; /* bit per column: its value will be asked for */
	struct vtab_filter filters[VTAB_COLUMNS_MAX];
};

static inline bool vtab_uses(const struct vtab_query *query, int column)
{
	return query->columns_used >> column & 1;
}

/* As SQLite sees it: beyond 2^63 it is cut. */
static inline int64_t vtab_i64(uint64_t value)
{
	return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

/* Whether an integer can pass the filter. O(log values). */
bool vtab_filter_has(const struct vtab_filter *filter, int64_t value);
/* Whether a text can; NULL passes only where nothing is asked. */
bool vtab_filter_has_text(const struct vtab_filter *filter, const char *text);
/* Whether anything is asked of a text. */
bool vtab_filter_asks_text(const struct vtab_filter *filter);

struct vtab_rows {
	int (*load)(struct sql *sql, struct tm_error *err); /* may be NULL */
	uint64_t first;                                     /* number of the first row */
	uint64_t (*end)(const struct sql *sql);             /* after the last */
	int key; /* the column that is the row's number; -1 = none */
	int (*value)(struct sql *sql, uint64_t row, int column, sqlite3_context *ret);
};

struct vtab_scan {
	size_t state_bytes; /* zeroed before begin() */
	/* The query outlives the scan. After a failure end() is called all the same. */
	int (*begin)(void *state, const struct vtab_query *query, struct tm_error *err);
	/* *ret_row false: no more. */
	int (*next)(void *state, bool *ret_row, struct tm_error *err);
	int (*value)(void *state, int column, sqlite3_context *ret);
	void (*end)(void *state);
	uint64_t (*estimate)(const struct sql *sql); /* rows, about */
	int key; /* a column by which rows are found without a scan; -1 = none */
	uint64_t key_rows, key_cost;
	uint32_t unsorted_by; /* columns whose use gives the rows another order */
};

struct vtab {
	const char *name, *help;
	const struct vtab_column *columns;
	size_t column_count;
	const struct vtab_rows *rows; /* one of the two */
	const struct vtab_scan *scan;
};

/* A SQLite code. */
int vtab_register(struct sql *sql, const struct vtab *table);

/* Results: sizes beyond 2^63 are cut there; a time of UINT64_MAX is NULL. */
void vtab_put_u64(sqlite3_context *ret, uint64_t value);
void vtab_put_time(sqlite3_context *ret, uint64_t time_ns);
/* Borrowed text that outlives the statement; NULL is NULL. */
void vtab_put_static(sqlite3_context *ret, const char *text);
/* Text that is copied. */
void vtab_put_text(sqlite3_context *ret, const char *text);
