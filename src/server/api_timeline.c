/* SPDX-License-Identifier: Apache-2.0 */
/* Curves over time: the whole, and the sites that matter most, one above the other. */
#include "server/api.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "server/api_select.h"
#include "views/to_json.h"

enum { POINTS_DEFAULT = 400, TOP_MAX = 24 };

static void put_column(struct json *json, const char *key, const struct query_point *points,
		       size_t count, size_t offset)
{
	json_begin_array(json, key);
	for (size_t i = 0; i < count; i++) {
		uint64_t value;
		memcpy(&value, (const char *)&points[i] + offset, sizeof value);
		json_u64(json, NULL, value);
	}
	json_end(json);
}

static void put_points(struct json *json, const struct query_point *points, size_t count,
		       bool is_group)
{
	static const struct {
		const char *key;
		size_t offset;
		bool whole_only;
	} columns[] = {
		{"start_ns", offsetof(struct query_point, start_ns), true},
		{"end_ns", offsetof(struct query_point, end_ns), true},
		{"live_bytes", offsetof(struct query_point, live_bytes), false},
		{"live_blocks", offsetof(struct query_point, live_blocks), false},
		{"min_live_bytes", offsetof(struct query_point, min_live_bytes), true},
		{"max_live_bytes", offsetof(struct query_point, max_live_bytes), true},
		{"allocations", offsetof(struct query_point, allocations), false},
		{"allocated_bytes", offsetof(struct query_point, allocated_bytes), false},
		{"frees", offsetof(struct query_point, frees), false},
		{"freed_bytes", offsetof(struct query_point, freed_bytes), false},
		{"temporary", offsetof(struct query_point, temporary), false},
		{"mapped_bytes", offsetof(struct query_point, mapped_bytes), true},
		{"rss_bytes", offsetof(struct query_point, rss_bytes), true},
		{"pss_bytes", offsetof(struct query_point, pss_bytes), true},
	};
	for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
		if (!is_group || !columns[i].whole_only)
			put_column(json, columns[i].key, points, count, columns[i].offset);
}

/* ---- the sites with the largest share, as groups of stacks ---- */

struct groups {
	struct view_rows rows; /* sites */
	size_t count;
	uint32_t *group_of; /* by stack_id */
};

/* The group of every stack whose site is one of the first `count` rows. */
static int map_stacks(struct groups *groups, const struct shown_facts *facts, struct tm_error *err)
{
	size_t stack_count = facts->input.stack_count;
	uint32_t *site_group = NULL;
	uint32_t site_count = 0;
	for (size_t i = 0; i < groups->count; i++)
		for (size_t k = 0; k < groups->rows.rows[i].stack_count; k++)
			if (groups->rows.rows[i].stacks[k].site >= site_count)
				site_count = groups->rows.rows[i].stacks[k].site + 1;
	groups->group_of = tm_alloc_array(stack_count, sizeof *groups->group_of);
	site_group = tm_alloc_array(site_count ? site_count : 1, sizeof *site_group);
	if (!groups->group_of || !site_group) {
		tm_free(site_group);
		return tm_fail(err, -ENOMEM, "no memory for the curves");
	}
	for (size_t i = 0; i < groups->count; i++)
		for (size_t k = 0; k < groups->rows.rows[i].stack_count; k++)
			site_group[groups->rows.rows[i].stacks[k].site] = (uint32_t)i + 1;
	for (size_t id = 0; id < stack_count; id++) {
		uint32_t site = view_site_of(facts->data, (uint32_t)id);
		groups->group_of[id] = site < site_count ? site_group[site] - 1 : UINT32_MAX;
	}
	tm_free(site_group);
	return 0;
}

static void groups_done(struct groups *groups)
{
	view_rows_done(&groups->rows);
	groups->group_of = tm_free(groups->group_of);
}

static void put_curves(struct json *json, const struct groups *groups,
		       const struct query_timeline *timeline)
{
	json_begin_array(json, "sites");
	for (size_t i = 0; groups->rows.rows && i < timeline->curve_count; i++) {
		const struct view_row *row = &groups->rows.rows[timeline->curves[i].group];
		json_begin_object(json, NULL);
		json_string(json, "function", row->function);
		json_string(json, "module", row->module);
		put_points(json, timeline->curves[i].points, timeline->point_count, true);
		json_end(json);
	}
	json_end(json);
}

static void put_timeline(struct call *call, const struct selection *selection,
			 const struct groups *groups, const struct query_timeline *timeline)
{
	struct json *json = answer_json(call->answer);
	json_begin_object(json, NULL);
	selection_put(selection, json);
	put_points(json, timeline->points, timeline->point_count, false);
	put_curves(json, groups, timeline);
	view_json_moments(json, call->facts->section, selection->from_ns, selection->to_ns);
	json_end(json);
}

int api_timeline(struct call *call, struct tm_error *err)
{
	struct selection selection;
	struct groups groups = {0};
	struct query_timeline timeline;
	uint64_t top = request_number(call->request, "top", 0);
	int code = selection_init(&selection, call, err);
	if (code)
		return code;
	if (top) {
		struct view view = *view_find(request_text(call->request, "by", "peak"));
		view.sorted = (size_t)top;
		code = view_fill(&view, call->facts->data, &groups.rows, err);
		if (!code) {
			groups.count = groups.rows.count < top ? groups.rows.count : (size_t)top;
			code = map_stacks(&groups, call->facts, err);
		}
	}
	const struct query_timeline_options options = {
		.from_ns = selection.from_ns,
		.to_ns = selection.to_ns,
		.points = (size_t)request_number(call->request, "points", POINTS_DEFAULT),
		.filter = selection.bound,
		.group_of = groups.group_of,
		.group_count = groups.count,
		.progress = call_progress(call),
	};
	if (!code)
		code = query_timeline(call->facts->section, &options, &timeline, err);
	if (!code) {
		put_timeline(call, &selection, &groups, &timeline);
		query_timeline_done(&timeline);
	}
	groups_done(&groups);
	selection_done(&selection);
	return code;
}
