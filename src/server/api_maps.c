/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the program mapped itself, call by call. */
#include "server/api.h"

enum { LIMIT_DEFAULT = 1000 };

static void put_map(struct json *json, const struct shown_facts *facts,
		    const struct trace_map_event *event)
{
	static const char *const names[] = {
		[TRACE_MAP] = "map",
		[TRACE_UNMAP] = "unmap",
		[TRACE_MAP_PROTECT] = "protect",
		[TRACE_MAP_ADVISE] = "advise",
		[TRACE_MAP_BRK] = "brk",
		[TRACE_MAP_FOLDED] = "folded",
	};
	size_t count = sizeof names / sizeof names[0];
	json_begin_object(json, NULL);
	json_string(json, "op", event->op < count ? names[event->op] : "unknown");
	json_u64(json, "time_ns", event->time_ns);
	if (event->op == TRACE_MAP_FOLDED)
		json_null(json, "address");
	else
		json_hex(json, "address", event->address);
	json_u64(json, "calls", trace_map_calls(event));
	json_u64(json, "bytes", event->bytes);
	if (event->moved_from)
		json_hex(json, "moved_from", event->moved_from);
	else
		json_null(json, "moved_from");
	json_u64(json, "thread", event->thread_id);
	json_u64(json, "stack", event->stack_id);
	json_string(json, "site", view_site_name(facts->data, event->stack_id));
	json_u64(json, "prot_or_advice", event->prot_or_advice);
	json_bool(json, "file", (event->flags & TRACE_MAP_FILE) != 0);
	json_end(json);
}

int api_maps(struct call *call, struct tm_error *err)
{
	const struct trace_map_event *events;
	size_t count;
	struct selection selection;
	uint64_t skip = request_number(call->request, "skip", 0);
	uint64_t limit = request_number(call->request, "limit", LIMIT_DEFAULT), found = 0;
	int code = selection_init(&selection, call, err);
	if (code)
		return code;
	code = trace_reader_maps(call->facts->reader, &events, &count, err);
	if (!code) {
		struct json *json = answer_json(call->answer);
		json_begin_object(json, NULL);
		selection_put(&selection, json);
		json_begin_array(json, "maps");
		for (size_t i = 0; i < count; i++) {
			if (events[i].time_ns < selection.from_ns ||
			    events[i].time_ns > selection.to_ns)
				continue;
			if (found >= skip && found - skip < limit)
				put_map(json, call->facts, &events[i]);
			found++;
		}
		json_end(json);
		json_u64(json, "count", found);
		json_end(json);
	}
	selection_done(&selection);
	return code;
}
