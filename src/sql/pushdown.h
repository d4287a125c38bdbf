/* SPDX-License-Identifier: Apache-2.0 */
/* From SQLite's constraints to filters: what xBestIndex chose, xFilter reads back. */
#pragma once

#include "sql/vtab.h"

/* Fills info: which constraints are wanted, what they save, the order of the rows. */
int pushdown_choose(const struct vtab *table, struct sql *sql, sqlite3_index_info *info);
/* Reads the constraints chosen so into the query's filters. A SQLite code. */
int pushdown_read(struct vtab_query *query, const struct vtab *table, const char *chosen,
		  int value_count, sqlite3_value **values);
/* Everything passes again; releases the filters. */
void pushdown_reset(struct vtab_query *query);
