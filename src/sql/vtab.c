/* SPDX-License-Identifier: Apache-2.0 */
/* The adapter from descriptors to SQLite's virtual tables. */
#include "sql/vtab.h"

#include <errno.h>

#include "base/memory.h"
#include "base/text.h"
#include "sql/pushdown.h"

/* What SQLite knows the table by. */
struct adapted {
	sqlite3_vtab base;
	struct sql *sql;
	const struct vtab *table;
};

/* What it is registered with. */
struct binding {
	struct sql *sql;
	const struct vtab *table;
};

struct cursor {
	sqlite3_vtab_cursor base;
	const struct vtab *table;
	struct vtab_query query;
	uint64_t row, end; /* of numbered rows */
	size_t value_at;   /* the next of the key's set of values */
	bool has_row, begun;
	sqlite3_int64 rowid;
	void *state; /* of a scan */
};

void vtab_put_u64(sqlite3_context *ret, uint64_t value)
{
	sqlite3_result_int64(ret, vtab_i64(value));
}

void vtab_put_time(sqlite3_context *ret, uint64_t time_ns)
{
	if (time_ns == UINT64_MAX)
		sqlite3_result_null(ret);
	else
		vtab_put_u64(ret, time_ns);
}

void vtab_put_static(sqlite3_context *ret, const char *text)
{
	if (text)
		sqlite3_result_text(ret, text, -1, SQLITE_STATIC);
	else
		sqlite3_result_null(ret);
}

void vtab_put_text(sqlite3_context *ret, const char *text)
{
	sqlite3_result_text(ret, text, -1, SQLITE_TRANSIENT);
}

/* Our failure as a SQLite code with its sentence. */
static int fail(sqlite3_vtab *vtab, int code, const struct tm_error *err)
{
	if (code == -ENOMEM)
		return SQLITE_NOMEM;
	if (code == -ECANCELED)
		return SQLITE_INTERRUPT;
	sqlite3_free(vtab->zErrMsg);
	vtab->zErrMsg = sqlite3_mprintf("%s", err->text);
	return SQLITE_ERROR;
}

static int connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret,
		   char **ret_error)
{
	const struct binding *binding = aux;
	const struct vtab *table = binding->table;
	struct text declared = {0};
	(void)argc;
	(void)argv;
	(void)ret_error;
	text_print(&declared, "CREATE TABLE %s(", table->name);
	for (size_t i = 0; i < table->column_count; i++)
		text_print(&declared, "%s\"%s\" %s", i ? ", " : "", table->columns[i].name,
			   table->columns[i].type);
	text_put(&declared, ")");
	struct adapted *adapted = tm_alloc(sizeof *adapted);
	int code = SQLITE_NOMEM;
	if (adapted && !text_error(&declared))
		code = sqlite3_declare_vtab(db, text_string(&declared));
	text_done(&declared);
	if (code != SQLITE_OK) {
		tm_free(adapted);
		return code;
	}
	adapted->sql = binding->sql;
	adapted->table = table;
	*ret = &adapted->base;
	return SQLITE_OK;
}

static int disconnect(sqlite3_vtab *vtab)
{
	tm_free(vtab);
	return SQLITE_OK;
}

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
	struct adapted *adapted = (struct adapted *)vtab;
	return pushdown_choose(adapted->table, adapted->sql, info);
}

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret)
{
	struct adapted *adapted = (struct adapted *)vtab;
	struct cursor *cursor = tm_alloc(sizeof *cursor);
	if (!cursor)
		return SQLITE_NOMEM;
	cursor->table = adapted->table;
	cursor->query.sql = adapted->sql;
	pushdown_reset(&cursor->query);
	*ret = &cursor->base;
	return SQLITE_OK;
}

static void end_scan(struct cursor *cursor)
{
	if (cursor->begun && cursor->table->scan)
		cursor->table->scan->end(cursor->state);
	cursor->begun = false;
	cursor->state = tm_free(cursor->state);
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
	struct cursor *cursor = (struct cursor *)base;
	end_scan(cursor);
	pushdown_reset(&cursor->query);
	tm_free(cursor);
	return SQLITE_OK;
}

/* ---- numbered rows ---- */

/* The next row of the key's set of values. */
static void next_value(struct cursor *cursor, const struct vtab_filter *filter)
{
	const struct vtab_rows *rows = cursor->table->rows;
	for (; cursor->value_at < filter->value_count; cursor->value_at++) {
		int64_t value = filter->values[cursor->value_at];
		if (value >= 0 && (uint64_t)value >= rows->first && (uint64_t)value < cursor->end) {
			cursor->row = (uint64_t)value;
			cursor->value_at++;
			cursor->has_row = true;
			return;
		}
	}
	cursor->has_row = false;
}

static const struct vtab_filter *key_filter(const struct cursor *cursor)
{
	int key = cursor->table->rows->key;
	return key >= 0 ? &cursor->query.filters[key] : NULL;
}

static int begin_rows(struct cursor *cursor, struct tm_error *err)
{
	const struct vtab_rows *rows = cursor->table->rows;
	int code = rows->load ? rows->load(cursor->query.sql, err) : 0;
	if (code)
		return code;
	const struct vtab_filter *filter = key_filter(cursor);
	cursor->row = rows->first;
	cursor->end = rows->end(cursor->query.sql);
	cursor->value_at = 0;
	if (filter && filter->has_values) {
		next_value(cursor, filter);
		return 0;
	}
	if (filter && filter->max < (int64_t)cursor->end)
		cursor->end = filter->max < 0 ? 0 : (uint64_t)filter->max + 1;
	if (filter && filter->min > (int64_t)cursor->row)
		cursor->row = (uint64_t)filter->min;
	cursor->has_row = cursor->row < cursor->end;
	return 0;
}

static void next_row(struct cursor *cursor)
{
	const struct vtab_filter *filter = key_filter(cursor);
	if (filter && filter->has_values)
		next_value(cursor, filter);
	else
		cursor->has_row = ++cursor->row < cursor->end;
}

/* ---- all ---- */

static int begin_scan(struct cursor *cursor, struct tm_error *err)
{
	const struct vtab_scan *scan = cursor->table->scan;
	end_scan(cursor);
	cursor->state = tm_alloc(scan->state_bytes);
	if (!cursor->state)
		return -ENOMEM;
	cursor->begun = true;
	int code = scan->begin(cursor->state, &cursor->query, err);
	return code ? code : scan->next(cursor->state, &cursor->has_row, err);
}

static int filter(sqlite3_vtab_cursor *base, int number, const char *chosen, int value_count,
		  sqlite3_value **values)
{
	struct cursor *cursor = (struct cursor *)base;
	struct tm_error err = {0};
	end_scan(cursor);
	cursor->has_row = false;
	cursor->rowid = 0;
	cursor->query.columns_used = (uint32_t)number;
	int code = pushdown_read(&cursor->query, cursor->table, chosen, value_count, values);
	if (code != SQLITE_OK)
		return code;
	code = cursor->table->rows ? begin_rows(cursor, &err) : begin_scan(cursor, &err);
	return code ? fail(base->pVtab, code, &err) : SQLITE_OK;
}

static int next(sqlite3_vtab_cursor *base)
{
	struct cursor *cursor = (struct cursor *)base;
	struct tm_error err = {0};
	int code = 0;
	cursor->rowid++;
	if (cursor->table->rows)
		next_row(cursor);
	else
		code = cursor->table->scan->next(cursor->state, &cursor->has_row, &err);
	return code ? fail(base->pVtab, code, &err) : SQLITE_OK;
}

static int at_end(sqlite3_vtab_cursor *base)
{
	return !((struct cursor *)base)->has_row;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *ret, int number)
{
	struct cursor *cursor = (struct cursor *)base;
	int code;
	if (cursor->table->rows)
		code = cursor->table->rows->value(cursor->query.sql, cursor->row, number, ret);
	else
		code = cursor->table->scan->value(cursor->state, number, ret);
	return code == -ENOMEM ? SQLITE_NOMEM : code ? SQLITE_ERROR : SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
	*ret = ((struct cursor *)base)->rowid;
	return SQLITE_OK;
}

/* Without xCreate: there without CREATE VIRTUAL TABLE, under the module's name. */
static const sqlite3_module module = {
	.iVersion = 1,
	.xConnect = connect,
	.xBestIndex = best_index,
	.xDisconnect = disconnect,
	.xDestroy = disconnect,
	.xOpen = open_cursor,
	.xClose = close_cursor,
	.xFilter = filter,
	.xNext = next,
	.xEof = at_end,
	.xColumn = column,
	.xRowid = rowid,
};

static void free_binding(void *binding)
{
	tm_free(binding);
}

int vtab_register(struct sql *sql, const struct vtab *table)
{
	struct binding *binding = tm_alloc(sizeof *binding);
	if (!binding)
		return SQLITE_NOMEM;
	*binding = (struct binding){sql, table};
	return sqlite3_create_module_v2(sql->db, table->name, &module, binding, free_binding);
}
