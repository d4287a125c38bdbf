/* SPDX-License-Identifier: Apache-2.0 */
/* What a query may do: read the tables of the trace, and nothing else. */
#pragma once

#include "sql/state.h"

enum {
	GUARD_HEAP_MIB = 256,      /* SQLite's own memory, of all databases of the process */
	GUARD_LENGTH = 1 << 20,    /* of a text, a blob or a row */
	GUARD_STATEMENT = 1 << 20, /* of a statement */
};

/* SQLite's limits and settings; a SQLite code. */
int guard_limit(sqlite3 *db);
/* From now on only reading; a SQLite code. */
int guard_install(struct sql *sql);
