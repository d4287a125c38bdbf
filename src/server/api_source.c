/* SPDX-License-Identifier: Apache-2.0 */
/* A source file with the figures of its lines. */
#include "server/api.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "server/look.h"
#include "server/sources.h"
#include "views/to_json.h"

enum { LINES_MAX = 100000 };

/* The rows of a file, by line. */
struct file_rows {
	const struct view_row **list;
	size_t count;
};

static int by_line(const void *a, const void *b)
{
	const struct view_row *x = *(const struct view_row *const *)a;
	const struct view_row *y = *(const struct view_row *const *)b;
	return x->line < y->line ? -1 : x->line > y->line;
}

static int find_rows(const struct view_rows *rows, const char *file, struct file_rows *ret,
		     struct tm_error *err)
{
	ret->list = tm_alloc_array(rows->count ? rows->count : 1, sizeof *ret->list);
	if (!ret->list)
		return tm_fail(err, -ENOMEM, "no memory for the lines");
	for (size_t i = 0; i < rows->count; i++)
		if (rows->rows[i].file && !strcmp(rows->rows[i].file, file))
			ret->list[ret->count++] = &rows->rows[i];
	if (!ret->count) /* so that no name of a request reaches the file system */
		return tm_fail(err, -ENOENT, "no frame of this trace is in '%.120s'", file);
	qsort(ret->list, ret->count, sizeof *ret->list, by_line);
	return 0;
}

static void put_lines(struct json *json, const struct file_rows *rows, enum view_figure order)
{
	json_begin_array(json, "lines");
	for (size_t i = 0; i < rows->count; i++) {
		json_begin_object(json, NULL);
		json_u64(json, "line", rows->list[i]->line);
		json_string(json, "function", rows->list[i]->function);
		json_u64(json, "self", rows->list[i]->self.of[order]);
		json_u64(json, "inclusive", rows->list[i]->inclusive.of[order]);
		json_end(json);
	}
	json_end(json);
}

/* What the trace itself holds of the file; true if anything. */
static bool put_embedded(const struct call *call, const char *file, struct json *json)
{
	const struct trace_source_line *lines;
	size_t count, found = 0;
	if (trace_reader_sources(call->facts->reader, &lines, &count, NULL))
		return false;
	for (size_t i = 0; i < count; i++)
		found += !strcmp(lines[i].file, file);
	if (!found)
		return false;
	json_begin_array(json, "text");
	for (size_t i = 0; i < count; i++) {
		if (strcmp(lines[i].file, file) != 0)
			continue;
		json_begin_object(json, NULL);
		json_u64(json, "line", lines[i].line);
		json_string(json, "text", lines[i].text);
		json_end(json);
	}
	json_end(json);
	json_string(json, "found", "in the trace");
	return true;
}

static void put_text(struct json *json, const struct text *text)
{
	const char *at = text_string(text), *end = at + text->length;
	json_begin_array(json, "text");
	for (uint64_t line = 1; at < end && line < LINES_MAX; line++) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t bytes = (size_t)((stop ? stop : end) - at);
		json_begin_object(json, NULL);
		json_u64(json, "line", line);
		json_bytes(json, "text", at, bytes);
		json_end(json);
		at += bytes + 1;
	}
	json_end(json);
}

static void put_file(const struct call *call, const char *file, struct json *json)
{
	struct text text = {0}, path = {0};
	struct tm_error why = {0};
	if (!sources_read(call->sources, file, &text, &path, &why)) {
		put_text(json, &text);
		json_string(json, "found", text_string(&path));
		json_null(json, "problem");
	} else if (put_embedded(call, file, json)) {
		json_null(json, "problem");
	} else {
		json_begin_array(json, "text");
		json_end(json);
		json_null(json, "found");
		json_string(json, "problem", why.text);
	}
	text_done(&text);
	text_done(&path);
}

static int put_source(struct call *call, const struct selection *selection, struct tm_error *err)
{
	const char *file = request_text(call->request, "file", "");
	const struct view_data *data;
	const struct query_answer *answer;
	struct view_rows rows;
	struct file_rows lines = {0};
	struct view view = *view_find("lines");
	view.order = api_order(call, selection);
	int code = look_at(call, selection, &data, &answer, err);
	if (!code)
		code = view_fill(&view, data, &rows, err);
	if (code)
		return code;
	code = find_rows(&rows, file, &lines, err);
	if (!code) {
		struct json *json = answer_json(call->answer);
		json_begin_object(json, NULL);
		api_put_found(json, selection, answer);
		json_string(json, "file", file);
		json_string(json, "order", view_columns[view.order].key);
		put_lines(json, &lines, view.order);
		put_file(call, file, json);
		json_string(json, "editor", call->sources->editor);
		json_end(json);
	}
	tm_free(lines.list);
	view_rows_done(&rows);
	return code;
}

int api_source(struct call *call, struct tm_error *err)
{
	struct selection selection;
	if (!request_find(call->request, "file"))
		return tm_fail(err, -EINVAL, "which file? Add file=PATH as a frame names it");
	int code = selection_init(&selection, call, err);
	if (code)
		return code;
	code = put_source(call, &selection, err);
	selection_done(&selection);
	return code;
}
