/* SPDX-License-Identifier: Apache-2.0 */
/* --function NAME: one function, who calls it, whom it calls, and its lines. */
#include <errno.h>
#include <stdio.h>

#include "cli/report_flat.h"
#include "cli/report_put.h"
#include "cli/report_sections.h"
#include "views/callers.h"
#include "views/to_json.h"

enum { ROWS_TEXT = 15 };

static const struct view lines_view = {.flat = true, .group = VIEW_GROUP_LINE};
static const struct view functions_view = {.flat = true, .group = VIEW_GROUP_FUNCTION};

static int find(const struct report *report, struct view *view, struct view_callers *callers,
		struct tm_error *err)
{
	const char *name = report->options->function;
	*view = report_view(report, &functions_view, report_mode(report)->bytes);
	if (!name)
		return tm_fail(err, -EINVAL,
			       "the section 'callers' is about one function: name it with "
			       "--function NAME");
	struct tm_error why = {0};
	int code = view_callers_new(report->data, name, view->order, callers, &why);
	if (code == -ENOENT)
		return tm_fail(err, code, "%s; '--group function' lists those that are", why.text);
	return code ? tm_fail(err, code, "%s", why.text) : 0;
}

static void put_part(const struct report *report, struct out *out, const struct view *view,
		     const struct view_callers *callers, const struct report_rows_options *options)
{
	struct report_rows_options all = *options;
	all.shown = report_limit(report, ROWS_TEXT);
	if (all.shown > all.rows->count)
		all.shown = all.rows->count;
	all.whole = callers->inclusive.of[view->order];
	put_heading(out, options->title, all.shown, all.rows->count);
	all.title = NULL;
	report_rows_text(report, out, view, &all);
}

int report_callers_text(const struct report *report, const struct report_section *section,
			struct out *out, struct tm_error *err)
{
	(void)section;
	struct view view;
	struct view_callers callers = {0};
	int code = find(report, &view, &callers, err);
	if (code)
		return code;
	struct view lines = lines_view;
	lines.order = view.order;
	char title[200];
	snprintf(title, sizeof title, "%s: %s of %s, %s by %s",
		 callers.functions.count == 1 ? "The function" : "The functions of this name",
		 put_figure(out, &callers.inclusive, view.order).text,
		 report_order_words(report, view.order),
		 put_figure(out, &callers.self, view.order).text,
		 callers.functions.count == 1 ? "itself" : "themselves");
	size_t all = callers.functions.count, most = report_limit(report, ROWS_TEXT);
	put_heading(out, title, most < all ? most : all, all);
	report_rows_text(report, out, &view,
			 &(struct report_rows_options){
				 .rows = &callers.functions,
				 .shown = most,
				 .whole = report->sum.of[view.order],
				 .with_self = true,
				 .none = "",
			 });
	put_part(report, out, &view, &callers,
		 &(struct report_rows_options){.rows = &callers.callers,
					       .title = "Called by",
					       .none = "[nobody: stacks begin here]"});
	put_part(report, out, &view, &callers,
		 &(struct report_rows_options){.rows = &callers.callees,
					       .title = "Calls",
					       .none = "[allocates by itself]"});
	put_part(report, out, &lines, &callers,
		 &(struct report_rows_options){
			 .rows = &callers.lines, .title = "Its lines", .none = ""});
	view_callers_done(&callers);
	return 0;
}

int report_callers_json(const struct report *report, const struct report_section *section,
			struct json *json, struct tm_error *err)
{
	struct view view;
	struct view_callers callers = {0};
	int code = find(report, &view, &callers, err);
	if (code)
		return code;
	size_t shown = report_limit(report, SIZE_MAX);
	json_begin_object(json, section->key);
	report_rows_json(json, "functions", &callers.functions, shown);
	view_json_flat(json, &callers.self, &callers.inclusive);
	report_rows_json(json, "callers", &callers.callers, shown);
	report_rows_json(json, "callees", &callers.callees, shown);
	report_rows_json(json, "lines", &callers.lines, shown);
	json_end(json);
	view_callers_done(&callers);
	return 0;
}

static void put_rows(struct text *out, const char *relation, const struct view_rows *rows,
		     size_t shown)
{
	for (size_t i = 0; i < rows->count && i < shown; i++) {
		const struct view_row *row = &rows->rows[i];
		put_csv_text(out, relation);
		put_csv_text(out, row->function);
		put_csv_text(out, row->module);
		put_csv_text(out, row->file);
		if (row->file)
			put_csv_u64(out, row->line);
		else
			put_csv_text(out, NULL);
		put_csv_figures(out, &row->inclusive);
		put_csv_end(out);
	}
}

int report_callers_csv(const struct report *report, const struct report_section *section,
		       struct text *out, struct tm_error *err)
{
	(void)section;
	struct view view;
	struct view_callers callers = {0};
	int code = find(report, &view, &callers, err);
	if (code)
		return code;
	size_t shown = report_limit(report, SIZE_MAX);
	text_put(out, "relation,function,module,file,line,");
	put_csv_figure_keys(out, "");
	put_csv_end(out);
	put_rows(out, "itself", &callers.functions, shown);
	put_rows(out, "caller", &callers.callers, shown);
	put_rows(out, "callee", &callers.callees, shown);
	put_rows(out, "line", &callers.lines, shown);
	view_callers_done(&callers);
	return 0;
}
