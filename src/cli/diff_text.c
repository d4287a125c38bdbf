/* SPDX-License-Identifier: Apache-2.0 */
/* The sections of `tidemark diff` about totals, sites and functions. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/comparison.h"
#include "cli/grid.h"
#include "cli/report_put.h"
#include "trace/weight.h"
#include "views/origin.h"
#include "views/to_json.h"

enum { STACKS_TEXT = 2, STACKS_JSON = 5 };

/* ---- summary ---- */

static void put_side(struct out *out, const char *label, const struct side *side)
{
	out_style(out, OUT_BOLD);
	text_put(&out->text, label);
	out_style(out, OUT_PLAIN);
	text_put_char(&out->text, ' ');
	out_name(out, side->path, 0);
	text_put(&out->text, ": ");
	out_name(out, side->input.meta->command ? side->input.meta->command : "?",
		 out->width > 60 ? out->width - 40 : 0);
	if (side->is_part)
		text_print(&out->text, ", %s to %s", units_duration(side->from_ns).text,
			   units_duration(side->to_ns).text);
	text_put_char(&out->text, '\n');
	if (side->input.sample_bytes)
		text_print(
			&out->text,
			"  sampled, a block every %s bytes%s: figures are estimates, and ± is the "
			"standard error of a change\n",
			units_grouped(side->input.sample_bytes).text,
			side->input.sample_bytes == side->input.meta->sample_bytes ? ""
										   : " at most");
	const char *warning = side_warning(side);
	if (warning)
		out_paragraph(out, 2, warning);
}

int comparison_summary_text(const struct comparison *c, const struct comparison_section *section,
			    struct tm_error *err)
{
	static const struct grid_column columns[] = {
		{"", GRID_LEFT, OUT_DIM, 0},         {"before", GRID_RIGHT, OUT_PLAIN, 0},
		{"after", GRID_RIGHT, OUT_PLAIN, 0}, {"change", GRID_RIGHT, OUT_FIGURE, 0},
		{"", GRID_RIGHT, OUT_PLAIN, 0},
	};
	struct grid grid = {.columns = columns, .column_count = 5};
	struct comparison_value value;
	struct text unknown = {0};
	(void)section;
	(void)err;
	put_side(c->out, "before", &c->before);
	put_side(c->out, "after ", &c->after);
	if (c->scale_words)
		text_print(&c->out->text,
			   "What was counted before is scaled by %.4g, to as much %s as after.\n",
			   c->scale, c->scale_words);
	text_put_char(&c->out->text, '\n');
	for (size_t i = 0; comparison_total(c, i, &value); i++) {
		if (!value.before_known && !value.after_known)
			text_print(&unknown, "%s%s", unknown.length ? ", " : "", value.title);
		if ((!value.before || !value.before_known) && (!value.after || !value.after_known))
			continue;
		grid_cell(&grid, "%s", value.title);
		grid_cell(&grid, "%s", comparison_before(&value).text);
		grid_cell(&grid, "%s", comparison_after(&value).text);
		grid_cell(&grid, "%s%s", comparison_change(&value).text,
			  comparison_error(&value).text);
		grid_cell(&grid, "%s", comparison_percent(&value).text);
	}
	grid_print(&grid, c->out, 0);
	grid_done(&grid);
	if (unknown.length)
		text_print(&c->out->text, "Not known of either: %s.\n", text_string(&unknown));
	text_done(&unknown);
	return 0;
}

static void json_side(struct json *json, const char *key, const struct side *side)
{
	json_begin_object(json, key);
	json_string(json, "file", side->path);
	json_string(json, "program", side->input.meta->program);
	json_string(json, "command", side->input.meta->command);
	json_u64(json, "pid", side->input.meta->pid);
	json_u64(json, "from_ns", side->from_ns);
	json_u64(json, "to_ns", side->to_ns);
	json_string(json, "warning", side_warning(side));
	json_end(json);
}

int comparison_summary_json(const struct comparison *c, const struct comparison_section *section,
			    struct json *json, struct tm_error *err)
{
	struct comparison_value value;
	(void)err;
	json_begin_object(json, section->name);
	json_side(json, "before", &c->before);
	json_side(json, "after", &c->after);
	json_double(json, "scale", c->scale);
	json_begin_object(json, "totals");
	for (size_t i = 0; comparison_total(c, i, &value); i++) {
		json_begin_object(json, value.key);
		put_json_known(json, "before", value.before_known, value.before);
		put_json_known(json, "after", value.after_known, value.after);
		if (value.before_error > 0 || value.after_error > 0) {
			json_u64(json, "before_error", (uint64_t)value.before_error);
			json_u64(json, "after_error", (uint64_t)value.after_error);
		}
		json_end(json);
	}
	json_end(json);
	json_end(json);
	return 0;
}

/* ---- sites with their stacks ---- */

static bool knows(const struct side *side, enum view_figure figure)
{
	return !view_unknown_why(side->input.meta, view_figure_needs(figure));
}

static struct comparison_value value_of(const struct comparison *c, const struct diff_row *row,
					enum view_figure figure)
{
	bool is_bytes = view_columns[figure].unit == VIEW_UNIT_BYTES;
	enum view_figure partner = view_columns[figure].partner;
	uint64_t before = row->before.of[figure], after = row->after.of[figure];
	return (struct comparison_value){
		.unit = is_bytes ? VALUE_BYTES : VALUE_COUNT,
		.before_known = knows(&c->before, figure),
		.after_known = knows(&c->after, figure),
		.before = before,
		.after = after,
		.before_error = is_bytes ? view_error_bytes(&c->before.input, before,
							    row->before.of[partner])
					 : 0,
		.after_error =
			is_bytes ? view_error_bytes(&c->after.input, after, row->after.of[partner])
				 : 0,
	};
}

/* Rows that changed, up to the limit. */
static size_t changed(const struct diff_rows *rows, enum view_figure figure)
{
	size_t count = 0;
	for (size_t i = 0; i < rows->count; i++)
		count += diff_state(&rows->rows[i], figure) != DIFF_SAME;
	return count;
}

static void put_change(struct out *out, const struct comparison_value *value)
{
	out_style(out, OUT_FIGURE);
	text_print(&out->text, "%10s", comparison_change(value).text);
	out_style(out, OUT_PLAIN);
	text_put(&out->text, comparison_error(value).text);
	text_print(&out->text, " %10s  %s to %s", comparison_percent(value).text,
		   comparison_before(value).text, comparison_after(value).text);
}

static void put_stack(const struct comparison *c, const struct diff_row *row)
{
	const struct view_frame *frame;
	const struct view_data *data = row->after_stack ? c->after.data : c->before.data;
	uint32_t cursor = row->after_stack ? row->after_stack : row->before_stack;
	unsigned shown = 0;
	bool at_root = false;
	while (!at_root && shown < c->frames && (frame = view_next_frame(data, &cursor))) {
		struct text place = {0};
		at_root = frame->is_root;
		text_put_repeated(&c->out->text, ' ', 8);
		put_frame_name(c->out, frame, c->out->width > 60 ? c->out->width - 40 : 0);
		put_frame_place(&place, frame);
		if (place.length) {
			out_style(c->out, OUT_DIM);
			text_print(&c->out->text, "  %s", text_string(&place));
			out_style(c->out, OUT_PLAIN);
		}
		text_done(&place);
		text_put_char(&c->out->text, '\n');
		shown++;
	}
}

static void put_site(const struct comparison *c, const struct diff_row *site,
		     enum view_figure figure)
{
	struct out *out = c->out;
	struct comparison_value value = value_of(c, site, figure);
	size_t count, shown = 0;
	const struct diff_row *stacks = diff_stacks(c->diff, site, &count);
	put_change(out, &value);
	text_put(&out->text, "  ");
	out_style(out, OUT_BOLD);
	out_name(out, site->name, out->width > 80 ? out->width - 55 : 0);
	out_style(out, OUT_PLAIN);
	text_put_char(&out->text, '\n');
	for (size_t i = 0; i < count && shown < STACKS_TEXT; i++) {
		if (diff_state(&stacks[i], figure) == DIFF_SAME)
			continue;
		if (count > 1) {
			value = value_of(c, &stacks[i], figure);
			text_print(&out->text, "    %s%s, %s to %s, from\n",
				   comparison_change(&value).text, comparison_error(&value).text,
				   comparison_before(&value).text, comparison_after(&value).text);
		}
		put_stack(c, &stacks[i]);
		shown++;
	}
}

static void sort(const struct comparison *c, struct diff *diff, enum view_figure figure)
{
	const struct diff_order order = {.figure = figure, .sort = c->sort};
	diff_sort(diff, &order);
}

int comparison_sites_text(const struct comparison *c, const struct comparison_section *section,
			  struct tm_error *err)
{
	enum view_figure figure = section->figure;
	const struct diff_rows *sites = &c->diff->sites;
	char title[80];
	size_t count = changed(sites, figure), shown = 0;
	(void)err;
	if (!count)
		return 0;
	sort(c, c->diff, figure);
	snprintf(title, sizeof title, "Change of '%s', by site", section->name);
	put_heading(c->out, title, count < c->limit ? count : c->limit, count);
	for (size_t i = 0; i < sites->count && shown < c->limit; i++) {
		if (diff_state(&sites->rows[i], figure) == DIFF_SAME)
			continue;
		put_site(c, &sites->rows[i], figure);
		shown++;
	}
	return 0;
}

static void json_of_side(struct json *json, const char *key, const struct side *side,
			 const struct view_figures *figures)
{
	json->sample_bytes = side->input.sample_bytes;
	json_begin_object(json, key);
	for (unsigned i = 0; i < VIEW_FIGURE_COUNT; i++) {
		const struct view_column *column = &view_columns[i];
		put_json_known(json, column->key, knows(side, i), figures->of[i]);
		if (column->unit == VIEW_UNIT_BYTES && knows(side, i))
			view_json_error(json, column->key, figures->of[i],
					figures->of[column->partner]);
	}
	json_end(json);
}

static void json_figures(const struct comparison *c, struct json *json, const struct diff_row *row,
			 enum view_figure figure)
{
	json_string(json, "state", diff_state_name(diff_state(row, figure)));
	json_i64(json, "change", (int64_t)(row->after.of[figure] - row->before.of[figure]));
	const struct comparison_value value = value_of(c, row, figure);
	double error = trace_joint_error(value.before_error, value.after_error);
	if (error > 0)
		json_u64(json, "change_error", (uint64_t)error);
	if (row->before.of[figure])
		json_double(json, "change_percent",
			    100 * diff_change(row, figure) / (double)row->before.of[figure]);
	else
		json_null(json, "change_percent");
	json_of_side(json, "before", &c->before, &row->before);
	json_of_side(json, "after", &c->after, &row->after);
}

static void json_frames(const struct comparison *c, struct json *json, const struct diff_row *row)
{
	const struct view_data *data = row->after_stack ? c->after.data : c->before.data;
	uint32_t cursor = row->after_stack ? row->after_stack : row->before_stack;
	const struct view_frame *frame;
	json_begin_array(json, "frames");
	while ((frame = view_next_frame(data, &cursor))) {
		json_begin_object(json, NULL);
		put_json_frame(json, frame);
		json_end(json);
	}
	json_end(json);
}

static void json_site(const struct comparison *c, struct json *json, const struct diff_row *site,
		      enum view_figure figure)
{
	size_t count, shown = 0;
	const struct diff_row *stacks = diff_stacks(c->diff, site, &count);
	json_begin_object(json, NULL);
	json_string(json, "name", site->name);
	json_figures(c, json, site, figure);
	json_u64(json, "stack_count", count);
	json_begin_array(json, "stacks");
	for (size_t i = 0; i < count && shown < STACKS_JSON; i++) {
		if (diff_state(&stacks[i], figure) == DIFF_SAME)
			continue;
		json_begin_object(json, NULL);
		json_figures(c, json, &stacks[i], figure);
		json_frames(c, json, &stacks[i]);
		json_end(json);
		shown++;
	}
	json_end(json);
	json_end(json);
}

int comparison_sites_json(const struct comparison *c, const struct comparison_section *section,
			  struct json *json, struct tm_error *err)
{
	const struct diff_rows *sites = &c->diff->sites;
	size_t shown = 0;
	(void)err;
	sort(c, c->diff, section->figure);
	json_begin_array(json, section->name);
	for (size_t i = 0; i < sites->count && shown < c->limit; i++) {
		if (diff_state(&sites->rows[i], section->figure) == DIFF_SAME)
			continue;
		json_site(c, json, &sites->rows[i], section->figure);
		shown++;
	}
	json_end(json);
	return 0;
}

/* ---- flat lists ---- */

static int make_flat(const struct comparison *c, const struct comparison_section *section,
		     struct diff **ret_diff, struct tm_error *err)
{
	int code =
		diff_flat(c->before.data, c->after.data, view_find(section->view), ret_diff, err);
	if (code)
		return code;
	if (c->scale != 1)
		diff_scale(*ret_diff, c->scale);
	sort(c, *ret_diff, section->figure);
	return 0;
}

static bool changed_at_all(const struct diff_row *row)
{
	for (unsigned i = 0; i < VIEW_FIGURE_COUNT; i++)
		if (row->before.of[i] != row->after.of[i])
			return true;
	return false;
}

int comparison_flat_text(const struct comparison *c, const struct comparison_section *section,
			 struct tm_error *err)
{
	static const struct grid_column columns[] = {
		{"peak", GRID_RIGHT, OUT_FIGURE, 0},    {"", GRID_RIGHT, OUT_PLAIN, 0},
		{"unfreed", GRID_RIGHT, OUT_PLAIN, 80}, {"allocated", GRID_RIGHT, OUT_PLAIN, 100},
		{"calls", GRID_RIGHT, OUT_PLAIN, 0},    {"", GRID_NAME, OUT_PLAIN, 0},
	};
	static const enum view_figure figures[] = {VIEW_UNFREED_BYTES, VIEW_ALLOCATED_BYTES,
						   VIEW_ALLOCATIONS};
	struct grid grid = {.columns = columns, .column_count = 6};
	struct diff *diff;
	size_t count = 0, shown = 0;
	int code = make_flat(c, section, &diff, err);
	if (code)
		return code;
	for (size_t i = 0; i < diff->sites.count; i++)
		count += changed_at_all(&diff->sites.rows[i]);
	char title[80];
	snprintf(title, sizeof title, "Change of %s, with what is below them", section->name);
	if (count)
		put_heading(c->out, title, count < c->limit ? count : c->limit, count);
	for (size_t i = 0; i < diff->sites.count && shown < c->limit; i++) {
		const struct diff_row *row = &diff->sites.rows[i];
		if (!changed_at_all(row))
			continue;
		struct comparison_value value = value_of(c, row, VIEW_PEAK_BYTES);
		grid_cell(&grid, "%s%s", comparison_change(&value).text,
			  comparison_error(&value).text);
		grid_cell(&grid, "%s", comparison_percent(&value).text);
		for (size_t k = 0; k < 3; k++) {
			value = value_of(c, row, figures[k]);
			grid_cell(&grid, "%s%s", comparison_change(&value).text,
				  comparison_error(&value).text);
		}
		grid_cell(&grid, "%s", row->name);
		shown++;
	}
	grid_print(&grid, c->out, 0);
	grid_done(&grid);
	diff_free(diff);
	return 0;
}

int comparison_flat_json(const struct comparison *c, const struct comparison_section *section,
			 struct json *json, struct tm_error *err)
{
	struct diff *diff;
	size_t shown = 0;
	int code = make_flat(c, section, &diff, err);
	if (code)
		return code;
	json_begin_array(json, section->name);
	for (size_t i = 0; i < diff->sites.count && shown < c->limit; i++) {
		const struct diff_row *row = &diff->sites.rows[i];
		if (!changed_at_all(row))
			continue;
		json_begin_object(json, NULL);
		json_string(json, "name", row->name);
		json_figures(c, json, row, section->figure);
		json_end(json);
		shown++;
	}
	json_end(json);
	diff_free(diff);
	return 0;
}
