/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page as one file: its script and style in line, and the answers to what it
 * asks about the whole run. web/src/saved.ts finds them by the same keys.
 */
#include "server/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "server/catalog.h"
#include "server/page.h"
#include "server/route.h"
#include "server/sources.h"
#include "views/figures.h"

enum { FUNCTIONS_TOLD = 40 }; /* whose callers and callees are in the file */

struct saving {
	struct catalog *catalog;
	server_write_fn write;
	void *ctx;
	bool has_answer; /* one was written already */
};

static int put(struct saving *saving, const char *text)
{
	return saving->write(saving->ctx, text, strlen(text));
}

/* In an element of a script nothing may look like its end; "<" stands in strings only. */
static int put_json(struct saving *saving, const struct text *json)
{
	const char *at = text_string(json), *end = at + json->length;
	int code = 0;
	while (!code && at < end) {
		const char *next = memchr(at, '<', (size_t)(end - at));
		code = saving->write(saving->ctx, at, (size_t)((next ? next : end) - at));
		if (!code && next)
			code = put(saving, "\\u003c");
		at = next ? next + 1 : end;
	}
	return code;
}

/* One answer under its key. What fails is left out: the page says that it is not here. */
static int put_answer(struct saving *saving, const char *key, const char *what,
		      const struct request_param *params, size_t count)
{
	struct answer answer = {0};
	struct request request = {.method = "GET", .path = "", .trace = "", .item = ""};
	static const struct sources no_sources;
	struct tm_error err = {0};
	char path[128];
	snprintf(path, sizeof path, "/traces/last/%s", what);
	const struct route *route = route_find(path, &request);
	for (size_t i = 0; i < count; i++)
		request.params[request.param_count++] = params[i];
	struct call call = {.catalog = saving->catalog,
			    .sources = &no_sources,
			    .request = &request,
			    .answer = &answer};
	int code = 0;
	if (route && route_run(route, &call, &err) == 200) {
		struct text head = {0};
		struct json json = {.out = &head};
		text_put(&head, saving->has_answer ? ",\n" : "");
		json_string(&json, NULL, key);
		text_put_char(&head, ':');
		code = text_error(&head) ? -ENOMEM : put_json(saving, &head);
		if (!code)
			code = put_json(saving, &answer.body);
		saving->has_answer = true;
		text_done(&head);
	}
	text_done(&answer.body);
	return code;
}

static int put_plain(struct saving *saving)
{
	static const struct {
		const char *key, *what;
		struct request_param params[3];
		size_t count;
	} list[] = {
		{"summary", "summary", {{0}}, 0},
		{"timeline", "timeline", {{"points", "600"}}, 1},
		{"timeline by=peak",
		 "timeline",
		 {{"points", "300"}, {"top", "8"}, {"by", "peak"}},
		 3},
		{"timeline by=allocations",
		 "timeline",
		 {{"points", "300"}, {"top", "8"}, {"by", "allocations"}},
		 3},
		{"timeline by=temporary",
		 "timeline",
		 {{"points", "300"}, {"top", "8"}, {"by", "temporary"}},
		 3},
		{"sizes", "sizes", {{0}}, 0},
		{"lifetimes", "lifetimes", {{0}}, 0},
		{"threads", "threads", {{0}}, 0},
		{"modules", "modules", {{0}}, 0},
	};
	int code = 0;
	for (size_t i = 0; !code && i < sizeof list / sizeof list[0]; i++)
		code = put_answer(saving, list[i].key, list[i].what, list[i].params, list[i].count);
	return code;
}

/* Rows have all figures, so one table per group is enough; the page sorts it. */
static int put_tables(struct saving *saving)
{
	static const char *const groups[] = {"function", "line", "package", "module", "allocator"};
	const struct request_param sites[] = {
		{"limit", "300"}, {"stacks", "0"}, {"order", "allocated_bytes"}};
	int code = put_answer(saving, "sites", "sites", sites, 3);
	for (size_t i = 0; !code && i < sizeof groups / sizeof groups[0]; i++) {
		char key[64];
		const struct request_param params[] = {
			{"group", groups[i]}, {"limit", "1000"}, {"order", "allocated_bytes"}};
		snprintf(key, sizeof key, "functions group=%s", groups[i]);
		code = put_answer(saving, key, "functions", params, 3);
	}
	return code;
}

static int put_trees(struct saving *saving)
{
	static const char *const directions[] = {"top_down", "bottom_up"};
	int code = 0;
	for (size_t i = 0; !code && i < 2 * (size_t)VIEW_FIGURE_COUNT; i++) {
		char key[128];
		const char *order = view_columns[i / 2].key, *direction = directions[i % 2];
		const struct request_param params[] = {
			{"order", order}, {"direction", direction}, {"nodes", "2000"}};
		snprintf(key, sizeof key, "tree direction=%s order=%s", direction, order);
		code = put_answer(saving, key, "tree", params, 3);
	}
	return code;
}

/* The functions that matter most, by their inclusive figures at the peak. */
static int put_functions(struct saving *saving)
{
	struct shown_facts *facts;
	struct view_rows rows;
	struct tm_error err = {0};
	struct view view = *view_find("functions");
	view.order = VIEW_PEAK_BYTES;
	if (catalog_enter(saving->catalog, "last", &facts, &err))
		return 0;
	int code = view_fill(&view, facts->data, &rows, &err);
	for (size_t i = 0; !code && i < rows.count && i < FUNCTIONS_TOLD; i++) {
		struct text key = {0};
		const char *name = rows.rows[i].function;
		const struct request_param params[] = {{"name", name}, {"limit", "20"}};
		if (!name)
			continue;
		text_put(&key, "function name=");
		text_put(&key, name);
		code = text_error(&key)
			       ? -ENOMEM
			       : put_answer(saving, text_string(&key), "function", params, 2);
		text_done(&key);
	}
	view_rows_done(&rows);
	shown_leave(facts);
	return code;
}

static const struct page_file *find_file(const char *path)
{
	for (size_t i = 0; i < page_file_count; i++)
		if (!strcmp(page_files[i].path, path))
			return &page_files[i];
	return NULL;
}

static int put_page(struct saving *saving, const struct page_file *script,
		    const struct page_file *style)
{
	int code =
		put(saving, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
			    "<meta name=\"viewport\" content=\"width=device-width, "
			    "initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" "
			    "content=\"default-src 'none'; script-src 'unsafe-inline'; style-src "
			    "'unsafe-inline'; img-src data: blob:\">\n<title>Tidemark</title>\n"
			    "<style>");
	if (!code)
		code = saving->write(saving->ctx, style->data, style->bytes);
	if (!code)
		code = put(saving, "</style>\n<body>\n<script type=\"application/json\" "
				   "id=\"tidemark-saved\">\n{");
	if (!code)
		code = put_plain(saving);
	if (!code)
		code = put_tables(saving);
	if (!code)
		code = put_trees(saving);
	if (!code)
		code = put_functions(saving);
	if (!code)
		code = put(saving, "}\n</script>\n<script type=\"module\">");
	if (!code)
		code = saving->write(saving->ctx, script->data, script->bytes);
	return code ? code : put(saving, "</script>\n");
}

int server_save_page(const char *trace_path, const char *name, server_write_fn write, void *ctx,
		     struct tm_error *err)
{
	struct saving saving = {.write = write, .ctx = ctx};
	const struct page_file *script = find_file("/app.js"), *style = find_file("/style.css");
	struct shown_facts *facts;
	if (!script || !style)
		return tm_fail(err, -ENODATA,
			       "this tidemark was built without its page, so it cannot save one");
	int code = catalog_new(&trace_path, &name, 1, &saving.catalog, err);
	if (code)
		return code;
	code = catalog_enter(saving.catalog, "last", &facts, err);
	if (!code) {
		shown_leave(facts);
		code = put_page(&saving, script, style);
		if (code)
			tm_fail(err, code, "cannot write the page: %s", strerror(-code));
	}
	catalog_free(saving.catalog);
	return code;
}
