/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: sites, functions and other groups, one function with its neighbours. */
#include "server/api.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "server/look.h"
#include "views/callers.h"
#include "views/select.h"
#include "views/to_json.h"

enum { LIMIT_DEFAULT = 100, STACKS_PER_SITE = 3 };

/* How an answer was found, and the whole that shares refer to. */
void api_put_found(struct json *json, const struct selection *selection,
		   const struct query_answer *answer)
{
	static const char *const ways[] = {
		[QUERY_FROM_AGGREGATES] = "aggregates",
		[QUERY_FROM_EDGES] = "edges",
		[QUERY_FROM_SCAN] = "scan",
	};
	struct view_figures totals = view_figures_of(&answer->totals);
	selection_put(selection, json);
	json_string(json, "mode", selection->mode->name);
	json_string(json, "found_by", ways[answer->way]);
	json_u64(json, "event_blocks_read", answer->event_blocks);
	json_u64(json, "unread_events", answer->unread_events);
	json_bool(json, "snapped", answer->snapped);
	json_u64(json, "peak_time_ns", answer->peak_time_ns);
	json_begin_object(json, "totals");
	view_json_figures(json, &totals);
	json_end(json);
}

static void put_row_name(struct json *json, const struct view_row *row)
{
	json_string(json, "function", row->function);
	json_string(json, "module", row->module);
	json_string(json, "file", row->file);
	if (row->line)
		json_u64(json, "line", row->line);
	else
		json_null(json, "line");
	json_string(json, "package", row->package && row->package[0] ? row->package : NULL);
}

static void put_stacks(struct json *json, const struct view_data *data, const struct view_row *row,
		       uint64_t limit)
{
	json_u64(json, "stack_count", row->stack_count);
	json_begin_array(json, "stacks");
	for (size_t i = 0; i < row->stack_count && i < limit; i++) {
		json_begin_object(json, NULL);
		json_u64(json, "stack", row->stacks[i].stack);
		view_json_figures(json, &row->stacks[i].figures);
		view_json_frames(json, "frames", data, row->stacks[i].stack);
		json_end(json);
	}
	json_end(json);
}

/* strstr() without regard to case, which POSIX has not. */
static bool has_part(const char *text, const char *part)
{
	size_t bytes = strlen(part);
	for (; *text; text++)
		if (!strncasecmp(text, part, bytes))
			return true;
	return false;
}

/* Case-insensitive, in any of the names. NULL finds all. */
static bool is_found(const struct view_row *row, const char *search)
{
	const char *const names[] = {row->function, row->module, row->file, row->package};
	if (!search || !*search)
		return true;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (names[i] && has_part(names[i], search))
			return true;
	return false;
}

static void put_rows(struct call *call, const struct view *view, const struct view_data *data,
		     const struct view_rows *rows)
{
	struct json *json = &call->answer->json;
	uint64_t skip = request_number(call->request, "skip", 0);
	uint64_t limit = request_number(call->request, "limit", LIMIT_DEFAULT);
	uint64_t stacks = request_number(call->request, "stacks", STACKS_PER_SITE);
	json_begin_array(json, "rows");
	for (uint64_t i = skip; i < rows->count && i - skip < limit; i++) {
		const struct view_row *row = &rows->rows[i];
		json_begin_object(json, NULL);
		put_row_name(json, row);
		if (view->flat) {
			view_json_flat(json, &row->self, &row->inclusive);
		} else {
			view_json_figures(json, &row->self);
			put_stacks(json, data, row, stacks);
		}
		json_end(json);
	}
	json_end(json);
	json_u64(json, "count", rows->count);
}

/* The figure that a request orders by: named, or the bytes of its mode. */
enum view_figure api_order(const struct call *call, const struct selection *selection)
{
	const char *name = request_find(call->request, "order");
	for (size_t i = 0; name && i < VIEW_FIGURE_COUNT; i++)
		if (!strcmp(view_columns[i].key, name))
			return (enum view_figure)i;
	return selection->mode->bytes;
}

/* Only what is searched for, and of that in order what is asked for. */
static void choose_rows(const struct request *request, struct view *view, struct view_rows *rows)
{
	const char *search = request_find(request, "search");
	size_t found = 0;
	for (size_t i = 0; i < rows->count; i++)
		if (is_found(&rows->rows[i], search))
			rows->rows[found++] = rows->rows[i];
	rows->count = found;
	view->sorted = (size_t)(request_number(request, "skip", 0) +
				request_number(request, "limit", LIMIT_DEFAULT) + 1);
	view_rows_sort(rows, view);
}

static int put_table(struct call *call, const char *name, struct tm_error *err)
{
	static const char sorts[] = "figure|self|average|name";
	struct selection selection;
	const struct view_data *data;
	const struct query_answer *answer;
	struct view_rows rows;
	int code = selection_init(&selection, call, err);
	if (code)
		return code;
	code = look_at(call, &selection, &data, &answer, err);
	struct view view = *view_find(name);
	view.order = api_order(call, &selection);
	view.sort = (enum view_sort)request_choice(call->request, "sort", sorts);
	view.sorted = 1; /* choose_rows() does the rest */
	if (!code)
		code = view_fill(&view, data, &rows, err);
	if (!code) {
		struct json *json = answer_json(call->answer);
		choose_rows(call->request, &view, &rows);
		json_begin_object(json, NULL);
		api_put_found(json, &selection, answer);
		json_string(json, "order", view_columns[view.order].key);
		put_rows(call, &view, data, &rows);
		json_end(json);
		view_rows_done(&rows);
	}
	selection_done(&selection);
	return code;
}

int api_sites(struct call *call, struct tm_error *err)
{
	return put_table(call, "peak", err);
}

int api_functions(struct call *call, struct tm_error *err)
{
	static const char *const views[] = {"functions",  "lines", "packages", "modules",
					    "allocators", "heaps", "tags",     "processes"};
	static const char groups[] = "function|line|package|module|allocator|heap|tag|process";
	return put_table(call, views[request_choice(call->request, "group", groups)], err);
}

static void put_neighbours(struct json *json, const char *key, const struct view_rows *rows,
			   uint64_t limit)
{
	json_begin_array(json, key);
	for (size_t i = 0; i < rows->count && i < limit; i++) {
		json_begin_object(json, NULL);
		put_row_name(json, &rows->rows[i]);
		view_json_figures(json, &rows->rows[i].inclusive);
		json_end(json);
	}
	json_end(json);
}

int api_function(struct call *call, struct tm_error *err)
{
	struct selection selection;
	const struct view_data *data;
	const struct query_answer *answer;
	struct view_callers callers;
	const char *name = request_text(call->request, "name", "");
	uint64_t limit = request_number(call->request, "limit", LIMIT_DEFAULT);
	if (!name[0])
		return tm_fail(err, -EINVAL, "which function? Add name=FUNCTION");
	int code = selection_init(&selection, call, err);
	if (code)
		return code;
	code = look_at(call, &selection, &data, &answer, err);
	if (!code)
		code = view_callers_new(data, name, api_order(call, &selection), &callers, err);
	if (!code) {
		struct json *json = answer_json(call->answer);
		json_begin_object(json, NULL);
		api_put_found(json, &selection, answer);
		put_neighbours(json, "functions", &callers.functions, limit);
		view_json_flat(json, &callers.self, &callers.inclusive);
		put_neighbours(json, "callers", &callers.callers, limit);
		put_neighbours(json, "callees", &callers.callees, limit);
		put_neighbours(json, "lines", &callers.lines, limit);
		json_end(json);
		view_callers_done(&callers);
	}
	selection_done(&selection);
	return code;
}
