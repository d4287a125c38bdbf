/* SPDX-License-Identifier: Apache-2.0 */
/* What there is: the requests, the traces, the state of one, its summary. */
#include "server/api.h"

#include <errno.h>
#include <string.h>

#include "base/version.h"
#include "server/catalog.h"
#include "views/to_json.h"

static const char *const kind_names[] = {
	[REQUEST_TEXT] = "text",
	[REQUEST_NUMBER] = "number",
	[REQUEST_BOOL] = "bool",
	[REQUEST_CHOICE] = "choice",
};

static void put_rule(struct json *json, const struct request_rule *rule)
{
	json_begin_object(json, NULL);
	json_string(json, "name", rule->name);
	json_string(json, "kind", kind_names[rule->kind]);
	if (rule->choices)
		json_string(json, "choices", rule->choices);
	json_string(json, "help", rule->help);
	json_end(json);
}

int api_index(struct call *call, struct tm_error *err)
{
	struct json *json = answer_json(call->answer);
	(void)err;
	json_begin_object(json, NULL);
	json_string(json, "tidemark", TIDEMARK_VERSION);
	json_begin_array(json, "requests");
	for (size_t i = 0; i < route_count; i++) {
		const struct route *route = &route_list[i];
		char path[128] = "/api/v1";
		strncat(path, route->path, sizeof path - strlen(path) - 1);
		json_begin_object(json, NULL);
		json_string(json, "path", path);
		json_string(json, "help", route->help);
		json_begin_array(json, "parameters");
		const struct request_rule *rule;
		for (size_t k = 0; (rule = route_rule(route, k)); k++)
			put_rule(json, rule);
		json_end(json);
		json_end(json);
	}
	json_end(json);
	json_end(json);
	return 0;
}

int api_traces(struct call *call, struct tm_error *err)
{
	struct json *json = answer_json(call->answer);
	struct catalog_entry entry;
	(void)err;
	catalog_refresh(call->catalog);
	json_begin_object(json, NULL);
	json_begin_array(json, "traces");
	for (size_t i = 0; catalog_entry(call->catalog, i, &entry); i++) {
		json_begin_object(json, NULL);
		json_string(json, "id", entry.id);
		json_string(json, "name", entry.name);
		json_u64(json, "file_bytes", entry.bytes);
		json_i64(json, "changed_unix_ns", entry.changed_unix_ns);
		json_string(json, "state", shown_state_name(entry.state));
		json_end(json);
	}
	json_end(json);
	json_end(json);
	return 0;
}

int api_trace(struct call *call, struct tm_error *err)
{
	struct shown *shown = catalog_find(call->catalog, call->request->trace);
	struct json *json = answer_json(call->answer);
	uint64_t done, total;
	if (!shown)
		return tm_fail(err, -ENOENT,
			       "there is no trace '%.40s'; GET /api/v1/traces lists them",
			       call->request->trace);
	if (request_bool(call->request, "cancel"))
		shown_cancel(shown);
	shown_progress(shown, &done, &total);
	json_begin_object(json, NULL);
	json_string(json, "state", shown_state_name(shown_state(shown)));
	json_u64(json, "done_events", done);
	json_u64(json, "total_events", total);
	json_end(json);
	return 0;
}

/* Of the blocks live at the peak: how many of their bytes have a function's name. */
static double unnamed_percent(const struct shown_facts *facts)
{
	size_t count;
	uint64_t all = 0, unnamed = 0;
	const struct view_stack_row *rows = view_stacks(facts->data, &count);
	for (size_t i = 0; i < count; i++) {
		uint32_t cursor = rows[i].stack;
		const struct view_frame *frame;
		while ((frame = view_next_frame(facts->data, &cursor))) {
			all += rows[i].figures.of[VIEW_ALLOCATIONS];
			if (!frame->function)
				unnamed += rows[i].figures.of[VIEW_ALLOCATIONS];
		}
	}
	return all ? (double)unnamed * 100 / (double)all : 0;
}

int api_summary(struct call *call, struct tm_error *err)
{
	const struct shown_facts *facts = call->facts;
	struct json *json = answer_json(call->answer);
	struct view_rss rss;
	(void)err;
	view_rss(facts->data, &rss);
	json_begin_object(json, NULL);
	view_json_run(json, &facts->input, &facts->totals);
	view_json_totals(json, &facts->input, &facts->totals);
	view_json_recording(json, &facts->input);
	view_json_rss(json, "rss", &rss);
	json_string(json, "warning", trace_reader_warning(facts->reader));
	json_bool(json, "complete", facts->complete);
	json_u64(json, "version", facts->version);
	json_u64(json, "sections", trace_reader_section_count(facts->reader));
	json_u64(json, "file_bytes", trace_reader_file_bytes(facts->reader));
	/* The same word in all pieces of a recording. */
	if (facts->input.meta->series_id)
		json_hex(json, "series", facts->input.meta->series_id);
	else
		json_null(json, "series");
	json_i64(json, "changed_unix_ns", facts->changed_unix_ns);
	json_double(json, "unnamed_percent", unnamed_percent(facts));
	json_end(json);
	return 0;
}
