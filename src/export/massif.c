/* SPDX-License-Identifier: Apache-2.0 */
/*
 * massif.out, for ms_print and massif-visualizer: the live bytes at up to 100
 * moments, with the stacks of two of them, the peak and the end. As in massif,
 * a tree goes from the allocating functions to their callers, and what has less
 * than 1 % is counted together.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/memory.h"
#include "export/formats.h"
#include "export/rows.h"
#include "views/tree.h"

enum { SNAPSHOTS = 100, THRESHOLD_PPM = 10000, NODES_MAX = 20000 };

struct massif {
	const struct export_input *input;
	struct outlet *outlet;
	struct view_figures sum;
	uint64_t peak_ns, peak_bytes;
	unsigned next;
	bool has_peak;
};

static void put_place(struct text *out, const struct view_frame *frame)
{
	struct text name = {0};
	export_frame_name(&name, frame);
	text_print(out, "0x%" PRIX64 ": ", frame->address);
	export_line_text(out, text_string(&name), 0, 0);
	text_done(&name);
	text_put(out, " (");
	if (frame->file) {
		export_line_text(out, view_module_name(frame->file), 0, 0);
		text_print(out, ":%u", frame->line);
	} else {
		text_put(out, "in ");
		export_line_text(out, frame->module, 0, 0);
	}
	text_put_char(out, ')');
}

static uint64_t children_of(const struct view_tree *tree, size_t index, uint64_t *ret_cost)
{
	uint64_t count = 0;
	*ret_cost = 0;
	for (size_t i = index + 1; i < tree->nodes[index].next; i = tree->nodes[i].next) {
		*ret_cost += tree->nodes[i].inclusive.of[tree->order];
		count++;
	}
	return count;
}

/*
 * A node says how many lines below it belong to it: its children, and one for
 * what was left out. That one comes after the last child's subtree.
 */
static int put_tree(struct massif *m, const struct view_tree *tree)
{
	struct text *out = &m->outlet->text;
	int code = 0;
	for (size_t i = 0; !code && i < tree->count; i++) {
		const struct view_tree_node *node = &tree->nodes[i];
		uint64_t inner, children = children_of(tree, i, &inner);
		text_put_repeated(out, ' ', node->depth);
		text_print(out, "n%" PRIu64 ": %" PRIu64 " ", children + (node->left_out > 0),
			   node->inclusive.of[tree->order]);
		if (node->frame)
			put_place(out, node->frame);
		else
			text_put(out, "(heap allocation functions) malloc/new/new[], --alloc-fns, "
				      "etc.");
		text_put_char(out, '\n');
		/* Subtrees that end here: the innermost first. */
		for (size_t at = i; !code && tree->nodes[at].next == i + 1;
		     at = tree->nodes[at].parent) {
			const struct view_tree_node *ended = &tree->nodes[at];
			children_of(tree, at, &inner);
			if (ended->left_out) {
				text_put_repeated(out, ' ', ended->depth + 1u);
				text_print(out,
					   "n0: %" PRIu64 " in %u place%s, %s below massif's "
					   "threshold (1.00%%)\n",
					   ended->inclusive.of[tree->order] -
						   ended->self.of[tree->order] - inner,
					   ended->left_out, ended->left_out == 1 ? "" : "s",
					   ended->left_out == 1 ? "" : "all");
			}
			if (!at)
				break;
		}
		code = outlet_flush(m->outlet);
	}
	return code;
}

static void put_snapshot(struct massif *m, uint64_t time_ns, uint64_t bytes, const char *tree)
{
	text_print(&m->outlet->text,
		   "#-----------\nsnapshot=%u\n#-----------\ntime=%" PRIu64 "\nmem_heap_B=%" PRIu64
		   "\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=%s\n",
		   m->next++, time_ns / 1000000, bytes, tree);
}

static int put_detailed(struct massif *m, uint64_t time_ns, enum view_figure figure,
			const char *kind, struct tm_error *err)
{
	struct view_tree tree;
	const struct view_tree_options options = {
		.direction = VIEW_TREE_BOTTOM_UP,
		.order = figure,
		.by_line = true,
		.min_share_ppm = THRESHOLD_PPM,
		.max_nodes = NODES_MAX,
	};
	if (!m->sum.of[figure]) {
		put_snapshot(m, time_ns, 0, "empty");
		return 0;
	}
	int code = view_tree_new(m->input->data, &options, &tree, err);
	if (code)
		return code;
	put_snapshot(m, time_ns, m->sum.of[figure], kind);
	code = put_tree(m, &tree);
	view_tree_done(&tree);
	return code;
}

/* Points in order, with the peak where it belongs; the last one is the end. */
static int put_snapshots(struct massif *m, const struct query_timeline *timeline,
			 struct tm_error *err)
{
	int code = 0;
	put_snapshot(m, 0, 0, "empty");
	for (size_t i = 0; !code && i < timeline->point_count; i++) {
		const struct query_point *point = &timeline->points[i];
		bool last = i + 1 == timeline->point_count;
		if (!m->has_peak && m->peak_bytes && (m->peak_ns <= point->end_ns || last)) {
			m->has_peak = true;
			code = put_detailed(m, m->peak_ns, VIEW_PEAK_BYTES, "peak", err);
		}
		if (!code && !last)
			put_snapshot(m, point->end_ns, point->live_bytes, "empty");
	}
	return code ? code : put_detailed(m, m->input->to_ns, VIEW_UNFREED_BYTES, "detailed", err);
}

static void add_up(struct massif *m)
{
	size_t count;
	const struct view_stack_row *rows = view_stacks(m->input->data, &count);
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < VIEW_FIGURE_COUNT; k++)
			m->sum.of[k] += rows[i].figures.of[k];
}

/* Of a filter the shares of the whole heap's peak are known; its moment is the range's. */
static void find_peak(struct massif *m, const struct query_timeline *timeline)
{
	struct model_totals totals;
	uint64_t largest = 0;
	model_totals(query_model(m->input->section), &totals);
	m->peak_bytes = m->sum.of[VIEW_PEAK_BYTES];
	m->peak_ns = totals.peak_time_ns;
	if (!m->input->is_part)
		return;
	for (size_t i = 0; i < timeline->point_count; i++)
		if (timeline->points[i].max_live_bytes > largest) {
			largest = timeline->points[i].max_live_bytes;
			m->peak_ns = timeline->points[i].max_live_time_ns;
		}
}

static int write_massif(const struct export_input *input, struct outlet *outlet,
			struct tm_error *err)
{
	struct massif m = {.input = input, .outlet = outlet};
	struct query_timeline timeline;
	const struct query_timeline_options options = {
		.from_ns = input->from_ns,
		.to_ns = input->to_ns,
		.points = SNAPSHOTS,
		.filter = input->filter,
		.progress = input->progress,
	};
	int code = query_timeline(input->section, &options, &timeline, err);
	if (code)
		return code;
	add_up(&m);
	find_peak(&m, &timeline);
	text_print(&outlet->text,
		   "desc: %s\ncmd: ", export_note(input) ? export_note(input) : "(none)");
	export_line_text(&outlet->text, export_command(input), 0, 0);
	text_put(&outlet->text, "\ntime_unit: ms\n");
	code = put_snapshots(&m, &timeline, err);
	query_timeline_done(&timeline);
	return code;
}

const struct export_format export_massif = {
	.name = "massif",
	.help = "massif.out, for ms_print and massif-visualizer",
	.suffix = ".massif.out",
	.type = "text/plain; charset=utf-8",
	.write = write_massif,
};
