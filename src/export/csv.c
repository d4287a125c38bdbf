/* SPDX-License-Identifier: Apache-2.0 */
/* Any view as CSV (RFC 4180 but for the line end) and as JSON: an array of objects. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "export/formats.h"
#include "export/rows.h"
#include "export/table.h"

static const char *usual_view(const struct export_input *input)
{
	return input->view ? input->view : "stacks";
}

/* ---- CSV ---- */

/* Quoted where a reader needs it; a spreadsheet takes a leading = + - @ for a formula. */
static void put_cell(struct text *out, const char *value)
{
	struct text visible = {0};
	bool formula = value[0] && strchr("=+-@", value[0]);
	text_put_visible(&visible, value, strlen(value));
	const char *shown = text_string(&visible);
	bool quoted = formula || strpbrk(shown, ",\"") || strpbrk(shown, " ;");
	if (quoted)
		text_put_char(out, '"');
	if (formula)
		text_put_char(out, '\'');
	for (const char *at = shown; *at; at++) {
		if (*at == '"')
			text_put_char(out, '"');
		text_put_char(out, *at);
	}
	if (quoted)
		text_put_char(out, '"');
	if (visible.error && !out->error)
		out->error = visible.error;
	text_done(&visible);
}

static int csv_begin(void *ctx, const struct table_columns *columns)
{
	struct outlet *outlet = ctx;
	for (size_t i = 0; i < columns->count; i++)
		text_print(&outlet->text, "%s%s", i ? "," : "", columns->names[i]);
	text_put_char(&outlet->text, '\n');
	return 0;
}

static int csv_row(void *ctx, const struct table_value *values, size_t count)
{
	struct outlet *outlet = ctx;
	for (size_t i = 0; i < count; i++) {
		if (i)
			text_put_char(&outlet->text, ',');
		if (values[i].type == TABLE_TEXT)
			put_cell(&outlet->text, values[i].text);
		else if (values[i].type == TABLE_NUMBER)
			text_print(&outlet->text, "%" PRIu64, values[i].number);
	}
	text_put_char(&outlet->text, '\n');
	return outlet_flush(outlet);
}

static int write_csv(const struct export_input *input, struct outlet *outlet, struct tm_error *err)
{
	const struct table_sink sink = {.begin = csv_begin, .row = csv_row, .ctx = outlet};
	return table_run(input, usual_view(input), &sink, err);
}

/* ---- JSON ---- */

struct json_table {
	struct outlet *outlet;
	struct json json;
	struct table_columns columns;
};

static int json_begin(void *ctx, const struct table_columns *columns)
{
	((struct json_table *)ctx)->columns = *columns;
	return 0;
}

static int json_row(void *ctx, const struct table_value *values, size_t count)
{
	struct json_table *t = ctx;
	json_begin_object(&t->json, NULL);
	for (size_t i = 0; i < count; i++) {
		const char *key = t->columns.names[i];
		if (values[i].type == TABLE_TEXT)
			json_string(&t->json, key, values[i].text);
		else if (values[i].type == TABLE_NUMBER)
			json_u64(&t->json, key, values[i].number);
		else
			json_null(&t->json, key);
	}
	json_end(&t->json);
	return outlet_flush(t->outlet);
}

static int write_json(const struct export_input *input, struct outlet *outlet, struct tm_error *err)
{
	struct json_table t = {.outlet = outlet, .json = {.out = &outlet->text}};
	const struct table_sink sink = {.begin = json_begin, .row = json_row, .ctx = &t};
	json_begin_object(&t.json, NULL);
	json_string(&t.json, "command", export_command(input));
	json_u64(&t.json, "from_ns", input->from_ns);
	json_u64(&t.json, "to_ns", input->to_ns);
	json_string(&t.json, "view", usual_view(input));
	json_begin_array(&t.json, "rows");
	int code = table_run(input, usual_view(input), &sink, err);
	json_end(&t.json);
	json_end(&t.json);
	text_put_char(&outlet->text, '\n');
	return code;
}

const struct export_format export_csv = {
	.name = "csv",
	.help = "any view as CSV: --view stacks, functions, timeline, blocks ...",
	.suffix = ".csv",
	.type = "text/csv; charset=utf-8",
	.takes_view = true,
	.write = write_csv,
};

const struct export_format export_json = {
	.name = "json",
	.help = "any view as JSON: an object with an array of rows",
	.suffix = ".json",
	.type = "application/json",
	.takes_view = true,
	.write = write_json,
};
