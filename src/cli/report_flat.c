/* SPDX-License-Identifier: Apache-2.0 */
/* Flat lists: functions, source lines, packages, modules, allocators. */
#include "cli/report_flat.h"

#include <stdio.h>
#include <string.h>

#include "cli/grid.h"
#include "cli/report_put.h"
#include "cli/report_sections.h"
#include "views/to_json.h"

enum { ROWS_TEXT = 25 };

static int fill(const struct report *report, const char *name, struct view *view,
		struct view_rows *rows, struct tm_error *err)
{
	*view = report_view(report, view_find(name), report_mode(report)->bytes);
	return view_fill(view, report->data, rows, err);
}

/* What stands beside the order: its partner; of temporary blocks all blocks. */
static enum view_figure beside(enum view_figure order)
{
	enum view_figure partner = view_columns[order].partner;
	return partner == order ? VIEW_ALLOCATIONS : partner;
}

/* "bytes", "blocks", "temporary": a short head for a column. */
static const char *short_title(enum view_figure figure)
{
	if (figure == VIEW_TEMPORARY)
		return "temporary";
	return view_columns[figure].unit == VIEW_UNIT_BYTES ? "bytes" : "blocks";
}

void report_rows_text(const struct report *report, struct out *out, const struct view *view,
		      const struct report_rows_options *options)
{
	const struct view_rows *rows = options->rows;
	enum view_figure order = view->order, second = beside(order);
	enum view_figure averaged = view_columns[order].partner == order ? second : order;
	const struct grid_column columns[] = {
		{short_title(order), GRID_RIGHT, OUT_FIGURE, 0},
		{"share", GRID_RIGHT, OUT_PLAIN, 0},
		{options->with_self ? "self" : NULL, GRID_RIGHT, OUT_PLAIN,
		 options->with_self ? 0 : UINT32_MAX},
		{short_title(second), GRID_RIGHT, OUT_PLAIN, 0},
		{"average", GRID_RIGHT, OUT_PLAIN, 0},
		{options->title, GRID_NAME, OUT_PLAIN, 0},
	};
	struct grid grid = {.columns = columns, .column_count = sizeof columns / sizeof columns[0]};
	for (size_t i = 0; i < rows->count && i < options->shown; i++) {
		const struct view_row *row = &rows->rows[i];
		const struct view_figures *figures = &row->inclusive;
		struct text name = {0};
		if (row->module || row->package)
			view_row_name(&name, view, row);
		else
			text_put(&name, options->none);
		grid_cell(&grid, "%s", put_sure(report, out, figures, order).text);
		grid_cell(&grid, "%s", put_share(figures->of[order], options->whole).text);
		grid_cell(&grid, "%s", put_figure(out, &row->self, order).text);
		grid_cell(&grid, "%s", put_figure(out, figures, second).text);
		grid_cell(&grid, "%s", out_bytes(out, view_average(figures, averaged)).text);
		grid_cell(&grid, "%s", text_string(&name));
		text_done(&name);
	}
	grid_print(&grid, out, 2);
	grid_done(&grid);
}

static size_t count_used(const struct view_rows *rows, enum view_figure order)
{
	size_t count = 0;
	for (size_t i = 0; i < rows->count; i++)
		count += rows->rows[i].inclusive.of[order] > 0;
	return count;
}

int report_flat_text(const struct report *report, const struct report_section *section,
		     struct out *out, struct tm_error *err)
{
	struct view view;
	struct view_rows rows;
	int code = fill(report, section->view, &view, &rows, err);
	if (code)
		return code;
	/* Only the sort by name mixes rows with and without the figure. */
	size_t count = view.sort == VIEW_SORT_NAME ? rows.count : count_used(&rows, view.order);
	size_t shown = report_limit(report, ROWS_TEXT);
	if (shown > count)
		shown = count;
	char title[200];
	snprintf(title, sizeof title, "%s by %s: %s", view.title,
		 report_order_words(report, view.order),
		 put_sure(report, out, &report->sum, view.order).text);
	put_heading(out, title, shown, count);
	if (count)
		report_rows_text(report, out, &view,
				 &(struct report_rows_options){
					 .rows = &rows,
					 .shown = shown,
					 .whole = report->sum.of[view.order],
					 .with_self = view.group < VIEW_GROUP_ALLOCATOR,
					 .title = section->name,
					 .none = "",
				 });
	else
		text_put(&out->text, "  none\n");
	view_rows_done(&rows);
	return 0;
}

void report_rows_json(struct json *json, const char *key, const struct view_rows *rows,
		      size_t shown)
{
	json_begin_array(json, key);
	for (size_t i = 0; i < rows->count && i < shown; i++) {
		json_begin_object(json, NULL);
		put_json_row(json, &rows->rows[i]);
		view_json_flat(json, &rows->rows[i].self, &rows->rows[i].inclusive);
		json_end(json);
	}
	json_end(json);
}

int report_flat_json(const struct report *report, const struct report_section *section,
		     struct json *json, struct tm_error *err)
{
	struct view view;
	struct view_rows rows;
	int code = fill(report, section->view, &view, &rows, err);
	if (code)
		return code;
	report_rows_json(json, section->key, &rows, report_limit(report, SIZE_MAX));
	view_rows_done(&rows);
	return 0;
}

int report_flat_csv(const struct report *report, const struct report_section *section,
		    struct text *out, struct tm_error *err)
{
	struct view view;
	struct view_rows rows;
	int code = fill(report, section->view, &view, &rows, err);
	if (code)
		return code;
	size_t shown = report_limit(report, SIZE_MAX);
	text_put(out, "function,module,file,line,package,");
	put_csv_figure_keys(out, "self_");
	put_csv_figure_keys(out, "inclusive_");
	put_csv_end(out);
	for (size_t i = 0; i < rows.count && i < shown; i++) {
		const struct view_row *row = &rows.rows[i];
		put_csv_text(out, row->function);
		put_csv_text(out, row->module);
		put_csv_text(out, row->file);
		if (row->file)
			put_csv_u64(out, row->line);
		else
			put_csv_text(out, NULL);
		put_csv_text(out, row->package);
		put_csv_figures(out, &row->self);
		put_csv_figures(out, &row->inclusive);
		put_csv_end(out);
	}
	view_rows_done(&rows);
	return 0;
}
