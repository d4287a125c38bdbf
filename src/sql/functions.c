/* SPDX-License-Identifier: Apache-2.0 */
#include "sql/functions.h"

#include "base/text.h"
#include "base/units.h"
#include "sql/site.h"
#include "sql/vtab.h"

/* ---- figures for people ---- */

/* A figure that is not negative, or false after NULL was put for what is none. */
static bool figure_of(sqlite3_value *value, uint64_t *ret)
{
	if (sqlite3_value_type(value) == SQLITE_NULL)
		return false;
	double real = sqlite3_value_double(value);
	int64_t whole = sqlite3_value_int64(value);
	*ret = whole < 0 ? (uint64_t)0 - (uint64_t)whole : (uint64_t)whole;
	/* Where an integer ends, a real number may go on. */
	return real > -9.3e18 && real < 9.3e18;
}

static void put_human(sqlite3_context *ret, sqlite3_value *value,
		      struct units_text (*format)(uint64_t))
{
	uint64_t figure;
	char text[UNITS_TEXT_BYTES + 2];
	if (!figure_of(value, &figure))
		return;
	sqlite3_snprintf(sizeof text, text, "%s%s", sqlite3_value_int64(value) < 0 ? "-" : "",
			 format(figure).text);
	vtab_put_text(ret, text);
}

static void human_bytes(sqlite3_context *ret, int count, sqlite3_value **values)
{
	(void)count;
	put_human(ret, values[0], units_bytes);
}

static void human_count(sqlite3_context *ret, int count, sqlite3_value **values)
{
	(void)count;
	put_human(ret, values[0], units_count);
}

static void human_time(sqlite3_context *ret, int count, sqlite3_value **values)
{
	(void)count;
	put_human(ret, values[0], units_duration);
}

static void seconds(sqlite3_context *ret, int count, sqlite3_value **values)
{
	(void)count;
	if (sqlite3_value_type(values[0]) != SQLITE_NULL)
		sqlite3_result_double(ret, sqlite3_value_double(values[0]) / 1e9);
}

/* ---- buckets ---- */

/* bucket(value, width): the largest multiple of width that is not above the value. */
static void bucket(sqlite3_context *ret, int count, sqlite3_value **values)
{
	int64_t value = sqlite3_value_int64(values[0]), width = sqlite3_value_int64(values[1]);
	(void)count;
	if (sqlite3_value_type(values[0]) == SQLITE_NULL || width <= 0)
		return;
	int64_t rest = value % width;
	if (rest < 0 && value < INT64_MIN + width)
		return;
	sqlite3_result_int64(ret, rest < 0 ? value - rest - width : value - rest);
}

/* The largest power of two that is not above the value; 0 of 0. */
static void bucket_log2(sqlite3_context *ret, int count, sqlite3_value **values)
{
	int64_t value = sqlite3_value_int64(values[0]);
	(void)count;
	if (sqlite3_value_type(values[0]) == SQLITE_NULL || value < 0)
		return;
	sqlite3_result_int64(ret,
			     value ? INT64_C(1) << (63 - __builtin_clzll((uint64_t)value)) : 0);
}

/* What glibc sets aside on 64 bits: 8 bytes of its own, in steps of 16, at least 32. */
static void size_class(sqlite3_context *ret, int count, sqlite3_value **values)
{
	int64_t size = sqlite3_value_int64(values[0]);
	(void)count;
	if (sqlite3_value_type(values[0]) == SQLITE_NULL || size < 0 || size > INT64_MAX - 32)
		return;
	int64_t chunk = (size + 8 + 15) / 16 * 16;
	sqlite3_result_int64(ret, chunk < 32 ? 32 : chunk);
}

/* ---- estimates ---- */

/* standard_error(bytes, blocks): 0 where nothing was sampled. */
static void standard_error(sqlite3_context *ret, int count, sqlite3_value **values)
{
	struct sql *sql = sqlite3_user_data(ret);
	(void)count;
	if (sqlite3_value_type(values[0]) == SQLITE_NULL ||
	    sqlite3_value_type(values[1]) == SQLITE_NULL)
		return;
	sqlite3_result_double(ret,
			      trace_standard_error(sqlite3_value_double(values[0]),
						   sqlite3_value_double(values[1]),
						   (double)trace_reader_sample_bytes(sql->reader)));
}

/* ---- stacks ---- */

/* The stack_id, with names loaded; false after the result was set for what is none. */
static bool stack_of(sqlite3_context *ret, sqlite3_value *value, uint32_t *ret_stack)
{
	struct sql *sql = sqlite3_user_data(ret);
	struct tm_error err = {0};
	int64_t id = sqlite3_value_int64(value);
	if (sqlite3_value_type(value) == SQLITE_NULL || id < 0 ||
	    (uint64_t)id >= sql->input.stack_count)
		return false;
	if (sql_load_names(sql, &err)) {
		sqlite3_result_error(ret, err.text, -1);
		return false;
	}
	*ret_stack = (uint32_t)id;
	return true;
}

static void function_of(sqlite3_context *ret, int count, sqlite3_value **values)
{
	uint32_t stack_id;
	(void)count;
	if (stack_of(ret, values[0], &stack_id))
		site_put(ret, sqlite3_user_data(ret), stack_id);
}

static void module_of(sqlite3_context *ret, int count, sqlite3_value **values)
{
	uint32_t stack_id;
	struct site site;
	(void)count;
	if (!stack_of(ret, values[0], &stack_id))
		return;
	site_find(sqlite3_user_data(ret), stack_id, &site);
	vtab_put_static(ret, site.module ? view_module_name(site.module) : NULL);
}

static void stack_text(sqlite3_context *ret, int count, sqlite3_value **values)
{
	uint32_t stack_id;
	struct text text = {0};
	int64_t limit = count > 1 ? sqlite3_value_int64(values[1]) : 0;
	if (!stack_of(ret, values[0], &stack_id))
		return;
	site_put_stack(&text, sqlite3_user_data(ret), stack_id, limit > 0 ? (uint64_t)limit : 0);
	if (text_error(&text))
		sqlite3_result_error_nomem(ret);
	else
		vtab_put_text(ret, text_string(&text));
	text_done(&text);
}

static const struct {
	const char *name;
	int arguments;
	void (*call)(sqlite3_context *, int, sqlite3_value **);
	const char *shown, *help; /* NULL = a variant of the one before */
} functions[] = {
	{"human_bytes", 1, human_bytes, "human_bytes(bytes)", "'1.20 GB'"},
	{"human_count", 1, human_count, "human_count(number)", "'3.40 M'"},
	{"human_time", 1, human_time, "human_time(ns)", "'12.0 ms'"},
	{"seconds", 1, seconds, "seconds(ns)", "as a real number"},
	{"function_of", 1, function_of, "function_of(stack_id)",
	 "its site: the innermost function that is no allocator's"},
	{"module_of", 1, module_of, "module_of(stack_id)", "the site's program or library"},
	{"stack_text", 1, stack_text, "stack_text(stack_id [, frames])",
	 "'site < caller < ... < main'"},
	{"stack_text", 2, stack_text, NULL, NULL},
	{"bucket", 2, bucket, "bucket(value, width)",
	 "the largest multiple of width that is not above the value"},
	{"bucket_log2", 1, bucket_log2, "bucket_log2(value)",
	 "the largest power of two that is not above the value"},
	{"standard_error", 2, standard_error, "standard_error(bytes, blocks)",
	 "of an estimate where blocks were sampled, in bytes, at most; else 0.0"},
	{"size_class", 1, size_class, "size_class(bytes)", "what glibc sets aside for a block"},
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

int functions_register(struct sql *sql)
{
	int code = SQLITE_OK;
	for (size_t i = 0; i < FUNCTIONS && code == SQLITE_OK; i++)
		code = sqlite3_create_function_v2(
			sql->db, functions[i].name, functions[i].arguments,
			SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, sql,
			functions[i].call, NULL, NULL, NULL);
	return code;
}

bool sql_function_help(size_t index, struct sql_help *ret)
{
	for (size_t i = 0; i < FUNCTIONS; i++) {
		if (!functions[i].shown || index-- > 0)
			continue;
		*ret = (struct sql_help){functions[i].shown, functions[i].help};
		return true;
	}
	return false;
}
