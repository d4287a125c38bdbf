/* SPDX-License-Identifier: Apache-2.0 */
/* The call trees of `tidemark diff`: what changed, from the root down or from the leaves up. */
#include <string.h>

#include "base/units.h"
#include "cli/comparison.h"
#include "cli/grid.h"
#include "cli/report_put.h"
#include "views/change_tree.h"

enum { DEPTH_TEXT = 12, DEPTH_JSON = 60, DEPTH_MOST = 60 }; /* json.h nests 64 deep */

static int make(const struct comparison *c, const struct comparison_section *section,
		struct change_tree *tree, struct tm_error *err)
{
	return change_tree_init(tree, c->diff, c->before.data, c->after.data, section->figure,
				!strcmp(section->name, "bottom-up"), err);
}

static bool changed(const struct change_node *node)
{
	return node->before != node->after;
}

/* The branch of a line, from the marks of the levels above it. */
static void put_branch(struct text *text, const bool *more, unsigned depth)
{
	for (unsigned i = 1; i < depth; i++)
		text_put(text, more[i] ? "│ " : "  ");
	if (depth)
		text_put(text, more[depth] ? "├ " : "└ ");
	text_put_char(text, '\t');
}

/* The next child that changed, from `node` on; 0 = none. */
static uint32_t next_changed(const struct change_tree *tree, uint32_t node)
{
	while (node && !changed(&tree->nodes[node]))
		node = tree->nodes[node].sibling;
	return node;
}

struct printer {
	const struct comparison *c;
	const struct change_tree *tree;
	struct grid grid;
	size_t left; /* lines that may still be printed */
	unsigned depth_max;
	bool more[DEPTH_MOST + 1];
};

static void put_node(struct printer *p, uint32_t at, unsigned depth)
{
	const struct change_node *node = &p->tree->nodes[at];
	struct comparison_value value = {.unit = VALUE_BYTES,
					 .before_known = true,
					 .after_known = true,
					 .before = node->before,
					 .after = node->after};
	/* The bound by bytes alone: how many blocks there are is not known here. */
	value.before_error = view_error_bytes(&p->c->before.input, node->before, node->before);
	value.after_error = view_error_bytes(&p->c->after.input, node->after, node->after);
	struct text name = {0};
	put_branch(&name, p->more, depth);
	text_put(&name, node->name);
	grid_cell(&p->grid, "%s%s", comparison_change(&value).text, comparison_error(&value).text);
	grid_cell(&p->grid, "%s", comparison_percent(&value).text);
	grid_cell(&p->grid, "%s", comparison_before(&value).text);
	grid_cell(&p->grid, "%s", comparison_after(&value).text);
	grid_cell(&p->grid, "%s", text_string(&name));
	text_done(&name);
}

/* As deep as depth_max says, which is little. */
static void put_children(struct printer *p, uint32_t parent, unsigned depth)
{
	uint32_t child = next_changed(p->tree, p->tree->nodes[parent].first_child);
	while (child && p->left && depth < p->depth_max) {
		uint32_t next = next_changed(p->tree, p->tree->nodes[child].sibling);
		p->more[depth] = next != 0;
		p->left--;
		put_node(p, child, depth);
		put_children(p, child, depth + 1);
		child = next;
	}
}

int comparison_tree_text(const struct comparison *c, const struct comparison_section *section,
			 struct tm_error *err)
{
	static const struct grid_column columns[] = {
		{"change", GRID_RIGHT, OUT_FIGURE, 0}, {"", GRID_RIGHT, OUT_PLAIN, 0},
		{"before", GRID_RIGHT, OUT_PLAIN, 60}, {"after", GRID_RIGHT, OUT_PLAIN, 60},
		{"", GRID_NAME, OUT_PLAIN, 0},
	};
	struct change_tree tree;
	struct printer printer = {.c = c,
				  .tree = &tree,
				  .grid = {.columns = columns, .column_count = 5},
				  .left = c->limit == SIZE_MAX ? SIZE_MAX : c->limit * 4,
				  .depth_max = c->depth ? c->depth : DEPTH_TEXT};
	int code = make(c, section, &tree, err);
	if (printer.depth_max > DEPTH_MOST)
		printer.depth_max = DEPTH_MOST;
	if (!code && changed(&tree.nodes[0])) {
		bool up = !strcmp(section->name, "bottom-up");
		put_heading(
			c->out,
			up ? "Change of the peak, by the functions that allocate and their callers"
			   : "Change of the peak, from the root down",
			0, 0);
		put_children(&printer, 0, 0);
		grid_print(&printer.grid, c->out, 0);
	}
	grid_done(&printer.grid);
	change_tree_done(&tree);
	return code;
}

static void json_children(const struct change_tree *tree, struct json *json, uint32_t parent,
			  size_t limit, unsigned depth)
{
	uint32_t child = next_changed(tree, tree->nodes[parent].first_child);
	json_begin_array(json, "children");
	for (size_t i = 0; child && i < limit && depth < DEPTH_JSON / 2; i++) {
		const struct change_node *node = &tree->nodes[child];
		json_begin_object(json, NULL);
		json_string(json, "name", node->name);
		json_u64(json, "before", node->before);
		json_u64(json, "after", node->after);
		json_children(tree, json, child, limit, depth + 1);
		json_end(json);
		child = next_changed(tree, node->sibling);
	}
	json_end(json);
}

int comparison_tree_json(const struct comparison *c, const struct comparison_section *section,
			 struct json *json, struct tm_error *err)
{
	struct change_tree tree;
	int code = make(c, section, &tree, err);
	if (!code) {
		json_begin_object(json, section->name);
		json_u64(json, "before", tree.nodes[0].before);
		json_u64(json, "after", tree.nodes[0].after);
		json_children(&tree, json, 0, c->limit, 0);
		json_end(json);
	}
	change_tree_done(&tree);
	return code;
}
