/* SPDX-License-Identifier: Apache-2.0 */
#include "server/api_select.h"

#include <errno.h>
#include <string.h>

#include "server/api.h"
#include "symbols/kinds.h"

const struct request_rule api_selection_rules[] = {
	{.name = "from", .help = "begin of the range: 12.5s, 40%, peak, start, a mark"},
	{.name = "to", .help = "end of the range, or the moment: 12.5s, 40%, peak, end, a mark"},
	{.name = "filter", .help = "which blocks: size>=4K and function:parse (docs/filters.md)"},
	{.name = "mode",
	 .kind = REQUEST_CHOICE,
	 .choices = "live|allocated|freed|surviving|peak|held",
	 .help = "which blocks of the range"},
	{.name = "fold",
	 .help = "kinds of frames to leave out: standard,runtime,allocator; recursion"},
};
const size_t api_selection_rule_count = sizeof api_selection_rules / sizeof api_selection_rules[0];

/* Bytes times milliseconds in place of the allocated bytes: see look.h. */
static const struct view_mode held_mode = {"held", "what was held, and for how long",
					   VIEW_ALLOCATED_BYTES, VIEW_ALLOCATIONS};

static int read_range(struct selection *selection, const struct call *call, struct tm_error *err)
{
	const char *from = request_find(call->request, "from");
	const char *to = request_find(call->request, "to");
	const struct query_section *section = call->facts->section;
	int code = 0;
	selection->from_ns = 0;
	selection->to_ns = query_duration_ns(section);
	selection->is_whole = !from && !to;
	if (from)
		code = query_time_parse(section, from, &selection->from_ns, err);
	if (!code && to)
		code = query_time_parse(section, to, &selection->to_ns, err);
	if (!code && selection->from_ns > selection->to_ns)
		code = tm_fail(err, -EINVAL, "'from' (%.40s) is after 'to' (%.40s)",
			       from ? from : "start", to ? to : "end");
	return code;
}

static int read_filter(struct selection *selection, const struct call *call, struct tm_error *err)
{
	const char *text = request_find(call->request, "filter");
	struct tm_error why = {0};
	size_t column = 0;
	if (!text || !text[strspn(text, " ")])
		return 0;
	int code = filter_parse(text, &selection->filter, &column, &why);
	if (code)
		return tm_fail(err, code, "filter, character %zu: %s", column + 1, why.text);
	struct filter_names names = view_filter_names(call->facts->data);
	selection->is_whole = false;
	return query_bind(call->facts->section, selection->filter, &names, &selection->bound, err);
}

static int read_fold(struct selection *selection, const struct call *call, struct tm_error *err)
{
	const char *at = request_text(call->request, "fold", "");
	while (*at) {
		size_t bytes = strcspn(at, ",");
		enum frame_kind kind = kinds_find(at, bytes);
		bool is_recursion = bytes == 9 && !memcmp(at, "recursion", 9);
		if (kind == KIND_UNKNOWN && !is_recursion)
			return tm_fail(err, -EINVAL,
				       "'fold' takes application, library, standard, runtime, "
				       "allocator and recursion, separated by commas, not '%.40s'",
				       at);
		selection->fold |= is_recursion ? (unsigned)VIEW_FOLD_RECURSION : 1u << kind;
		at += bytes;
		at += *at == ',';
	}
	return 0;
}

int selection_init(struct selection *selection, const struct call *call, struct tm_error *err)
{
	*selection = (struct selection){0};
	call->answer->json.sample_bytes = call->facts->input.sample_bytes;
	const char *mode = request_text(call->request, "mode", "live");
	selection->is_held = !strcmp(mode, held_mode.name);
	selection->mode = selection->is_held ? &held_mode : view_mode_find(mode);
	int code = read_range(selection, call, err);
	if (!code)
		code = read_fold(selection, call, err);
	if (!code)
		code = read_filter(selection, call, err);
	if (code)
		selection_done(selection);
	return code;
}

void selection_done(struct selection *selection)
{
	selection->bound = filter_bound_free(selection->bound);
	selection->filter = filter_free(selection->filter);
}

void selection_put(const struct selection *selection, struct json *json)
{
	json_u64(json, "from_ns", selection->from_ns);
	json_u64(json, "to_ns", selection->to_ns);
}
