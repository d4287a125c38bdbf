/* SPDX-License-Identifier: Apache-2.0 */
/* The heap over time: curves for the terminal, points for machines. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "cli/plot.h"
#include "cli/progress.h"
#include "cli/report_put.h"
#include "cli/report_sections.h"
#include "cli/report_totals.h"

enum { COLUMNS_MIN = 20, COLUMNS_MAX = 400, WIDTH_OF_FILES = 100, POINTS = 200 };

static int make(const struct report *report, size_t points, struct query_timeline *timeline,
		struct tm_error *err)
{
	struct progress progress;
	struct query_timeline_options options = {
		.from_ns = report->is_part ? report->answer.from_ns : 0,
		.to_ns = report->is_part ? report->answer.to_ns : query_duration_ns(report->query),
		.points = points,
		.filter = report->bound,
		.progress = {.fn = progress_tell_fn, .ctx = &progress},
	};
	/* A moment has no length: show what led to it. */
	if (report->options->at)
		options.from_ns = 0;
	progress_begin(&progress, "reading events", "events");
	int code = query_timeline(report->query, &options, timeline, err);
	progress_end(&progress);
	return code;
}

/* ---- text ---- */

enum curve { LIVE, RATE, RSS };

struct frame {
	uint64_t start_ns, end_ns;
	unsigned columns;
};

/* Columns that a span of time touches: [*ret_first, *ret_last]. */
static void columns_of(const struct frame *frame, uint64_t from_ns, uint64_t to_ns,
		       unsigned *ret_first, unsigned *ret_last)
{
	double whole = (double)(frame->end_ns - frame->start_ns);
	double scale = whole > 0 ? frame->columns / whole : 0;
	uint64_t from = from_ns > frame->start_ns ? from_ns - frame->start_ns : 0;
	uint64_t to = to_ns > frame->start_ns ? to_ns - frame->start_ns : 0;
	unsigned first = (unsigned)((double)from * scale), last = (unsigned)((double)to * scale);
	*ret_last = last < frame->columns ? last : frame->columns - 1;
	*ret_first = first < *ret_last ? first : *ret_last;
}

static void add_to_columns(const struct frame *frame, const struct query_point *point,
			   enum curve curve, uint64_t *values)
{
	unsigned first, last;
	columns_of(frame, point->start_ns, point->end_ns, &first, &last);
	for (unsigned i = first; i <= last; i++) {
		uint64_t value = curve == LIVE ? point->max_live_bytes : point->rss_bytes;
		/* A rate is shared by the columns of its span. */
		if (curve == RATE)
			values[i] += point->allocations / (last - first + 1);
		else if (value > values[i])
			values[i] = value;
	}
}

static struct units_text count_label(const struct out *out, uint64_t value)
{
	(void)out;
	return units_count(value);
}

static void put_curve(struct out *out, const struct frame *frame, enum curve curve,
		      const uint64_t *values, const struct query_point *peak)
{
	static const char *const titles[] = {
		[LIVE] = "Live bytes",
		[RATE] = "Allocations per second",
		[RSS] = "Resident set (RSS), bytes",
	};
	unsigned first, last;
	char mark[80];
	snprintf(mark, sizeof mark, "%s after %s", out_bytes(out, peak->max_live_bytes).text,
		 out_duration(out, peak->max_live_time_ns).text);
	columns_of(frame, peak->max_live_time_ns, peak->max_live_time_ns, &first, &last);
	plot_print(
		&(struct plot){
			.title = titles[curve],
			.values = values,
			.columns = frame->columns,
			.rows = curve == LIVE ? 10 : 4,
			.label = curve == RATE ? count_label : out_bytes,
			.start_ns = frame->start_ns,
			.end_ns = frame->end_ns,
			.mark = curve == LIVE ? mark : NULL,
			.mark_column = first,
		},
		out);
}

static uint64_t per_second(uint64_t count, const struct frame *frame)
{
	double seconds = (double)(frame->end_ns - frame->start_ns) / 1e9 / frame->columns;
	return seconds > 0 ? (uint64_t)((double)count / seconds) : count;
}

static int put_curves(struct out *out, const struct query_timeline *timeline,
		      const struct frame *frame)
{
	const struct query_point *peak = &timeline->points[0];
	bool has_rss = false;
	for (size_t i = 0; i < timeline->point_count; i++) {
		if (timeline->points[i].max_live_bytes > peak->max_live_bytes)
			peak = &timeline->points[i];
		has_rss |= timeline->points[i].rss_bytes > 0;
	}
	for (enum curve curve = LIVE; curve <= (has_rss ? RSS : RATE); curve++) {
		uint64_t *values = tm_alloc_array(frame->columns, sizeof *values);
		if (!values)
			return -ENOMEM;
		for (size_t i = 0; i < timeline->point_count; i++)
			add_to_columns(frame, &timeline->points[i], curve, values);
		for (unsigned i = 0; curve == RATE && i < frame->columns; i++)
			values[i] = per_second(values[i], frame);
		if (curve != LIVE)
			text_put_char(&out->text, '\n');
		put_curve(out, frame, curve, values, peak);
		tm_free(values);
	}
	return 0;
}

int report_spark(const struct report *report, unsigned columns, struct text *out,
		 struct tm_error *err)
{
	struct query_timeline timeline;
	uint64_t *values = tm_alloc_array(columns, sizeof *values);
	int code = values ? make(report, columns, &timeline, err)
			  : tm_fail(err, -ENOMEM, "out of memory");
	if (!code && timeline.point_count) {
		const struct frame frame = {
			.start_ns = timeline.points[0].start_ns,
			.end_ns = timeline.points[timeline.point_count - 1].end_ns,
			.columns = columns,
		};
		for (size_t i = 0; i < timeline.point_count; i++)
			add_to_columns(&frame, &timeline.points[i], LIVE, values);
		plot_spark(out, values, columns);
	}
	if (!code)
		query_timeline_done(&timeline);
	tm_free(values);
	return code;
}

enum { MARKS_SHOWN = 100 };

static void put_moment(struct out *out, uint64_t time_ns, const char *words)
{
	text_print(&out->text, "  %12s  ", out_duration(out, time_ns).text);
	text_put_visible(&out->text, words, strlen(words));
	text_put_char(&out->text, '\n');
}

static void put_kind(const struct report *report, const struct frame *frame, struct out *out,
		     enum trace_moment_kind kind, const char *title)
{
	size_t count, shown = 0;
	const struct trace_moment *moments = query_moments(report->query, &count);
	for (size_t i = 0; i < count && shown < MARKS_SHOWN; i++) {
		if (moments[i].kind != kind || moments[i].time_ns < frame->start_ns ||
		    moments[i].time_ns > frame->end_ns)
			continue;
		if (!shown++)
			text_print(&out->text, "\n  %s\n", title);
		put_moment(out, moments[i].time_ns, moments[i].text);
	}
}

/* The marks in what is shown, and the pauses, in which nothing was recorded but frees. */
static void put_moments(const struct report *report, const struct frame *frame, struct out *out)
{
	size_t at = 0, shown = 0;
	uint64_t start_ns, end_ns;
	put_kind(report, frame, out, TRACE_MOMENT_MARK, "Marks");
	put_kind(report, frame, out, TRACE_MOMENT_MODE, "Changes of how it was recorded");
	while (shown < MARKS_SHOWN && query_next_pause(report->query, &at, &start_ns, &end_ns)) {
		char words[80];
		if (end_ns < frame->start_ns || start_ns > frame->end_ns)
			continue;
		if (!shown++)
			text_put(&out->text, "\n  Pauses (only frees are recorded in them)\n");
		snprintf(words, sizeof words, "for %s", out_duration(out, end_ns - start_ns).text);
		put_moment(out, start_ns, words);
	}
}

int report_timeline_text(const struct report *report, const struct report_section *section,
			 struct out *out, struct tm_error *err)
{
	(void)section;
	unsigned wide = out->width ? out->width : WIDTH_OF_FILES;
	struct frame frame = {.columns = wide > PLOT_MARGIN + COLUMNS_MIN ? wide - PLOT_MARGIN
									  : COLUMNS_MIN};
	if (frame.columns > COLUMNS_MAX)
		frame.columns = COLUMNS_MAX;
	struct query_timeline timeline;
	int code = make(report, frame.columns, &timeline, err);
	if (code)
		return code;
	put_heading(out, "The heap over time", 0, 0);
	if (timeline.point_count) {
		frame.start_ns = timeline.points[0].start_ns;
		frame.end_ns = timeline.points[timeline.point_count - 1].end_ns;
		code = put_curves(out, &timeline, &frame);
		put_moments(report, &frame, out);
	} else {
		text_put(&out->text, "  nothing happened\n");
	}
	query_timeline_done(&timeline);
	return code ? tm_fail(err, code, "out of memory") : 0;
}

/* ---- JSON and CSV ---- */

static const char *const keys[] = {
	"start_ns",        "end_ns",         "live_bytes",  "live_blocks",
	"min_live_bytes",  "max_live_bytes", "allocations", "max_live_time_ns",
	"allocated_bytes", "frees",          "freed_bytes", "temporary_allocations",
	"mapped_bytes",    "rss_bytes",      "pss_bytes",
};
enum { KEYS = sizeof keys / sizeof keys[0] };

static void values_of(const struct query_point *p, uint64_t values[KEYS])
{
	const uint64_t all[KEYS] = {
		p->start_ns,        p->end_ns,         p->live_bytes,  p->live_blocks,
		p->min_live_bytes,  p->max_live_bytes, p->allocations, p->max_live_time_ns,
		p->allocated_bytes, p->frees,          p->freed_bytes, p->temporary,
		p->mapped_bytes,    p->rss_bytes,      p->pss_bytes,
	};
	for (size_t i = 0; i < KEYS; i++)
		values[i] = all[i];
}

int report_timeline_json(const struct report *report, const struct report_section *section,
			 struct json *json, struct tm_error *err)
{
	struct query_timeline timeline;
	size_t most = report_limit(report, POINTS);
	int code = make(report, most > 100000 ? 100000 : most, &timeline, err);
	if (code)
		return code;
	json_begin_array(json, section->key);
	for (size_t i = 0; i < timeline.point_count; i++) {
		uint64_t values[KEYS];
		values_of(&timeline.points[i], values);
		json_begin_object(json, NULL);
		for (size_t k = 0; k < KEYS; k++)
			json_u64(json, keys[k], values[k]);
		json_end(json);
	}
	json_end(json);
	query_timeline_done(&timeline);
	return 0;
}

int report_timeline_csv(const struct report *report, const struct report_section *section,
			struct text *out, struct tm_error *err)
{
	(void)section;
	struct query_timeline timeline;
	size_t most = report_limit(report, POINTS);
	int code = make(report, most > 100000 ? 100000 : most, &timeline, err);
	if (code)
		return code;
	for (size_t k = 0; k < KEYS; k++)
		put_csv_text(out, keys[k]);
	put_csv_end(out);
	for (size_t i = 0; i < timeline.point_count; i++) {
		uint64_t values[KEYS];
		values_of(&timeline.points[i], values);
		for (size_t k = 0; k < KEYS; k++)
			put_csv_u64(out, values[k]);
		put_csv_end(out);
	}
	query_timeline_done(&timeline);
	return 0;
}
