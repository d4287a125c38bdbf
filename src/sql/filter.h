/* SPDX-License-Identifier: Apache-2.0 */
/* From SQLite's constraints to filters: what xBestIndex chose, xFilter reads back. */
#pragma once

#include "sql/table.h"

/* Fills info: which constraints are wanted, what they save, the order of the rows. */
int filter_choose(const struct table *table, struct sql *sql, sqlite3_index_info *info);
/* Reads the constraints chosen so into the query's filters. A SQLite code. */
int filter_read(struct table_query *query, const struct table *table, const char *chosen,
		int value_count, sqlite3_value **values);
/* Everything passes again; releases the filters. */
void filter_reset(struct table_query *query);
