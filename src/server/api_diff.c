/* SPDX-License-Identifier: Apache-2.0 */
/* Two traces, or two ranges of one, beside each other. */
#include "server/api.h"

#include <errno.h>
#include <string.h>

#include "server/catalog.h"
#include "server/diff_tree.h"
#include "server/look.h"
#include "views/to_json.h"

enum { LIMIT_DEFAULT = 200, NODES_DEFAULT = 5000 };

/* The other side's request: its own range, the same filter, mode and fold. */
static void base_request(const struct request *request, struct request *ret_base)
{
	static const char *const shared[] = {"filter", "mode", "fold"};
	*ret_base = (struct request){.method = "GET", .path = "", .trace = "", .item = ""};
	for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
		const char *value = request_find(request, shared[i]);
		if (value)
			ret_base->params[ret_base->param_count++] =
				(struct request_param){shared[i], value};
	}
	const char *from = request_find(request, "base_from");
	const char *to = request_find(request, "base_to");
	if (from)
		ret_base->params[ret_base->param_count++] = (struct request_param){"from", from};
	if (to)
		ret_base->params[ret_base->param_count++] = (struct request_param){"to", to};
}

struct side {
	struct call call;
	struct request request;
	struct selection selection;
	const struct view_data *data;
	const struct query_answer *answer;
};

/* Both sides of a diff, and which of its rows are shown. */
struct listing {
	const struct side *before, *after;
	const struct diff_rows *rows;
	enum view_figure order;
	bool has_frames;
};

static void put_side(struct json *json, const char *key, const struct side *side,
		     const struct view_figures *figures)
{
	json->sample_bytes = side->call.facts->input.sample_bytes;
	json_begin_object(json, key);
	view_json_figures(json, figures);
	json_end(json);
}

/* What the rows of a diff stand for; those above STACKS are views with inclusive figures. */
enum group { SITES, STACKS, FLAT };
static const char groups[] = "site|stack|function|line|package|module";
static const char *const flat_views[] = {"functions", "lines", "packages", "modules"};

static void put_row(struct json *json, const struct listing *listing, const struct diff_row *row)
{
	json_string(json, "function", row->name);
	json_string(json, "state", diff_state_name(diff_state(row, listing->order)));
	put_side(json, "before", listing->before, &row->before);
	put_side(json, "after", listing->after, &row->after);
}

static void put_tree(struct json *json, const struct diff_tree *tree)
{
	json_begin_object(json, "tree");
#define COLUMN(name, put, value)                 \
	json_begin_array(json, name);            \
	for (size_t i = 0; i < tree->count; i++) \
		put(json, NULL, value);          \
	json_end(json)
	COLUMN("function", json_string, tree->nodes[i].name);
	COLUMN("parent", json_u64, tree->nodes[i].parent);
	COLUMN("before", json_u64, tree->nodes[i].before);
	COLUMN("after", json_u64, tree->nodes[i].after);
#undef COLUMN
	json_u64(json, "left_out", tree->left_out);
	json_end(json);
}

static int look(struct side *side, struct tm_error *err)
{
	int code = selection_init(&side->selection, &side->call, err);
	if (code)
		return code;
	return look_at(&side->call, &side->selection, &side->data, &side->answer, err);
}

/* With frames: as the side after has them, or as they were before. */
static void put_rows(struct call *call, const struct listing *listing)
{
	struct json *json = &call->answer->json;
	const struct diff_rows *rows = listing->rows;
	uint64_t limit = request_number(call->request, "limit", LIMIT_DEFAULT);
	json_begin_array(json, "rows");
	for (size_t i = 0; i < rows->count && i < limit; i++) {
		const struct diff_row *row = &rows->rows[i];
		json_begin_object(json, NULL);
		put_row(json, listing, row);
		if (listing->has_frames && row->after_stack)
			view_json_frames(json, "frames", listing->after->data, row->after_stack);
		else if (listing->has_frames && row->before_stack)
			view_json_frames(json, "frames", listing->before->data, row->before_stack);
		json_end(json);
	}
	json_end(json);
	json_u64(json, "count", rows->count);
}

/* The rows that were asked for: sites, stacks, or groups of frames, which need a diff of their own.
 */
static int put_group(struct call *call, struct diff *diff, enum view_figure order,
		     const struct side *before, const struct side *after, struct tm_error *err)
{
	const struct diff_order by = {.figure = order, .sort = DIFF_SORT_CHANGE};
	size_t limit = (size_t)request_number(call->request, "limit", LIMIT_DEFAULT);
	size_t group = request_choice(call->request, "group", groups);
	struct diff *flat = NULL;
	if (group >= FLAT) {
		const struct view *view = view_find(flat_views[group - FLAT]);
		int code = diff_flat(before->data, after->data, view, &flat, err);
		if (code)
			return code;
	}
	struct diff_rows *rows = group == STACKS ? &diff->stacks
				 : flat          ? &flat->sites
						 : &diff->sites;
	const struct listing listing = {.before = before,
					.after = after,
					.rows = rows,
					.order = order,
					.has_frames = group == STACKS};
	diff_sort_first(rows, limit, &by);
	put_rows(call, &listing);
	diff_free(flat);
	return 0;
}

static int put_diff(struct call *call, struct side *before, struct side *after,
		    struct tm_error *err)
{
	enum view_figure order = api_order(call, &after->selection);
	struct diff *diff = NULL;
	struct change_tree changes = {0};
	struct diff_tree tree = {0};
	size_t nodes = (size_t)request_number(call->request, "nodes", NODES_DEFAULT);
	int code = diff_new(before->data, after->data, &diff, err);
	if (!code)
		code = change_tree_init(&changes, diff, before->data, after->data, order, false,
					err);
	if (!code)
		code = diff_tree_new(&changes, nodes, &tree, err);
	if (!code) {
		struct json *json = answer_json(call->answer);
		json_begin_object(json, NULL);
		json_string(json, "order", view_columns[order].key);
		json->sample_bytes = before->call.facts->input.sample_bytes;
		json_begin_object(json, "before");
		api_put_found(json, &before->selection, before->answer);
		json_end(json);
		json->sample_bytes = after->call.facts->input.sample_bytes;
		json_begin_object(json, "after");
		api_put_found(json, &after->selection, after->answer);
		json_end(json);
		code = put_group(call, diff, order, before, after, err);
		put_tree(json, &tree);
		json_end(json);
	}
	diff_tree_done(&tree);
	change_tree_done(&changes);
	diff_free(diff);
	return code;
}

/* Two requests that compare the same two traces the other way round lock them in one order. */
static void lock_both(struct shown_facts *a, struct shown_facts *b)
{
	shown_lock(a < b ? a : b);
	if (a != b)
		shown_lock(a < b ? b : a);
}

static void unlock_both(struct shown_facts *a, struct shown_facts *b)
{
	shown_unlock(a);
	if (a != b)
		shown_unlock(b);
}

int api_diff(struct call *call, struct tm_error *err)
{
	struct side before = {.call = *call}, after = {.call = *call};
	const char *with = request_text(call->request, "with", call->request->trace);
	bool is_same = !strcmp(with, call->request->trace);
	if (is_same && !request_find(call->request, "base_from") &&
	    !request_find(call->request, "base_to"))
		return tm_fail(
			err, -EINVAL,
			"compare with what? Name another trace in 'with', or a range of this "
			"one in 'base_from' and 'base_to'");
	base_request(call->request, &before.request);
	before.call.request = &before.request;
	if (!is_same) {
		int code = catalog_enter(call->catalog, with, &before.call.facts, err);
		if (code)
			return code;
	}
	lock_both(before.call.facts, after.call.facts);
	int code = look(&before, err);
	if (!code)
		code = look(&after, err);
	if (!code)
		code = put_diff(call, &before, &after, err);
	selection_done(&before.selection);
	selection_done(&after.selection);
	unlock_both(before.call.facts, after.call.facts);
	if (!is_same)
		shown_leave(before.call.facts);
	return code;
}
