/* SPDX-License-Identifier: Apache-2.0 */
/* A call tree for terminals: curl shows it as it is. */
#include "server/api.h"

#include <string.h>

#include "base/units.h"
#include "server/look.h"
#include "views/tree.h"

enum { NODES_DEFAULT = 200, DEPTH_SHOWN = 512 };

static void put_figure(struct text *out, const struct view_column *column, uint64_t value)
{
	struct units_text text =
		column->unit == VIEW_UNIT_BYTES ? units_bytes(value) : units_count(value);
	text_print(out, "%10s", text.text);
}

static bool has_sibling(const struct view_tree *tree, size_t index)
{
	const struct view_tree_node *node = &tree->nodes[index];
	return node->next < tree->count && tree->nodes[node->next].parent == node->parent;
}

/* The lines that lead to a node: from the root, so its ancestors are collected first. */
static void put_branches(struct text *out, const struct view_tree *tree, size_t index)
{
	size_t ancestors[DEPTH_SHOWN], count = 0;
	for (size_t at = index; at && count < DEPTH_SHOWN; at = tree->nodes[at].parent)
		ancestors[count++] = at;
	while (count-- > 1)
		text_put(out, has_sibling(tree, ancestors[count]) ? "│ " : "  ");
	if (index)
		text_put(out, has_sibling(tree, index) ? "├ " : "└ ");
}

static void put_node(struct text *out, const struct view_tree *tree, size_t index, bool by_module)
{
	const struct view_tree_node *node = &tree->nodes[index];
	enum view_figure partner = view_columns[tree->order].partner;
	put_figure(out, &view_columns[tree->order], node->inclusive.of[tree->order]);
	if (partner != tree->order)
		put_figure(out, &view_columns[partner], node->inclusive.of[partner]);
	text_put(out, "  ");
	put_branches(out, tree, index);
	const struct view_frame *frame = node->frame;
	const char *name = !frame ? "everything" : by_module ? NULL : frame->function;
	if (!name)
		name = view_module_name(frame->module);
	text_put_visible(out, name, strlen(name));
	if (frame && frame->file && !by_module) {
		text_put(out, "  ");
		text_put_visible(out, frame->file, strlen(frame->file));
		text_print(out, ":%u", frame->line);
	}
	text_put_char(out, '\n');
}

int api_tree_text(struct call *call, struct tm_error *err)
{
	struct selection selection;
	const struct view_data *data;
	struct view_tree tree;
	struct view_tree_options options = api_tree_options(call, NODES_DEFAULT);
	int code = selection_init(&selection, call, err);
	if (code)
		return code;
	api_merge(call, &selection, &options);
	options.order = api_order(call, &selection);
	code = look_at(call, &selection, &data, NULL, err);
	if (!code)
		code = view_tree_new(data, &options, &tree, err);
	if (!code) {
		call->answer->type = "text/plain; charset=utf-8";
		for (size_t i = 0; i < tree.count; i++)
			put_node(&call->answer->body, &tree, i,
				 (selection.fold & VIEW_FOLD_MODULES) != 0);
		view_tree_done(&tree);
	}
	selection_done(&selection);
	return code;
}
