/* SPDX-License-Identifier: Apache-2.0 */
/* Sites: the functions that allocate, the largest first, with their largest stacks. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/report_put.h"
#include "cli/report_sections.h"
#include "views/to_json.h"

enum {
	SITES_TEXT = 5,
	WORTH_PERMILLE = 10, /* the usual report leaves out sites with less */
	SITES_JSON = 10,
	SITES_CHOSEN = 10, /* when the section was asked for by name */
	STACKS_JSON = 5,
	FRAMES = 6,
	FRAMES_CHOSEN = 16,
	FIGURE_COLUMNS = 10,
	INDENT = 6,
};

static bool is_chosen(const struct report *report)
{
	return report->options->section_count > 0;
}

static bool is_unfreed(const struct view *view)
{
	return view->columns[0] == VIEW_UNFREED_BYTES;
}

/* What is suppressed is not in the list of unfreed blocks, but below it. */
static int fill(const struct report *report, const char *name, struct view *view,
		struct view_rows *rows, struct tm_error *err)
{
	const struct view *usual = view_find(name);
	*view = report_view(report, usual, usual->order);
	if (is_unfreed(view))
		suppressions_hide(report->data);
	int code = view_fill(view, report->data, rows, err);
	if (is_unfreed(view))
		suppressions_show(report->data);
	return code;
}

/* ---- text ---- */

static void put_frame(struct out *out, const struct view_frame *frame)
{
	struct text place = {0};
	text_put_repeated(&out->text, ' ', INDENT);
	put_frame_place(&place, frame);
	unsigned wide = (unsigned)place.length, room = 0;
	if (out->width > INDENT + 20)
		room = out->width - INDENT;
	/* A place that leaves no room for the name stands back. */
	bool with_place = wide && (!room || room > wide + 22);
	unsigned left = with_place && room ? room - wide - 2 : room;
	unsigned used = put_frame_name(out, frame, left);
	if (with_place) {
		text_put_repeated(&out->text, ' ', room ? left - used + 2 : 2);
		out_style(out, OUT_DIM);
		out_name(out, text_string(&place), 0);
		out_style(out, OUT_PLAIN);
	}
	text_put_char(&out->text, '\n');
	text_done(&place);
}

/* From the innermost frame to main; what called main is the same everywhere. */
static void put_frames(const struct report *report, struct out *out, uint32_t cursor)
{
	size_t most = report_depth(report, is_chosen(report) ? FRAMES_CHOSEN : FRAMES);
	const struct view_frame *frame;
	size_t shown = 0, more = 0;
	bool at_root = false, at_site = false;
	uint32_t leaf = cursor;
	while (!at_site && (frame = view_next_frame(report->data, &cursor)))
		at_site = !frame->is_allocator;
	/* The allocator's own frames say nothing, unless there are no others. */
	bool skip = at_site;
	cursor = leaf;
	while (!at_root && (frame = view_next_frame(report->data, &cursor))) {
		skip = skip && frame->is_allocator;
		if (skip)
			continue;
		at_root = frame->is_root;
		if (shown < most || (at_root && most)) {
			if (more)
				text_print(&out->text, "%*s... %zu more ...\n", INDENT, "", more);
			more = 0;
			put_frame(out, frame);
			shown++;
		} else {
			more++;
		}
	}
	if (more)
		text_print(&out->text, "%*s... %zu more\n", INDENT, "", more);
	/* What called main is the same everywhere, but whose main it is may not be. */
	while (at_root && (frame = view_next_frame(report->data, &cursor)))
		if (view_is_process(frame))
			put_frame(out, frame);
}

/* "1,200 blocks at the peak, 1.00 kB on average" */
static void put_details(const struct report *report, struct out *out, const struct view *view,
			const struct view_figures *figures)
{
	enum view_figure second = view->columns[view->order == view->columns[0] ? 1 : 0];
	text_print(&out->text, "%s %s", put_sure(report, out, figures, second).text,
		   report_figure_title(report, second, figures->of[second] == 1));
	enum view_figure averaged =
		view_columns[view->order].partner != view->order ? view->order : second;
	enum view_figure blocks = view_columns[averaged].unit == VIEW_UNIT_COUNT
					  ? averaged
					  : view_columns[averaged].partner;
	/* The average of one block is its size. */
	if (figures->of[blocks] > 1)
		text_print(&out->text, ", %s on average",
			   out_bytes(out, view_average(figures, averaged)).text);
}

static void put_stacks(const struct report *report, struct out *out, const struct view *view,
		       const struct view_row *site)
{
	size_t most = is_chosen(report) ? 2 : 1;
	size_t shown = site->stack_count < most ? site->stack_count : most;
	for (size_t i = 0; i < shown; i++) {
		const struct view_stack_row *stack = &site->stacks[i];
		if (site->stack_count > 1) {
			text_print(&out->text, "    of these %s (",
				   put_sure(report, out, &stack->figures, view->order).text);
			put_details(report, out, view, &stack->figures);
			text_put(&out->text, ") from\n");
		}
		put_frames(report, out, stack->stack);
	}
	size_t more = site->stack_count - shown;
	if (more)
		text_print(&out->text, "    and %s more stack%s\n", units_grouped(more).text,
			   put_plural(more));
}

static void put_site(const struct report *report, struct out *out, const struct view *view,
		     const struct view_row *site)
{
	out_style(out, OUT_FIGURE);
	text_print(&out->text, "%*s", FIGURE_COLUMNS,
		   put_sure(report, out, &site->self, view->order).text);
	out_style(out, OUT_PLAIN);
	text_print(&out->text, " %7s  ",
		   put_share(site->self.of[view->order], report->sum.of[view->order]).text);
	unsigned used = FIGURE_COLUMNS + 10;
	struct text name = {0};
	view_row_name(&name, view, site);
	out_style(out, OUT_BOLD);
	out_function(out, text_string(&name), out->width > used + 20 ? out->width - used : 0);
	out_style(out, OUT_PLAIN);
	text_done(&name);
	text_put(&out->text, "\n    ");
	put_details(report, out, view, &site->self);
	text_put(&out->text, ", in ");
	out_name(out, view_module_name(site->module), 0);
	text_put_char(&out->text, '\n');
	put_stacks(report, out, view, site);
}

static void put_title(const struct report *report, struct out *out, const struct view *view,
		      size_t shown, size_t count)
{
	const char *live = report_live_words(report);
	char title[160];
	snprintf(title, sizeof title, "%s", view->title);
	if (view->columns[0] == VIEW_UNFREED_BYTES && strcmp(live, "unfreed") != 0)
		snprintf(title, sizeof title, "Sites by what was %s", live);
	put_heading(out, title, shown, count);
}

static bool is_small(const struct report *report, const struct view *view,
		     const struct view_row *site)
{
	return (double)site->self.of[view->order] * 1000 <
	       (double)report->sum.of[view->order] * WORTH_PERMILLE;
}

int report_sites_text(const struct report *report, const struct report_section *section,
		      struct out *out, struct tm_error *err)
{
	struct view view;
	struct view_rows rows = {0};
	int code = fill(report, section->view, &view, &rows, err);
	if (code)
		return code;
	size_t shown = report_limit(report, is_chosen(report) ? SITES_CHOSEN : SITES_TEXT);
	if (shown > rows.count)
		shown = rows.count;
	if (!report->options->has_limit && !is_chosen(report))
		while (shown > 1 && is_small(report, &view, &rows.rows[shown - 1]))
			shown--;
	if (rows.count || is_chosen(report))
		put_title(report, out, &view, shown, rows.count);
	if (!rows.count && is_chosen(report))
		text_put(&out->text, "  none\n");
	for (size_t i = 0; i < shown; i++)
		put_site(report, out, &view, &rows.rows[i]);
	view_rows_done(&rows);
	if (is_unfreed(&view))
		suppressed_text(&report->suppressed, out);
	return 0;
}

/* ---- JSON ---- */

static void put_json_stack(const struct report *report, struct json *json,
			   const struct view_stack_row *row, bool numbered)
{
	json_begin_object(json, NULL);
	if (numbered)
		json_u64(json, "stack_id", row->stack);
	view_json_figures(json, &row->figures);
	json_begin_array(json, "frames");
	uint32_t cursor = row->stack;
	const struct view_frame *frame;
	while ((frame = view_next_frame(report->data, &cursor))) {
		json_begin_object(json, NULL);
		put_json_frame(json, frame);
		json_end(json);
	}
	json_end(json);
	json_end(json);
}

int report_sites_json(const struct report *report, const struct report_section *section,
		      struct json *json, struct tm_error *err)
{
	struct view view;
	struct view_rows rows = {0};
	int code = fill(report, section->view, &view, &rows, err);
	if (code)
		return code;
	size_t shown = report_limit(report, SITES_JSON);
	json_begin_array(json, section->key);
	for (size_t i = 0; i < rows.count && i < shown; i++) {
		const struct view_row *row = &rows.rows[i];
		json_begin_object(json, NULL);
		json_string(json, "function", row->function);
		json_string(json, "module", row->module);
		view_json_figures(json, &row->self);
		json_u64(json, "stack_count", row->stack_count);
		json_begin_array(json, "stacks");
		for (size_t k = 0; k < row->stack_count && k < STACKS_JSON; k++)
			put_json_stack(report, json, &row->stacks[k], false);
		json_end(json);
		json_end(json);
	}
	json_end(json);
	view_rows_done(&rows);
	return 0;
}

void report_stacks_json(const struct report *report, struct json *json)
{
	size_t count;
	const struct view_stack_row *rows = view_stacks(report->data, &count);
	json_begin_array(json, "stack_list");
	for (size_t i = 0; i < count; i++)
		put_json_stack(report, json, &rows[i], true);
	json_end(json);
}

/* ---- CSV, and lines ---- */

int report_sites_csv(const struct report *report, const struct report_section *section,
		     struct text *out, struct tm_error *err)
{
	struct view view;
	struct view_rows rows = {0};
	int code = fill(report, section->view, &view, &rows, err);
	if (code)
		return code;
	size_t shown = report_limit(report, SIZE_MAX);
	text_put(out, "function,module,");
	put_csv_figure_keys(out, "");
	text_put(out, "stacks\n");
	for (size_t i = 0; i < rows.count && i < shown; i++) {
		put_csv_text(out, rows.rows[i].function);
		put_csv_text(out, rows.rows[i].module);
		put_csv_figures(out, &rows.rows[i].self);
		put_csv_u64(out, rows.rows[i].stack_count);
		put_csv_end(out);
	}
	view_rows_done(&rows);
	return 0;
}

void report_stack_lines(const struct report *report, struct out *out)
{
	size_t count;
	const struct view_stack_row *rows = view_stacks(report->data, &count);
	for (size_t i = 0; i < count; i++) {
		/* The first ten: scripts count columns. */
		for (size_t k = 0; k < VIEW_SURVIVING_BLOCKS; k++)
			text_print(&out->text, "%" PRIu64 "\t", rows[i].figures.of[k]);
		uint32_t cursor = rows[i].stack;
		const struct view_frame *frame;
		const char *between = "";
		while ((frame = view_next_frame(report->data, &cursor))) {
			text_put(&out->text, between);
			put_frame_name(out, frame, 0);
			between = ";";
		}
		text_put_char(&out->text, '\n');
	}
}
