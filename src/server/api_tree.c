/* SPDX-License-Identifier: Apache-2.0 */
/* Call trees, for tree tables and flame graphs: as many nodes as can be seen. */
#include "server/api.h"

#include <errno.h>
#include <stdlib.h>

#include "base/memory.h"
#include "server/look.h"
#include "symbols/kinds.h"
#include "views/to_json.h"
#include "views/tree.h"

enum { NODES_DEFAULT = 5000, PATH_MAX_LENGTH = 4096 };

/* "1.17.4": the keys of the nodes from the root. */
static int parse_path(const char *text, uint32_t **ret_path, size_t *ret_length,
		      struct tm_error *err)
{
	size_t length = 0;
	uint32_t *path = tm_alloc_array(PATH_MAX_LENGTH, sizeof *path);
	if (!path)
		return tm_fail(err, -ENOMEM, "no memory for the path");
	while (*text) {
		char *end;
		unsigned long key = strtoul(text, &end, 10);
		if (end == text || key > UINT32_MAX || (*end && *end != '.') ||
		    length == PATH_MAX_LENGTH) {
			tm_free(path);
			return tm_fail(err, -EINVAL,
				       "'path' is a row of node keys like 3.17.4, not '%.40s'",
				       text);
		}
		path[length++] = (uint32_t)key;
		text = *end ? end + 1 : end;
	}
	*ret_path = path;
	*ret_length = length;
	return 0;
}

/*
 * Columns instead of objects: a tree of 20,000 nodes is then 1 MB, not 6. Strings
 * and frames are numbered, since functions recur.
 */
struct frames {
	const struct view_frame **list;
	size_t count;
	uint32_t *number; /* by node */
};

static int compare_frames(const void *a, const void *b)
{
	const struct view_frame *const *x = a, *const *y = b;
	return *x < *y ? -1 : *x > *y;
}

static int number_frames(struct frames *frames, const struct view_tree *tree, struct tm_error *err)
{
	size_t kept = 0;
	frames->list = tm_alloc_array(tree->count, sizeof *frames->list);
	frames->number = tm_alloc_array(tree->count, sizeof *frames->number);
	if (!frames->list || !frames->number)
		return tm_fail(err, -ENOMEM, "no memory for the tree");
	for (size_t i = 1; i < tree->count; i++)
		frames->list[i - 1] = tree->nodes[i].frame;
	frames->count = tree->count - 1;
	if (frames->count)
		qsort(frames->list, frames->count, sizeof *frames->list, compare_frames);
	for (size_t i = 0; i < frames->count; i++)
		if (!kept || frames->list[kept - 1] != frames->list[i])
			frames->list[kept++] = frames->list[i];
	frames->count = kept;
	for (size_t i = 1; i < tree->count; i++) {
		const struct view_frame **at = bsearch(&tree->nodes[i].frame, frames->list, kept,
						       sizeof *frames->list, compare_frames);
		frames->number[i] = (uint32_t)(at - frames->list);
	}
	return 0;
}

static void put_tree(struct json *json, const struct view_tree *tree, const struct frames *frames)
{
	enum view_figure order = tree->order, partner = view_columns[order].partner;
	json_begin_array(json, "frames");
	for (size_t i = 0; i < frames->count; i++)
		view_json_frame(json, NULL, frames->list[i]);
	json_end(json);
#define COLUMN(name, value)                              \
	json_begin_array(json, name);                    \
	for (size_t i = 0; i < tree->count; i++)         \
		json_u64(json, NULL, (uint64_t)(value)); \
	json_end(json)
	COLUMN("frame", i ? frames->number[i] : 0);
	COLUMN("key", tree->nodes[i].key);
	COLUMN("parent", tree->nodes[i].parent);
	COLUMN("left_out", tree->nodes[i].left_out);
	COLUMN("value", tree->nodes[i].inclusive.of[order]);
	COLUMN("self", tree->nodes[i].self.of[order]);
	COLUMN("other", tree->nodes[i].inclusive.of[partner]);
#undef COLUMN
}

static int put_selected_tree(struct call *call, const struct selection *selection,
			     const struct view_tree_options *options, struct tm_error *err)
{
	const struct view_data *data;
	const struct query_answer *answer;
	struct view_tree tree;
	struct frames frames = {0};
	int code = look_at(call, selection, &data, &answer, err);
	if (!code)
		code = view_tree_new(data, options, &tree, err);
	if (code)
		return code;
	code = number_frames(&frames, &tree, err);
	if (!code) {
		struct json *json = answer_json(call->answer);
		json_begin_object(json, NULL);
		api_put_found(json, selection, answer);
		json_string(json, "order", view_columns[options->order].key);
		json_string(json, "other_figure",
			    view_columns[view_columns[options->order].partner].key);
		put_tree(json, &tree, &frames);
		json_end(json);
	}
	tm_free(frames.list);
	tm_free(frames.number);
	view_tree_done(&tree);
	return code;
}

/* Nodes that stand for lines, or for whole modules: then a frame stands for its module. */
void api_merge(const struct call *call, struct selection *selection,
	       struct view_tree_options *options)
{
	size_t merge = request_choice(call->request, "merge", "function|line|module");
	options->by_line |= merge > 0;
	if (merge == 2)
		selection->fold |= VIEW_FOLD_MODULES;
}

struct view_tree_options api_tree_options(const struct call *call, uint64_t nodes)
{
	const struct request *request = call->request;
	return (struct view_tree_options){
		.direction = (enum view_tree_direction)request_choice(request, "direction",
								      "top_down|bottom_up"),
		.by_line = request_bool(request, "lines"),
		.pivot = request_find(request, "pivot"),
		.max_nodes = (uint32_t)request_number(request, "nodes", nodes),
		.max_depth = (uint32_t)request_number(request, "depth", 0),
		.min_share_ppm = (uint32_t)request_number(request, "min_share_ppm", 0),
	};
}

int api_tree(struct call *call, struct tm_error *err)
{
	struct selection selection;
	uint32_t *path = NULL;
	struct view_tree_options options = api_tree_options(call, NODES_DEFAULT);
	int code = selection_init(&selection, call, err);
	if (code)
		return code;
	api_merge(call, &selection, &options);
	options.order = api_order(call, &selection);
	code = parse_path(request_text(call->request, "path", ""), &path, &options.path_length,
			  err);
	options.path = path;
	if (!code)
		code = put_selected_tree(call, &selection, &options, err);
	tm_free(path);
	selection_done(&selection);
	return code;
}
