/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sql_output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/memory.h"
#include "base/utf8.h"

/* So many rows decide the widths of a table; then rows are written as they come. */
enum { WAITING_ROWS = 500, WAITING_BYTES = 1 << 20, FLUSH_BYTES = 1 << 16, REAL_BYTES = 32 };

void sql_output_init(struct sql_output *output, enum sql_format format, enum out_color color)
{
	*output = (struct sql_output){.format = format};
	out_init(&output->out, color);
	output->json = (struct json){.out = &output->out.text, .pretty = true};
}

static void forget_columns(struct sql_output *output)
{
	for (size_t i = 0; output->names && i < output->count; i++)
		tm_free(output->names[i]);
	output->names = tm_free(output->names);
	output->widths = tm_free(output->widths);
	output->is_text = tm_free(output->is_text);
	output->count = 0;
	output->waiting_count = 0;
	output->has_widths = false;
	text_clear(&output->cells);
}

void sql_output_done(struct sql_output *output)
{
	forget_columns(output);
	tm_free(output->waiting);
	text_done(&output->cells);
	text_done(&output->out.text);
}

int sql_output_flush(struct sql_output *output)
{
	struct text *text = &output->out.text;
	int code = text_error(text);
	if (output->before && text->length > 0)
		output->before(output->before_ctx);
	if (!code)
		code = io_write(STDOUT_FILENO, text_string(text), text->length);
	text_clear(text);
	return code;
}

static int flush_if_long(struct sql_output *output)
{
	return output->out.text.length < FLUSH_BYTES ? text_error(&output->out.text)
						     : sql_output_flush(output);
}

/* ---- values as text ---- */

/* The shortest that reads back as the same. */
static void put_real(struct text *text, double real)
{
	char digits[REAL_BYTES];
	snprintf(digits, sizeof digits, "%.15g", real);
	if (strtod(digits, NULL) != real)
		snprintf(digits, sizeof digits, "%.17g", real);
	text_put(text, digits);
}

static void put_hex(struct text *text, const struct sql_value *value)
{
	for (size_t i = 0; i < value->bytes; i++)
		text_print(text, "%02x", (unsigned char)value->text[i]);
}

/* ---- table ---- */

static int wait_cell(struct sql_output *output, const struct sql_value *value, size_t column)
{
	struct text *cells = &output->cells;
	size_t offset = cells->length;
	if (output->waiting_count == output->waiting_room) {
		size_t room = output->waiting_room * 2 + 256;
		void *grown = tm_grow_array(output->waiting, room, sizeof *output->waiting);
		if (!grown)
			return -ENOMEM;
		output->waiting = grown;
		output->waiting_room = room;
	}
	switch (value->type) {
	case SQL_NULL:
		break;
	case SQL_INTEGER:
		text_print(cells, "%" PRId64, value->integer);
		break;
	case SQL_REAL:
		put_real(cells, value->real);
		break;
	case SQL_TEXT:
		text_put_visible(cells, value->text, value->bytes);
		break;
	case SQL_BLOB:
		put_hex(cells, value);
		break;
	}
	size_t bytes = cells->length - offset;
	unsigned wide = bytes ? (unsigned)utf8_count(cells->data + offset, bytes) : 0;
	output->waiting[output->waiting_count++] = (struct sql_cell){offset, bytes, wide};
	if (value->type == SQL_TEXT || value->type == SQL_BLOB)
		output->is_text[column] = true;
	return text_error(cells);
}

static void put_padded(struct sql_output *output, size_t column, const char *text, size_t bytes,
		       unsigned wide)
{
	struct text *out = &output->out.text;
	unsigned width = output->widths[column], pad = width > wide ? width - wide : 0;
	if (column > 0)
		text_put(out, "  ");
	if (!output->is_text[column])
		text_put_repeated(out, ' ', pad);
	text_put_bytes(out, text, bytes);
	if (output->is_text[column] && column + 1 < output->count)
		text_put_repeated(out, ' ', pad);
}

/* Ends a line of a table; empty cells leave no blanks there. */
static void end_line(struct sql_output *output)
{
	struct text *out = &output->out.text;
	while (out->length > 0 && out->data[out->length - 1] == ' ')
		out->length--;
	text_put_char(out, '\n');
}

static void find_widths(struct sql_output *output)
{
	for (size_t i = 0; i < output->count; i++)
		output->widths[i] =
			(unsigned)utf8_count(output->names[i], strlen(output->names[i]));
	for (size_t i = 0; i < output->waiting_count; i++) {
		unsigned *width = &output->widths[i % output->count];
		if (output->waiting[i].columns > *width)
			*width = output->waiting[i].columns;
	}
	output->has_widths = true;
}

static void put_head(struct sql_output *output)
{
	out_style(&output->out, OUT_BOLD);
	for (size_t i = 0; i < output->count; i++) {
		size_t bytes = strlen(output->names[i]);
		put_padded(output, i, output->names[i], bytes,
			   (unsigned)utf8_count(output->names[i], bytes));
	}
	out_style(&output->out, OUT_PLAIN);
	text_put_char(&output->out.text, '\n');
	for (size_t i = 0; i < output->count; i++) {
		text_put(&output->out.text, i ? "  " : "");
		text_put_repeated(&output->out.text, '-', output->widths[i]);
	}
	text_put_char(&output->out.text, '\n');
}

static int put_waiting(struct sql_output *output)
{
	if (!output->has_widths) {
		find_widths(output);
		put_head(output);
	}
	for (size_t i = 0; i < output->waiting_count; i++) {
		const struct sql_cell *cell = &output->waiting[i];
		put_padded(output, i % output->count, text_string(&output->cells) + cell->offset,
			   cell->bytes, cell->columns);
		if ((i + 1) % output->count == 0)
			end_line(output);
	}
	output->waiting_count = 0;
	text_clear(&output->cells);
	return flush_if_long(output);
}

static int table_row(struct sql_output *output, const struct sql_value *values)
{
	for (size_t i = 0; i < output->count; i++) {
		int code = wait_cell(output, &values[i], i);
		if (code)
			return code;
	}
	bool enough = output->has_widths || output->rows >= WAITING_ROWS ||
		      output->cells.length >= WAITING_BYTES;
	return enough ? put_waiting(output) : 0;
}

/* ---- CSV ---- */

static void put_csv_text(struct sql_output *output, const char *data, size_t bytes)
{
	struct text *out = &output->out.text;
	bool quoted = bytes == 0;
	for (size_t i = 0; i < bytes && !quoted; i++)
		quoted = data[i] == '"' || data[i] == ',' || data[i] == '\n' || data[i] == '\r';
	if (quoted)
		text_put_char(out, '"');
	size_t from = 0;
	for (size_t i = 0; i < bytes; i++)
		if (data[i] == '"') {
			text_put_bytes(out, data + from, i + 1 - from);
			from = i; /* the quote comes once more */
		}
	text_put_bytes(out, data + from, bytes - from);
	if (quoted)
		text_put_char(out, '"');
}

static void csv_value(struct sql_output *output, const struct sql_value *value)
{
	struct text *out = &output->out.text;
	struct text visible = {0};
	switch (value->type) {
	case SQL_NULL:
		break;
	case SQL_INTEGER:
		text_print(out, "%" PRId64, value->integer);
		break;
	case SQL_REAL:
		put_real(out, value->real);
		break;
	case SQL_TEXT:
		/* A terminal must only show what a name holds; a file gets it as it is. */
		if (output->out.width)
			text_put_visible(&visible, value->text, value->bytes);
		put_csv_text(output, output->out.width ? text_string(&visible) : value->text,
			     output->out.width ? visible.length : value->bytes);
		text_done(&visible);
		break;
	case SQL_BLOB:
		put_hex(out, value);
		break;
	}
}

static int csv_row(struct sql_output *output, const struct sql_value *values)
{
	for (size_t i = 0; i < output->count; i++) {
		if (i > 0)
			text_put_char(&output->out.text, ',');
		csv_value(output, &values[i]);
	}
	text_put_char(&output->out.text, '\n');
	return flush_if_long(output);
}

/* ---- JSON ---- */

static int json_row(struct sql_output *output, const struct sql_value *values)
{
	struct json *json = &output->json;
	struct text hex = {0};
	json_begin_object(json, NULL);
	for (size_t i = 0; i < output->count; i++) {
		const char *name = output->names[i];
		switch (values[i].type) {
		case SQL_NULL:
			json_null(json, name);
			break;
		case SQL_INTEGER:
			json_i64(json, name, values[i].integer);
			break;
		case SQL_REAL:
			json_double(json, name, values[i].real);
			break;
		case SQL_TEXT:
			json_bytes(json, name, values[i].text, values[i].bytes);
			break;
		case SQL_BLOB:
			text_clear(&hex);
			put_hex(&hex, &values[i]);
			json_string(json, name, text_string(&hex));
			break;
		}
	}
	json_end(json);
	text_done(&hex);
	return flush_if_long(output);
}

/* ---- the sink ---- */

static int begin(void *ctx, size_t count, const char *const *names)
{
	struct sql_output *output = ctx;
	forget_columns(output);
	output->rows = 0;
	if (count == 0)
		return 0;
	output->names = tm_alloc_array(count, sizeof *output->names);
	output->widths = tm_alloc_array(count, sizeof *output->widths);
	output->is_text = tm_alloc_array(count, sizeof *output->is_text);
	if (!output->names || !output->widths || !output->is_text)
		return -ENOMEM;
	output->count = count;
	for (size_t i = 0; i < count; i++) {
		struct text visible = {0};
		text_put_visible(&visible, names[i], strlen(names[i]));
		text_put(&visible, "");
		int code = text_take(&visible, &output->names[i]);
		if (code)
			return code;
	}
	if (output->format == SQL_FORMAT_JSON)
		json_begin_array(&output->json, NULL);
	for (size_t i = 0; output->format == SQL_FORMAT_CSV && i < count; i++) {
		text_put(&output->out.text, i ? "," : "");
		put_csv_text(output, output->names[i], strlen(output->names[i]));
		text_put(&output->out.text, i + 1 == count ? "\n" : "");
	}
	return 0;
}

static int row(void *ctx, size_t count, const struct sql_value *values)
{
	struct sql_output *output = ctx;
	(void)count;
	output->rows++;
	switch (output->format) {
	case SQL_FORMAT_TABLE:
		return table_row(output, values);
	case SQL_FORMAT_CSV:
		return csv_row(output, values);
	case SQL_FORMAT_JSON:
		return json_row(output, values);
	}
	return -EINVAL;
}

struct sql_sink sql_output_sink(struct sql_output *output)
{
	return (struct sql_sink){.begin = begin, .row = row, .ctx = output};
}

int sql_output_end(struct sql_output *output)
{
	int code = 0;
	if (output->count > 0 && output->format == SQL_FORMAT_TABLE)
		code = put_waiting(output);
	if (output->count > 0 && output->format == SQL_FORMAT_JSON) {
		json_end(&output->json);
		text_put_char(&output->out.text, '\n');
		output->json = (struct json){.out = &output->out.text, .pretty = true};
	}
	forget_columns(output);
	int flushed = sql_output_flush(output);
	return code ? code : flushed;
}
