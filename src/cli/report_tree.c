/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call trees. A chain of calls without branches stays in one column, so that deep
 * stacks fit on a screen:
 *
 *   2.45 MB  100.0 %  main
 *   2.44 MB   99.9 %  run
 *   1.20 MB   49.0 %  ├ parse
 *   1.10 MB   44.9 %  │ read_file
 *   1.24 MB   50.6 %  └ render
 */
#include "views/tree.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "cli/grid.h"
#include "cli/report_put.h"
#include "cli/report_sections.h"
#include "views/to_json.h"

enum { NODES_TEXT = 60, NODES_JSON = 1000, MIN_SHARE_PPM = 2000, INDENT_MAX = 256 };

static int make(const struct report *report, const struct report_section *section,
		size_t usual_nodes, struct view_tree *tree, struct tm_error *err)
{
	const struct view usual = {.flat = true};
	struct view view = report_view(report, &usual, report_mode(report)->bytes);
	size_t most = report_limit(report, usual_nodes), depth = report_depth(report, SIZE_MAX);
	return view_tree_new(
		report->data,
		&(struct view_tree_options){
			.direction = !strcmp(section->name, "tree") ? VIEW_TREE_TOP_DOWN
								    : VIEW_TREE_BOTTOM_UP,
			.order = view.order,
			.min_share_ppm = report->options->has_limit ? 0 : MIN_SHARE_PPM,
			.max_nodes = most > VIEW_TREE_NODES_MAX ? 0 : (uint32_t)most,
			.max_depth = depth > UINT32_MAX ? 0 : (uint32_t)depth,
		},
		tree, err);
}

/* ---- text ---- */

struct painter {
	const struct report *report;
	const struct view_tree *tree;
	struct out *out;
	struct grid grid;
	/* By depth: what stands before the names of a node's children. */
	struct text *prefixes;
};

static size_t children(const struct view_tree *tree, size_t index)
{
	size_t count = 0, end = tree->nodes[index].next;
	for (size_t at = index + 1; at < end; at = tree->nodes[at].next)
		count++;
	return count;
}

static void put_figures(struct painter *p, const struct view_figures *figures)
{
	enum view_figure order = p->tree->order, partner = view_columns[order].partner;
	enum view_figure second = partner == order ? VIEW_ALLOCATIONS : partner;
	uint64_t whole = p->tree->nodes[0].inclusive.of[order];
	grid_cell(&p->grid, "%s", put_sure(p->report, p->out, figures, order).text);
	grid_cell(&p->grid, "%s", put_share(figures->of[order], whole).text);
	grid_cell(&p->grid, "%s", put_figure(p->out, figures, second).text);
	grid_cell(&p->grid, "%s",
		  out_bytes(p->out, view_average(figures, partner == order ? second : order)).text);
}

/* What is left of a node's figures when its children and its own are taken away. */
static struct view_figures rest_of(const struct view_tree *tree, size_t index)
{
	struct view_figures rest = tree->nodes[index].inclusive;
	size_t end = tree->nodes[index].next;
	for (size_t i = 0; i < VIEW_FIGURE_COUNT; i++)
		rest.of[i] -= tree->nodes[index].self.of[i];
	for (size_t at = index + 1; at < end; at = tree->nodes[at].next)
		for (size_t i = 0; i < VIEW_FIGURE_COUNT; i++)
			rest.of[i] -= tree->nodes[at].inclusive.of[i];
	return rest;
}

/* What was left out of the node is worth a line: one per cent of it. */
static bool has_rest(const struct view_tree *tree, size_t index)
{
	if (!tree->nodes[index].left_out || tree->nodes[index].next == index + 1)
		return false;
	struct view_figures rest = rest_of(tree, index);
	return (double)rest.of[tree->order] * 100 >=
	       (double)tree->nodes[index].inclusive.of[tree->order];
}

static void put_rest(struct painter *p, size_t index, const char *prefix)
{
	const struct view_tree_node *node = &p->tree->nodes[index];
	struct view_figures rest = rest_of(p->tree, index);
	put_figures(p, &rest);
	grid_cell(&p->grid, "%s\t… %u more", prefix, node->left_out);
}

static void put_node(struct painter *p, size_t index)
{
	const struct view_tree *tree = p->tree;
	const struct view_tree_node *node = &tree->nodes[index],
				    *parent = &tree->nodes[node->parent];
	size_t siblings = children(tree, node->parent);
	bool rest = has_rest(tree, node->parent);
	bool is_last = node->next >= parent->next && !rest;
	bool branches = siblings + rest > 1;
	const char *before = text_string(&p->prefixes[node->depth - 1]);
	struct text *below = &p->prefixes[node->depth];
	put_figures(p, &node->inclusive);
	struct out name = {0};
	put_frame_name(&name, node->frame, 0);
	grid_cell(&p->grid, "%s%s\t%s", before, branches ? is_last ? "└ " : "├ " : "",
		  text_string(&name.text));
	text_done(&name.text);
	text_clear(below);
	text_put(below, before);
	if (branches)
		text_put(below, is_last ? "  " : "│ ");
}

static void put_nodes(struct painter *p)
{
	const struct view_tree *tree = p->tree;
	for (size_t i = 1; i < tree->count; i++) {
		put_node(p, i);
		/* Where subtrees end, what was left out of them follows. */
		for (size_t at = i; at && tree->nodes[at].next == i + 1;
		     at = tree->nodes[at].parent) {
			const char *prefix = text_string(&p->prefixes[tree->nodes[at].depth]);
			if (has_rest(tree, at)) {
				struct text branch = {0};
				text_print(&branch, "%s└ ", prefix);
				put_rest(p, at, text_string(&branch));
				text_done(&branch);
			}
		}
	}
}

static uint32_t deepest(const struct view_tree *tree)
{
	uint32_t depth = 0;
	for (size_t i = 0; i < tree->count; i++)
		if (tree->nodes[i].depth > depth)
			depth = tree->nodes[i].depth;
	return depth;
}

int report_tree_text(const struct report *report, const struct report_section *section,
		     struct out *out, struct tm_error *err)
{
	struct view_tree tree;
	int code = make(report, section, NODES_TEXT, &tree, err);
	if (code)
		return code;
	bool by_bytes = view_columns[tree.order].unit == VIEW_UNIT_BYTES;
	const struct grid_column columns[] = {
		{by_bytes ? "bytes" : "blocks", GRID_RIGHT, OUT_FIGURE, 0},
		{"share", GRID_RIGHT, OUT_PLAIN, 0},
		{by_bytes                       ? "blocks"
		 : tree.order == VIEW_TEMPORARY ? "all"
						: "bytes",
		 GRID_RIGHT, OUT_PLAIN, 0},
		{"average", GRID_RIGHT, OUT_PLAIN, 0},
		{tree.direction == VIEW_TREE_TOP_DOWN ? "from the root down to the allocation"
						      : "from the allocation up to its callers",
		 GRID_NAME, OUT_PLAIN, 0},
	};
	uint32_t depth = deepest(&tree);
	struct painter p = {
		.report = report,
		.tree = &tree,
		.out = out,
		.grid = {.columns = columns, .column_count = sizeof columns / sizeof columns[0]},
		.prefixes = tm_alloc_array(depth + 1, sizeof *p.prefixes),
	};
	if (!p.prefixes) {
		view_tree_done(&tree);
		return tm_fail(err, -ENOMEM, "out of memory");
	}
	char title[200];
	snprintf(title, sizeof title, "Call tree of %s: %s", report_order_words(report, tree.order),
		 put_sure(report, out, &tree.nodes[0].inclusive, tree.order).text);
	put_heading(out, title, 0, 0);
	put_nodes(&p);
	if (has_rest(&tree, 0))
		put_rest(&p, 0, "└ ");
	grid_print(&p.grid, out, 2);
	grid_done(&p.grid);
	for (uint32_t i = 0; i <= depth; i++)
		text_done(&p.prefixes[i]);
	tm_free(p.prefixes);
	view_tree_done(&tree);
	return 0;
}

/* ---- JSON and CSV ---- */

int report_tree_json(const struct report *report, const struct report_section *section,
		     struct json *json, struct tm_error *err)
{
	struct view_tree tree;
	int code = make(report, section, NODES_JSON, &tree, err);
	if (code)
		return code;
	json_begin_object(json, section->key);
	json_string(json, "order", view_columns[tree.order].key);
	json_begin_array(json, "nodes");
	for (size_t i = 0; i < tree.count; i++) {
		const struct view_tree_node *node = &tree.nodes[i];
		json_begin_object(json, NULL);
		put_json_known(json, "parent", i > 0, node->parent);
		json_u64(json, "depth", node->depth);
		json_string(json, "function", node->frame ? node->frame->function : NULL);
		json_string(json, "module", node->frame ? node->frame->module : NULL);
		json_u64(json, "left_out", node->left_out);
		json_begin_object(json, "inclusive");
		view_json_figures(json, &node->inclusive);
		json_end(json);
		json_begin_object(json, "self");
		view_json_figures(json, &node->self);
		json_end(json);
		json_end(json);
	}
	json_end(json);
	json_end(json);
	view_tree_done(&tree);
	return 0;
}

int report_tree_csv(const struct report *report, const struct report_section *section,
		    struct text *out, struct tm_error *err)
{
	struct view_tree tree;
	int code = make(report, section, NODES_JSON, &tree, err);
	if (code)
		return code;
	text_put(out, "node,parent,depth,function,module,");
	put_csv_figure_keys(out, "inclusive_");
	put_csv_figure_keys(out, "self_");
	put_csv_end(out);
	for (size_t i = 0; i < tree.count; i++) {
		const struct view_tree_node *node = &tree.nodes[i];
		put_csv_u64(out, i);
		put_csv_u64(out, node->parent);
		put_csv_u64(out, node->depth);
		put_csv_text(out, node->frame ? node->frame->function : NULL);
		put_csv_text(out, node->frame ? node->frame->module : NULL);
		put_csv_figures(out, &node->inclusive);
		put_csv_figures(out, &node->self);
		put_csv_end(out);
	}
	view_tree_done(&tree);
	return 0;
}
