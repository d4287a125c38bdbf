/* SPDX-License-Identifier: Apache-2.0 */
/* From an open trace and the options to figures: ranges, filters, folding. */
#include <errno.h>
#include <string.h>

#include "cli/progress.h"
#include "cli/range.h"
#include "cli/report.h"
#include "views/select.h"

static int parse_range(struct report *report, struct query *query, struct tm_error *err)
{
	const struct report_options *options = report->options;
	uint64_t end_ns = query_duration_ns(report->query);
	bool is_end =
		options->from && (!strcmp(options->from, "end") || !strcmp(options->from, "100%"));
	int code = range_of(report->query, options->from, options->to, &query->from_ns,
			    &query->to_ns, err);
	if (!code && options->at) {
		struct tm_error why = {0};
		code = query_time_parse(report->query, options->at, &query->to_ns, &why);
		if (code)
			return tm_fail(err, code, "--at: %s", why.text);
	}
	if (!code && options->from && !is_end && query->from_ns >= end_ns && end_ns)
		return tm_fail(err, -EINVAL, "--from %s is not before the end of the run, %s",
			       options->from, units_duration(end_ns).text);
	return code;
}

static int bind_filter(struct report *report, struct query *query, struct tm_error *err)
{
	if (!report->options->parsed)
		return 0;
	struct filter_names names = view_filter_names(report->data);
	int code = query_bind(report->query, report->options->parsed, &names, &report->bound, err);
	query->filter = report->bound;
	return code;
}

static unsigned wanted(const struct report *report)
{
	const struct report_section *sections[REPORT_SECTIONS_MAX];
	size_t count = report_chosen(report, sections);
	unsigned want = 0;
	for (size_t i = 0; i < count; i++)
		want |= sections[i]->want;
	return want;
}

static int ask(struct report *report, struct tm_error *err)
{
	const struct report_options *options = report->options;
	struct progress progress;
	struct query query = {
		.want = wanted(report),
		.progress = {.fn = progress_tell_fn, .ctx = &progress},
	};
	int code = parse_range(report, &query, err);
	report->is_part = options->from || options->to || options->at || options->parsed;
	if (code || (!report->is_part && !query.want))
		return code;
	if (report->is_part)
		query.want |= QUERY_PEAK | QUERY_KEPT;
	code = bind_filter(report, &query, err);
	if (code)
		return code;
	progress_begin(&progress, "reading events", "events");
	code = query_ask(report->query, &query, &report->answer, err);
	progress_end(&progress);
	report->is_asked = !code;
	if (!code && report->is_part)
		code = view_data_select(report->data, &report->answer, err);
	return code;
}

static void add_up(struct report *report)
{
	size_t count;
	const struct view_stack_row *rows = view_stacks(report->data, &count);
	report->sum = (struct view_figures){0};
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < VIEW_FIGURE_COUNT; k++)
			report->sum.of[k] += rows[i].figures.of[k];
}

int report_load(struct report *report, struct tm_error *err)
{
	int code = trace_reader_select(report->reader, report->section, err);
	if (!code)
		code = range_open(report->reader, &report->query, err);
	if (!code)
		code = view_input_read(report->reader, &report->input, err);
	if (code)
		return code;
	report->input.kinds = report->kinds;
	report->input.model = query_model(report->query);
	model_totals(report->input.model, &report->totals);
	code = view_data_new(&report->input, &report->data, err);
	if (code)
		return code;
	view_rss(report->data, &report->rss);
	code = ask(report, err);
	if (!code)
		code = suppressed_init(&report->suppressed, &report->options->suppressed,
				       &report->input, err);
	if (!code)
		code = suppressions_apply(report->suppressed.list, report->data, err);
	if (!code && report->options->fold)
		code = view_data_fold(report->data, report->options->fold, err);
	if (!code)
		add_up(report);
	return code;
}

void report_unload(struct report *report)
{
	if (report->is_asked)
		query_answer_done(&report->answer);
	report->is_asked = false;
	report->bound = filter_bound_free(report->bound);
	suppressed_done(&report->suppressed);
	report->data = view_data_free(report->data);
	report->query = query_close(report->query);
}
