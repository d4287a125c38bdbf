/* SPDX-License-Identifier: Apache-2.0 */
/* The report for people: totals first, then the sites with their stacks. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/report.h"
#include "cli/report_totals.h"

enum { STACKS_PER_SITE = 2, FRAMES_PER_STACK = 16, FIGURE_COLUMNS = 10 };

static struct units_text figure_text(const struct view_figures *figures, enum view_figure figure)
{
	return view_columns[figure].unit == VIEW_UNIT_BYTES ? units_bytes(figures->of[figure])
							    : units_grouped(figures->of[figure]);
}

static void put_heading(struct out *out, const char *title, size_t shown, size_t count)
{
	text_put_char(&out->text, '\n');
	out_style(out, OUT_BOLD);
	text_put(&out->text, title);
	out_style(out, OUT_PLAIN);
	if (shown < count)
		text_print(&out->text, " (%zu of %zu)", shown, count);
	text_put_char(&out->text, '\n');
}

/* "foo" or "libfoo.so+0x1234". */
static void put_frame_name(struct out *out, const struct view_frame *frame, unsigned columns)
{
	if (frame->function) {
		out_name(out, frame->function, columns);
		return;
	}
	char name[320];
	snprintf(name, sizeof name, "%.256s+0x%" PRIx64, view_module_name(frame->module),
		 frame->address);
	out_name(out, name, columns);
}

static void put_frame(struct out *out, const struct view_frame *frame)
{
	unsigned indent = 6;
	text_put_repeated(&out->text, ' ', indent);
	char place[160] = "";
	if (frame->file)
		snprintf(place, sizeof place, "  %.120s:%" PRIu32, view_module_name(frame->file),
			 frame->line);
	else if (frame->function && strcmp(frame->module, "[mark]") != 0)
		snprintf(place, sizeof place, "  in %.120s", view_module_name(frame->module));
	unsigned place_columns = (unsigned)strlen(place), room = 0;
	if (out->width > indent + 20)
		room = out->width - indent;
	put_frame_name(out, frame, room > place_columns + 20 ? room - place_columns : room);
	if (!room || room > place_columns + 20) {
		out_style(out, OUT_DIM);
		out_name(out, place, 0);
		out_style(out, OUT_PLAIN);
	}
	text_put_char(&out->text, '\n');
}

/* From the innermost frame to main; what called main is the same everywhere. */
static void put_frames(const struct report *report, struct out *out, uint32_t cursor)
{
	const struct view_frame *frame;
	unsigned shown = 0, more = 0;
	bool at_root = false;
	while (!at_root && (frame = view_next_frame(report->data, &cursor))) {
		at_root = frame->is_root;
		if (shown < FRAMES_PER_STACK || at_root) {
			if (more)
				text_print(&out->text, "      ... %u more ...\n", more);
			more = 0;
			put_frame(out, frame);
			shown++;
		} else {
			more++;
		}
	}
	if (more)
		text_print(&out->text, "      ... %u more\n", more);
}

/* "1.20 MB, 3 blocks at the peak" */
static void put_columns(struct out *out, const struct view *view, size_t first,
			const struct view_figures *figures)
{
	const char *between = "";
	for (size_t i = first; i < view->column_count; i++) {
		enum view_figure figure = view->columns[i];
		text_print(&out->text, "%s%s", between, figure_text(figures, figure).text);
		if (i > 0)
			text_print(&out->text, " %s",
				   figures->of[figure] == 1 ? view_columns[figure].one
							    : view_columns[figure].title);
		between = ", ";
	}
}

static void put_percent(struct out *out, uint64_t part, uint64_t whole)
{
	text_print(&out->text, " %5.1f %%", whole ? 100.0 * (double)part / (double)whole : 0.0);
}

static void put_site(const struct report *report, struct out *out, const struct view *view,
		     const struct view_row *site, uint64_t whole)
{
	out_style(out, OUT_FIGURE);
	text_print(&out->text, "%*s", FIGURE_COLUMNS, figure_text(&site->self, view->order).text);
	out_style(out, OUT_PLAIN);
	put_percent(out, site->self.of[view->order], whole);
	text_put(&out->text, "  ");
	unsigned used = FIGURE_COLUMNS + 10;
	out_style(out, OUT_BOLD);
	out_name(out, site->function ? site->function : "[functions without a name]",
		 out->width > used + 20 ? out->width - used : 0);
	out_style(out, OUT_PLAIN);
	text_put(&out->text, "\n    ");
	put_columns(out, view, 1, &site->self);
	text_put(&out->text, ", in ");
	out_name(out, view_module_name(site->module), 0);
	text_put_char(&out->text, '\n');
	size_t shown = site->stack_count < STACKS_PER_SITE ? site->stack_count : STACKS_PER_SITE;
	for (size_t i = 0; i < shown; i++) {
		if (site->stack_count > 1) {
			text_put(&out->text, "    ");
			put_columns(out, view, 0, &site->stacks[i].figures);
			text_put(&out->text, " from\n");
		}
		put_frames(report, out, site->stacks[i].stack);
	}
	size_t more = site->stack_count - shown;
	if (more)
		text_print(&out->text, "    and %zu more stack%s\n", more, more == 1 ? "" : "s");
}

static size_t at_most(uint64_t limit, size_t count)
{
	return limit && limit < count ? (size_t)limit : count;
}

static int put_view(const struct report *report, struct out *out, const char *name, uint64_t whole,
		    struct tm_error *err)
{
	const struct view *view = view_find(name);
	struct view_rows rows;
	int code = view_fill(view, report->data, &rows, err);
	if (code)
		return code;
	size_t shown = at_most(report->options.limit, rows.count);
	if (rows.count)
		put_heading(out, view->title, shown, rows.count);
	for (size_t i = 0; i < shown; i++)
		put_site(report, out, view, &rows.rows[i], whole);
	view_rows_done(&rows);
	return 0;
}

static int put_functions(const struct report *report, struct out *out, struct tm_error *err)
{
	const struct view *view = view_find("functions");
	struct view_rows rows;
	int code = view_fill(view, report->data, &rows, err);
	if (code)
		return code;
	size_t shown = at_most(report->options.function_limit, rows.count);
	put_heading(out, view->title, shown, rows.count);
	for (size_t i = 0; i < view->column_count; i++)
		text_print(&out->text, "%*s", FIGURE_COLUMNS + 4,
			   view_columns[view->columns[i]].title);
	text_put(&out->text, "  function\n");
	for (size_t i = 0; i < shown; i++) {
		for (size_t k = 0; k < view->column_count; k++)
			text_print(&out->text, "%*s", FIGURE_COLUMNS + 4,
				   figure_text(&rows.rows[i].inclusive, view->columns[k]).text);
		text_put(&out->text, "  ");
		unsigned used = (FIGURE_COLUMNS + 4) * (unsigned)view->column_count + 2;
		out_name(out, rows.rows[i].function ? rows.rows[i].function : rows.rows[i].module,
			 out->width > used + 20 ? out->width - used : 0);
		text_put_char(&out->text, '\n');
	}
	view_rows_done(&rows);
	return 0;
}

int report_text(const struct report *report, struct out *out, struct tm_error *err)
{
	const struct model_totals *totals = &report->totals;
	const struct {
		const char *view;
		uint64_t whole;
	} parts[] = {
		{"peak", totals->peak_bytes},
		{"unfreed", totals->live_bytes},
		{"allocations", totals->allocations},
		{"temporary", totals->temporary},
	};
	report_totals(report, out);
	if (report->options.by_function)
		return put_functions(report, out, err);
	int code = 0;
	for (size_t i = 0; !code && i < sizeof parts / sizeof parts[0]; i++)
		code = put_view(report, out, parts[i].view, parts[i].whole, err);
	return code;
}

void report_stack_lines(const struct report *report, struct out *out)
{
	size_t count;
	const struct view_stack_row *rows = view_stacks(report->data, &count);
	for (size_t i = 0; i < count; i++) {
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
