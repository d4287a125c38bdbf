/* SPDX-License-Identifier: Apache-2.0 */
#include "sql/guard.h"

#include <stdio.h>
#include <string.h>

#include "sql/tables.h"
#include "sql/vtab.h"

static const struct {
	int id, value;
} limits[] = {
	{SQLITE_LIMIT_LENGTH, GUARD_LENGTH},
	{SQLITE_LIMIT_SQL_LENGTH, GUARD_STATEMENT},
	{SQLITE_LIMIT_COLUMN, 200},
	{SQLITE_LIMIT_EXPR_DEPTH, 200},
	{SQLITE_LIMIT_COMPOUND_SELECT, 100},
	{SQLITE_LIMIT_VDBE_OP, 250000},
	{SQLITE_LIMIT_FUNCTION_ARG, 32},
	{SQLITE_LIMIT_ATTACHED, 0},
	{SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 500},
	{SQLITE_LIMIT_VARIABLE_NUMBER, 10},
	{SQLITE_LIMIT_TRIGGER_DEPTH, 1},
	{SQLITE_LIMIT_WORKER_THREADS, 0},
};

int guard_limit(sqlite3 *db)
{
	sqlite3_hard_heap_limit64((sqlite3_int64)GUARD_HEAP_MIB << 20);
	for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
		sqlite3_limit(db, limits[i].id, limits[i].value);
	sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0, NULL);
	/* A misspelt column in double quotes is a mistake, not a text. */
	sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
	/* Sorting and grouping go to unlinked temporary files, not to memory. */
	return sqlite3_exec(db, "PRAGMA temp_store = 1", NULL, NULL, NULL);
}

static bool is_one_of(const char *name, const char *const *names)
{
	for (size_t i = 0; names[i]; i++)
		if (!sqlite3_stricmp(name, names[i]))
			return true;
	return false;
}

/* Tables that come with SQLite and show nothing but their arguments or our tables. */
static const char *const other_tables[] = {
	"json_each",
	"json_tree",
	"pragma_table_info",
	"pragma_table_xinfo",
	"pragma_table_list",
	"pragma_function_list",
	NULL,
};

/*
 * Names of WITH clauses come here, too, so what is not known is no harm: of SQLite's own tables
 * those that were not touched before cannot be declared any more.
 */
static bool may_read(const char *table)
{
	if (is_one_of(table, other_tables) || !sqlite3_stricmp(table, "sqlite_master") ||
	    !sqlite3_stricmp(table, "sqlite_schema"))
		return true;
	return sqlite3_strnicmp(table, "sqlite_", 7) && sqlite3_strnicmp(table, "pragma_", 7) &&
	       sqlite3_stricmp(table, "dbstat");
}

static bool may_pragma(const char *name)
{
	static const char *const describing[] = {"table_info", "table_xinfo", "table_list",
						 "function_list", NULL};
	return is_one_of(name, describing);
}

static bool may_call(const char *name)
{
	static const char *const dangerous[] = {
		"load_extension", "fts3_tokenizer", "sqlite_log", "edit",
		"readfile",       "writefile",      NULL};
	return !is_one_of(name, dangerous);
}

/* Called for each thing that a statement would do, when it is compiled. */
static int authorize(void *ctx, int action, const char *first, const char *second,
		     const char *database, const char *trigger)
{
	struct sql *sql = ctx;
	(void)database;
	(void)trigger;
	const char *what = "change anything: the trace is only read";
	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_RECURSIVE:
		return SQLITE_OK;
	case SQLITE_READ:
		if (may_read(first))
			return SQLITE_OK;
		what = "read SQLite's own tables";
		break;
	case SQLITE_FUNCTION:
		if (may_call(second))
			return SQLITE_OK;
		what = "call this function";
		break;
	case SQLITE_PRAGMA:
		if (may_pragma(first))
			return SQLITE_OK;
		what = "use this pragma";
		break;
	case SQLITE_ATTACH:
		what = "open other files";
		break;
	}
	if (!sql->refused[0])
		snprintf(sql->refused, sizeof sql->refused,
			 "a query may not %s; use SELECT, WITH or EXPLAIN", what);
	return SQLITE_DENY;
}

static int touch(sqlite3 *db, const char *table)
{
	char text[64];
	sqlite3_stmt *statement = NULL;
	sqlite3_snprintf(sizeof text, text, "SELECT 1 FROM %s", table);
	int code = sqlite3_prepare_v2(db, text, -1, &statement, NULL);
	sqlite3_finalize(statement);
	return code;
}

int guard_install(struct sql *sql)
{
	int code = SQLITE_OK;
	/* A table declares itself when it is first used, and that is no longer allowed then. */
	for (size_t i = 0; code == SQLITE_OK && tables_all[i]; i++)
		code = touch(sql->db, tables_all[i]->name);
	for (size_t i = 0; code == SQLITE_OK && other_tables[i]; i++)
		code = touch(sql->db, other_tables[i]);
	return code == SQLITE_OK ? sqlite3_set_authorizer(sql->db, authorize, sql) : code;
}
