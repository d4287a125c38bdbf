/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any view as a table of plain rows: what csv and json show. A row is a list of
 * values; the table knows their names.
 */
#pragma once

#include "export/export.h"

enum table_type { TABLE_TEXT, TABLE_NUMBER, TABLE_NONE };

struct table_value {
	enum table_type type;
	const char *text;
	uint64_t number;
};

enum { TABLE_COLUMNS_MAX = 48 };

struct table_columns {
	const char *names[TABLE_COLUMNS_MAX];
	size_t count;
};

/* What takes a table, row by row. Not 0 stops with that value. */
struct table_sink {
	int (*begin)(void *ctx, const struct table_columns *columns);
	int (*row)(void *ctx, const struct table_value *values, size_t count);
	void *ctx;
};

/* -EINVAL with a sentence that names all views, if there is none of that name. */
TM_MUST_CHECK int table_run(const struct export_input *input, const char *view,
			    const struct table_sink *sink, struct tm_error *err);
/* Names of all views; NULL beyond the last. */
const char *table_name(size_t index);
