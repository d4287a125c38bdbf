/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice travels as a text of two letters per constraint, the column ('A' is
 * the first) and the comparison; after a blank the same in words, for those who
 * read what EXPLAIN QUERY PLAN says.
 */
#include "sql/pushdown.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* More values than this narrow a scan by their ends only. */
enum { VALUES_MAX = 1 << 22, TEXTS_MAX = 1 << 16, CONSTRAINTS_MAX = 64 };

static char letter_of(const struct vtab *table, sqlite3_index_info *info, int i)
{
	const struct sqlite3_index_constraint *constraint = &info->aConstraint[i];
	if (!constraint->usable || constraint->iColumn < 0 ||
	    (size_t)constraint->iColumn >= table->column_count)
		return 0;
	enum vtab_push push = table->columns[constraint->iColumn].push;
	if (push == PUSH_NOTHING)
		return 0;
	switch (constraint->op) {
	case SQLITE_INDEX_CONSTRAINT_EQ:
		if (push == PUSH_TEXT && sqlite3_stricmp(sqlite3_vtab_collation(info, i), "BINARY"))
			return 0;
		return sqlite3_vtab_in(info, i, -1) ? 'i' : '=';
	case SQLITE_INDEX_CONSTRAINT_GT:
		return push == PUSH_INTEGER ? '>' : 0;
	case SQLITE_INDEX_CONSTRAINT_GE:
		return push == PUSH_INTEGER ? 'g' : 0;
	case SQLITE_INDEX_CONSTRAINT_LT:
		return push == PUSH_INTEGER ? '<' : 0;
	case SQLITE_INDEX_CONSTRAINT_LE:
		return push == PUSH_INTEGER ? 'l' : 0;
	case SQLITE_INDEX_CONSTRAINT_LIKE:
		return push == PUSH_TEXT ? '%' : 0;
	case SQLITE_INDEX_CONSTRAINT_GLOB:
		return push == PUSH_TEXT ? '*' : 0;
	case SQLITE_INDEX_CONSTRAINT_ISNULL:
		return 'n';
	}
	return 0;
}

static int key_of(const struct vtab *table)
{
	return table->rows ? table->rows->key : table->scan->key;
}

static void describe(sqlite3_str *words, const char *column, char letter)
{
	const char *comparison = letter == '='   ? "="
				 : letter == 'i' ? "IN"
				 : letter == '>' ? ">"
				 : letter == 'g' ? ">="
				 : letter == '<' ? "<"
				 : letter == 'l' ? "<="
				 : letter == '%' ? "LIKE"
				 : letter == '*' ? "GLOB"
						 : "IS NULL";
	sqlite3_str_appendf(words, "%s%s %s", sqlite3_str_length(words) ? ", " : " ", column,
			    comparison);
}

/* Rows and cost after a constraint. A scan reads on whatever it leaves out. */
static void discount(const struct vtab *table, int column, char letter, double *rows, double *cost)
{
	bool equal = letter == '=' || letter == 'i';
	if (equal && column == key_of(table)) {
		*cost = table->rows ? 1 : (double)table->scan->key_cost;
		*rows = table->rows ? 1 : (double)table->scan->key_rows;
		return;
	}
	*rows /= equal ? 20 : 3;
	if (table->columns[column].sorted)
		*cost /= equal ? 20 : 3;
	else
		*cost *= 0.9;
}

static bool gives_order(const struct vtab *table, const sqlite3_index_info *info)
{
	if (info->nOrderBy != 1 || info->aOrderBy[0].desc || info->aOrderBy[0].iColumn < 0)
		return false;
	if (table->scan && info->colUsed & table->scan->unsorted_by)
		return false;
	return table->columns[info->aOrderBy[0].iColumn].sorted;
}

int pushdown_choose(const struct vtab *table, struct sql *sql, sqlite3_index_info *info)
{
	char chosen[2 * CONSTRAINTS_MAX + 1];
	int used = 0;
	double rows =
		table->rows ? (double)table->rows->end(sql) : (double)table->scan->estimate(sql);
	rows += 10;
	double cost = rows;
	sqlite3_str *words = sqlite3_str_new(sql->db);
	for (int i = 0; i < info->nConstraint && used < CONSTRAINTS_MAX; i++) {
		char letter = letter_of(table, info, i);
		if (!letter)
			continue;
		if (letter == 'i')
			sqlite3_vtab_in(info, i, 1);
		info->aConstraintUsage[i].argvIndex = used + 1;
		chosen[2 * used] = (char)('A' + info->aConstraint[i].iColumn);
		chosen[2 * used + 1] = letter;
		used++;
		describe(words, table->columns[info->aConstraint[i].iColumn].name, letter);
		discount(table, info->aConstraint[i].iColumn, letter, &rows, &cost);
	}
	chosen[2 * used] = '\0';
	char *described = sqlite3_str_finish(words);
	info->idxStr = sqlite3_mprintf("%s%s", chosen, described ? described : "");
	info->needToFreeIdxStr = 1;
	sqlite3_free(described);
	if (!info->idxStr)
		return SQLITE_NOMEM;
	info->idxNum = (int)(info->colUsed & 0x7fffffff);
	info->estimatedRows = rows < 1 ? 1 : (sqlite3_int64)rows;
	info->estimatedCost = cost < 1 ? 1 : cost;
	info->orderByConsumed = gives_order(table, info);
	return SQLITE_OK;
}

/* ---- reading them back ---- */

void pushdown_reset(struct vtab_query *query)
{
	for (size_t i = 0; i < VTAB_COLUMNS_MAX; i++) {
		struct vtab_filter *filter = &query->filters[i];
		for (size_t k = 0; k < filter->text_count; k++)
			tm_free(filter->texts[k]);
		tm_free(filter->texts);
		tm_free(filter->values);
		tm_free(filter->like);
		tm_free(filter->glob);
		*filter = (struct vtab_filter){.min = INT64_MIN, .max = INT64_MAX};
	}
}

static void raise_min(struct vtab_filter *filter, int64_t min)
{
	if (min > filter->min)
		filter->min = min;
}

static void lower_max(struct vtab_filter *filter, int64_t max)
{
	if (max < filter->max)
		filter->max = max;
}

/* Bounds of integers that can compare so with a real number. */
static void read_real(struct vtab_filter *filter, char letter, double value)
{
	if (!(value > -9.2e18 && value < 9.2e18))
		return;
	if (letter == '=' || letter == '>' || letter == 'g')
		raise_min(filter, (int64_t)ceil(value));
	if (letter == '=' || letter == '<' || letter == 'l')
		lower_max(filter, (int64_t)floor(value));
}

static void read_integer(struct vtab_filter *filter, char letter, int64_t value)
{
	switch (letter) {
	case '=':
		raise_min(filter, value);
		lower_max(filter, value);
		break;
	case '>':
		raise_min(filter, value < INT64_MAX ? value + 1 : value);
		break;
	case 'g':
		raise_min(filter, value);
		break;
	case '<':
		lower_max(filter, value > INT64_MIN ? value - 1 : value);
		break;
	case 'l':
		lower_max(filter, value);
		break;
	}
}

static int compare_integers(const void *a, const void *b)
{
	int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
	return (left > right) - (left < right);
}

static int add_value(struct vtab_filter *filter, size_t *room, int64_t value)
{
	if (filter->value_count == *room) {
		*room = *room * 2 + 64;
		void *grown = tm_grow_array(filter->values, *room, sizeof *filter->values);
		if (!grown)
			return SQLITE_NOMEM;
		filter->values = grown;
	}
	filter->values[filter->value_count++] = value;
	return SQLITE_OK;
}

/* The sorted set without doubles, and its ends. */
static void settle_values(struct vtab_filter *filter)
{
	size_t kept = 0;
	if (filter->value_count > 0)
		qsort(filter->values, filter->value_count, sizeof *filter->values,
		      compare_integers);
	for (size_t i = 0; i < filter->value_count; i++)
		if (kept == 0 || filter->values[i] != filter->values[kept - 1])
			filter->values[kept++] = filter->values[i];
	filter->value_count = kept;
	filter->has_values = true;
	if (kept > 0) {
		raise_min(filter, filter->values[0]);
		lower_max(filter, filter->values[kept - 1]);
	}
}

static void drop_values(struct vtab_filter *filter)
{
	filter->values = tm_free(filter->values);
	filter->value_count = 0;
}

/* column IN (...): a second such set on the same column, or one that is no integers, is ignored. */
static int read_set(struct vtab_filter *filter, sqlite3_value *list)
{
	sqlite3_value *value;
	size_t room = 0;
	if (filter->has_values)
		return SQLITE_OK;
	int code = sqlite3_vtab_in_first(list, &value);
	for (; code == SQLITE_OK && value; code = sqlite3_vtab_in_next(list, &value)) {
		int type = sqlite3_value_type(value);
		if (type == SQLITE_NULL)
			continue;
		if (type != SQLITE_INTEGER || filter->value_count >= VALUES_MAX) {
			drop_values(filter);
			return SQLITE_OK;
		}
		if (add_value(filter, &room, sqlite3_value_int64(value)))
			return SQLITE_NOMEM;
	}
	if (code != SQLITE_OK && code != SQLITE_DONE)
		return code;
	settle_values(filter);
	return SQLITE_OK;
}

static int add_text(struct vtab_filter *filter, size_t *room, sqlite3_value *value)
{
	const char *text = (const char *)sqlite3_value_text(value);
	char *copy = text ? tm_strdup(text) : NULL;
	if (filter->text_count == *room) {
		size_t more = *room * 2 + 8;
		void *grown = tm_grow_array(filter->texts, more, sizeof *filter->texts);
		if (grown) {
			filter->texts = grown;
			*room = more;
		}
	}
	if (!copy || filter->text_count == *room) {
		tm_free(copy);
		return SQLITE_NOMEM;
	}
	filter->texts[filter->text_count++] = copy;
	return SQLITE_OK;
}

static void drop_texts(struct vtab_filter *filter)
{
	for (size_t i = 0; i < filter->text_count; i++)
		tm_free(filter->texts[i]);
	filter->texts = tm_free(filter->texts);
	filter->text_count = 0;
}

static int read_texts(struct vtab_filter *filter, char letter, sqlite3_value *list)
{
	sqlite3_value *value = list;
	size_t room = 0;
	if (filter->has_texts)
		return SQLITE_OK;
	int code = letter == 'i' ? sqlite3_vtab_in_first(list, &value) : SQLITE_OK;
	while (code == SQLITE_OK && value) {
		int type = sqlite3_value_type(value);
		if ((type != SQLITE_TEXT && type != SQLITE_NULL) ||
		    filter->text_count >= TEXTS_MAX) {
			drop_texts(filter);
			return SQLITE_OK;
		}
		if (type == SQLITE_TEXT && add_text(filter, &room, value))
			return SQLITE_NOMEM;
		code = letter == 'i' ? sqlite3_vtab_in_next(list, &value) : SQLITE_DONE;
	}
	if (code != SQLITE_OK && code != SQLITE_DONE)
		return code;
	filter->has_texts = true;
	return SQLITE_OK;
}

/* A second pattern on the same column is ignored. */
static int read_pattern(char **pattern, sqlite3_value *value)
{
	const char *text = (const char *)sqlite3_value_text(value);
	if (*pattern || sqlite3_value_type(value) != SQLITE_TEXT || !text)
		return SQLITE_OK;
	*pattern = tm_strdup(text);
	return *pattern ? SQLITE_OK : SQLITE_NOMEM;
}

static int read_one(struct vtab_filter *filter, enum vtab_push push, char letter,
		    sqlite3_value *value)
{
	if (letter == 'n') {
		filter->only_null = true;
		return SQLITE_OK;
	}
	if (letter == '%' || letter == '*')
		return read_pattern(letter == '%' ? &filter->like : &filter->glob, value);
	if (push == PUSH_TEXT)
		return read_texts(filter, letter, value);
	if (letter == 'i')
		return read_set(filter, value);
	if (sqlite3_value_type(value) == SQLITE_INTEGER)
		read_integer(filter, letter, sqlite3_value_int64(value));
	else if (sqlite3_value_type(value) == SQLITE_FLOAT)
		read_real(filter, letter, sqlite3_value_double(value));
	return SQLITE_OK;
}

int pushdown_read(struct vtab_query *query, const struct vtab *table, const char *chosen,
		  int value_count, sqlite3_value **values)
{
	int code = SQLITE_OK;
	pushdown_reset(query);
	for (int i = 0; i < value_count && code == SQLITE_OK; i++) {
		int column = chosen[2 * i] - 'A';
		code = read_one(&query->filters[column], table->columns[column].push,
				chosen[2 * i + 1], values[i]);
	}
	return code;
}

bool vtab_filter_has(const struct vtab_filter *filter, int64_t value)
{
	if (value < filter->min || value > filter->max)
		return false;
	return !filter->has_values ||
	       (filter->value_count > 0 && bsearch(&value, filter->values, filter->value_count,
						   sizeof value, compare_integers));
}

bool vtab_filter_asks_text(const struct vtab_filter *filter)
{
	return filter->has_texts || filter->like || filter->glob;
}

static bool is_one_of(const struct vtab_filter *filter, const char *text)
{
	for (size_t i = 0; i < filter->text_count; i++)
		if (!strcmp(filter->texts[i], text))
			return true;
	return false;
}

bool vtab_filter_has_text(const struct vtab_filter *filter, const char *text)
{
	if (!text)
		return !vtab_filter_asks_text(filter);
	return (!filter->has_texts || is_one_of(filter, text)) &&
	       (!filter->like || !sqlite3_strlike(filter->like, text, 0)) &&
	       (!filter->glob || !sqlite3_strglob(filter->glob, text));
}
