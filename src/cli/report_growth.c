/* SPDX-License-Identifier: Apache-2.0 */
/* Growth: which stacks will fill the memory, and when. */
#include <stdio.h>

#include "base/units.h"
#include "cli/plot.h"
#include "cli/progress.h"
#include "cli/report_put.h"
#include "cli/report_sections.h"
#include "views/growth.h"

enum { ROWS_TEXT = 10, DEPTH_TEXT = 6, INDENT = 4 };

static int make(const struct report *report, struct growth *growth, struct tm_error *err)
{
	struct progress progress;
	const struct growth_options options = {
		.from_ns = report->is_part ? report->answer.from_ns : 0,
		.to_ns = report->is_part ? report->answer.to_ns : query_duration_ns(report->query),
		.filter = report->bound,
		.limit_bytes = report->options->limit_bytes,
		.progress = {.fn = progress_tell_fn, .ctx = &progress},
	};
	progress_begin(&progress, "reading events", "events");
	int code = growth_make(report->query, report->data, &options, growth, err);
	progress_end(&progress);
	return code;
}

/* ---- text ---- */

/* "1.20 MB/s"; what falls has a minus. */
struct rate_text {
	char text[sizeof(struct units_text) + 4];
};
static struct rate_text rate(const struct out *out, double slope)
{
	struct rate_text text;
	double size = slope < 0 ? -slope : slope;
	snprintf(text.text, sizeof text.text, "%s%s/s", slope <= -0.5 ? "-" : "",
		 out_bytes(out, (uint64_t)(size + 0.5)).text);
	return text;
}

static struct units_text seconds(double full_in_s)
{
	struct units_text years;
	if (full_in_s < 1e9)
		return units_duration((uint64_t)(full_in_s * 1e9));
	snprintf(years.text, sizeof years.text, "%.0f years", full_in_s / 31556952);
	return years;
}

static const char *limit_words(enum growth_limit limit)
{
	switch (limit) {
	case GROWTH_NO_LIMIT:
		break;
	case GROWTH_LIMIT_GIVEN:
		return "the limit";
	case GROWTH_LIMIT_CGROUP:
		return "the limit of its cgroup";
	case GROWTH_LIMIT_MACHINE:
		return "the machine's memory";
	}
	return "";
}

static void put_total(const struct growth *growth, struct out *out)
{
	const struct growth_line *total = &growth->total;
	double full_in_s = growth_full_in_s(growth, total);
	text_print(&out->text, "  The heap: %s, %s to %s, %s (fit %.2f)\n",
		   growth_shape_words[total->shape], out_bytes(out, total->first_bytes).text,
		   out_bytes(out, total->last_bytes).text, rate(out, total->slope).text,
		   total->fit);
	if (full_in_s >= 0)
		text_print(&out->text,
			   "  At this rate %s, %s, is full in %s\n  (%s in use at the end)\n",
			   limit_words(growth->limit), out_bytes(out, growth->limit_bytes).text,
			   seconds(full_in_s).text, out_bytes(out, growth->used_bytes).text);
}

static void put_frames(const struct report *report, uint32_t stack, struct out *out)
{
	size_t left = report_depth(report, DEPTH_TEXT);
	const struct view_frame *frame;
	while ((frame = view_next_frame(report->data, &stack)) && left-- > 0) {
		struct text place = {0};
		text_put_repeated(&out->text, ' ', INDENT);
		put_frame_name(out, frame, 0);
		put_frame_place(&place, frame);
		text_print(&out->text, "  %s\n", text_string(&place));
		text_done(&place);
	}
}

static void put_row(const struct report *report, const struct growth *growth,
		    const struct growth_row *row, struct out *out)
{
	const struct growth_line *line = &row->line;
	double full_in_s = growth_full_in_s(growth, line);
	text_put_repeated(&out->text, ' ', 2);
	out_style(out, OUT_FIGURE);
	text_print(&out->text, "%12s", rate(out, line->slope).text);
	out_style(out, OUT_PLAIN);
	text_print(&out->text, "  %s, ", growth_shape_words[line->shape]);
	if (row->share > 0)
		text_print(&out->text, "%.1f %% of what grew, ", 100 * row->share);
	text_print(&out->text, "%s to %s\n", out_bytes(out, line->first_bytes).text,
		   out_bytes(out, line->last_bytes).text);
	text_put_repeated(&out->text, ' ', INDENT);
	text_print(&out->text, "fit %.2f", line->fit);
	if (full_in_s >= 0)
		text_print(&out->text, ", alone full in %s", seconds(full_in_s).text);
	text_put_char(&out->text, '\n');
	text_put_repeated(&out->text, ' ', INDENT);
	plot_spark(&out->text, line->bytes, (unsigned)growth->moment_count);
	text_put_char(&out->text, '\n');
	put_frames(report, row->stack, out);
}

int report_growth_text(const struct report *report, const struct report_section *section,
		       struct out *out, struct tm_error *err)
{
	struct growth growth;
	(void)section;
	int code = make(report, &growth, err);
	if (code)
		return code;
	size_t shown = report_limit(report, ROWS_TEXT);
	if (shown > growth.row_count)
		shown = growth.row_count;
	put_heading(out, "Growth, by what fills the memory first", shown, growth.row_count);
	text_print(&out->text, "  From %s to %s: without the first and the last tenth\n",
		   out_duration(out, growth.from_ns).text, out_duration(out, growth.to_ns).text);
	if (growth.moment_count < GROWTH_MOMENTS_MIN) {
		text_put(&out->text, "  too short to judge\n");
		shown = 0;
	} else {
		put_total(&growth, out);
	}
	for (size_t i = 0; i < shown; i++)
		put_row(report, &growth, &growth.rows[i], out);
	growth_done(&growth);
	return 0;
}

/* ---- for programs ---- */

int report_growth_json(const struct report *report, const struct report_section *section,
		       struct json *json, struct tm_error *err)
{
	struct growth growth;
	int code = make(report, &growth, err);
	if (code)
		return code;
	json_begin_object(json, section->key);
	growth_json(json, &growth, report->data, report_limit(report, SIZE_MAX));
	json_end(json);
	growth_done(&growth);
	return 0;
}

int report_growth_csv(const struct report *report, const struct report_section *section,
		      struct text *out, struct tm_error *err)
{
	struct growth growth;
	(void)section;
	int code = make(report, &growth, err);
	if (code)
		return code;
	size_t shown = report_limit(report, SIZE_MAX);
	text_put(out, "stack,shape,slope_bytes_per_s,fit,share,first_bytes,last_bytes,low_bytes,"
		      "high_bytes,full_in_s,function,file,line\n");
	for (size_t i = 0; i < growth.row_count && i < shown; i++) {
		const struct growth_line *line = &growth.rows[i].line;
		double full_in_s = growth_full_in_s(&growth, line);
		uint32_t cursor = growth.rows[i].stack;
		const struct view_frame *frame = view_next_frame(report->data, &cursor);
		text_print(out, "%u,%s,%.3f,%.4f,%.6f,", growth.rows[i].stack,
			   growth_shape_names[line->shape], line->slope, line->fit,
			   growth.rows[i].share);
		put_csv_u64(out, line->first_bytes);
		put_csv_u64(out, line->last_bytes);
		put_csv_u64(out, line->low_bytes);
		put_csv_u64(out, line->high_bytes);
		if (full_in_s >= 0)
			text_print(out, "%.1f", full_in_s);
		text_put_char(out, ',');
		put_csv_text(out, frame ? frame->function : NULL);
		put_csv_text(out, frame ? frame->file : NULL);
		put_csv_u64(out, frame ? frame->line : 0);
		put_csv_end(out);
	}
	growth_done(&growth);
	return 0;
}
