/* SPDX-License-Identifier: Apache-2.0 */
/* The report for machines. docs/report-json.md describes it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/report_put.h"
#include "cli/report_sections.h"
#include "cli/report_totals.h"

static void put_text(struct json *json, const char *key, const char *text)
{
	json_string(json, key, text && text[0] ? text : NULL);
}

static void put_start_time(struct json *json, uint64_t unix_ns)
{
	time_t seconds = (time_t)(unix_ns / 1000000000u);
	struct tm utc;
	char day[64], whole[96];
	if (!unix_ns || !gmtime_r(&seconds, &utc) ||
	    !strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &utc)) {
		json_null(json, "start_time");
		return;
	}
	snprintf(whole, sizeof whole, "%s.%09" PRIu64 "Z", day, unix_ns % 1000000000u);
	json_string(json, "start_time", whole);
}

static void put_run(const struct report *report, struct json *json)
{
	const struct trace_meta *meta = report->input.meta;
	const struct trace_end *end = report->input.end;
	int status = 0, signal_number = report_signal(end);
	bool ended = report_exit_status(end, &status);
	put_text(json, "program", meta->program);
	put_text(json, "command", meta->command);
	json_u64(json, "pid", meta->pid);
	put_start_time(json, meta->start_unix_ns);
	json_u64(json, "duration_ns", report_duration_ns(report));
	put_text(json, "mode", meta->mode);
	json_string(json, "end", report_end_name(end->cause));
	put_json_known(json, "exit_status", ended, (uint64_t)status);
	put_json_known(json, "signal", signal_number > 0, (uint64_t)signal_number);
	json_u64(json, "threads", report->input.thread_count);
}

static void put_totals(const struct report *report, struct json *json)
{
	const struct model_totals *totals = &report->totals;
	bool sampled = totals->peak_rss_bytes > 0;
	json_u64(json, "allocations", totals->allocations);
	json_u64(json, "frees", totals->frees);
	json_u64(json, "allocated_bytes", totals->allocated_bytes);
	json_u64(json, "temporary_allocations", totals->temporary);
	json_u64(json, "peak_bytes", totals->peak_bytes);
	json_u64(json, "peak_allocations", totals->peak_blocks);
	json_u64(json, "peak_time_ns", totals->peak_time_ns);
	json_u64(json, "unfreed_allocations", totals->live_blocks);
	json_u64(json, "unfreed_bytes", totals->live_bytes);
	json_u64(json, "inherited_allocations", report->input.meta->inherited_blocks);
	json_u64(json, "inherited_bytes", report->input.meta->inherited_bytes);
	json_u64(json, "failed_allocations", totals->failed);
	json_u64(json, "freed_unseen", totals->freed_unseen);
	json_u64(json, "freed_older", totals->freed_older);
	put_json_known(json, "peak_rss_bytes", sampled, totals->peak_rss_bytes);
	put_json_known(json, "peak_rss_time_ns", sampled, totals->peak_rss_time_ns);
	json_u64(json, "mapped_peak_bytes", totals->mapped_peak_bytes);
	json_u64(json, "reserved_peak_bytes", totals->reserved_peak_bytes);
	json_u64(json, "file_mapped_peak_bytes", totals->file_mapped_peak_bytes);
	json_u64(json, "brk_peak_bytes", totals->brk_peak_bytes);
	json_bool(json, "saturated", totals->saturated);
	json_u64(json, "stacks", totals->stacks);
	json_u64(json, "events", totals->events);
}

static void put_recording(const struct report *report, struct json *json)
{
	const struct trace_meta *meta = report->input.meta;
	const struct trace_end *end = report->input.end;
	json_u64(json, "lost_events", end->lost_events);
	json_u64(json, "events_not_stored", end->events_not_stored);
	json_u64(json, "cut_stacks", end->cut_stacks);
	json_u64(json, "frame_pointer_frames", end->fp_frames);
	json_u64(json, "waited_ns", end->waited_ns);
	json_u64(json, "agent_bytes", end->agent_bytes);
	json_u64(json, "collector_cpu_ns", end->collector_cpu_ns);
	json_u64(json, "collector_bytes", end->collector_bytes);
	json_u64(json, "children_not_recorded", end->children_not_recorded);
	put_text(json, "note", end->note);
	put_text(json, "warning", report_warning(report));
	put_text(json, "tool_version", meta->tool_version);
	put_text(json, "source", meta->source);
	put_text(json, "host", meta->host);
	json_u64(json, "section", report->section);
	json_u64(json, "section_count", report->section_count);
}

/* With one decimal, rounded down: 100 means all of it. */
static double percent_of(uint64_t part, uint64_t whole)
{
	uint64_t tenths = (uint64_t)((double)part / (double)whole * 1000);
	return (double)tenths / 10;
}

static void put_rss(const struct view_rss *rss, struct json *json)
{
	if (!rss->known) {
		json_null(json, "rss");
		return;
	}
	json_begin_object(json, "rss");
	json_u64(json, "rss_bytes", rss->rss_bytes);
	json_u64(json, "heap_bytes", rss->heap_bytes);
	json_u64(json, "mapped_bytes", rss->mapped_bytes);
	json_u64(json, "agent_bytes", rss->agent_bytes);
	json_i64(json, "rest_bytes", rss->rest_bytes);
	bool known = rss->anonymous_bytes > 0;
	put_json_known(json, "anonymous_bytes", known, rss->anonymous_bytes);
	put_json_known(json, "explained_bytes", known, rss->explained_bytes);
	if (known)
		json_double(json, "explained_percent",
			    percent_of(rss->explained_bytes, rss->anonymous_bytes));
	else
		json_null(json, "explained_percent");
	json_string(json, "cause", rss->cause);
	json_string(json, "advice", rss->advice);
	json_end(json);
}

/* Of attached recordings: what is live at detach, by age. */
static int put_ages(const struct report *report, struct json *json, struct tm_error *err)
{
	struct report_age ages[REPORT_AGES];
	if (!report_is_attached(report)) {
		json_null(json, "ages");
		return 0;
	}
	int code = report_ages(report, ages, err);
	if (code)
		return code;
	json_begin_array(json, "ages");
	for (size_t i = 0; i < REPORT_AGES; i++) {
		json_begin_object(json, NULL);
		put_json_known(json, "below_ns", ages[i].below_ns != UINT64_MAX, ages[i].below_ns);
		json_u64(json, "unfreed_allocations", ages[i].blocks);
		json_u64(json, "unfreed_bytes", ages[i].bytes);
		json_end(json);
	}
	json_end(json);
	return 0;
}

/* What the figures below are of. */
static void put_selection(const struct report *report, struct json *json)
{
	const struct report_options *options = report->options;
	const struct query_answer *answer = &report->answer;
	if (!report->is_part) {
		json_null(json, "selection");
		return;
	}
	struct text way = {0};
	query_answer_explain(&way, answer);
	json_begin_object(json, "selection");
	json_u64(json, "from_ns", answer->from_ns);
	json_u64(json, "to_ns", answer->to_ns);
	put_text(json, "filter", options->filter);
	json_string(json, "found_by", text_string(&way));
	json_u64(json, "event_blocks_read", answer->event_blocks);
	json_u64(json, "unread_events", answer->unread_events);
	json_bool(json, "snapped", answer->snapped);
	json_u64(json, "start_allocations", answer->totals.start_blocks);
	json_u64(json, "start_bytes", answer->totals.start_bytes);
	json_u64(json, "heap_peak_bytes", answer->peak_bytes);
	json_u64(json, "heap_peak_allocations", answer->peak_blocks);
	json_u64(json, "heap_peak_time_ns", answer->peak_time_ns);
	put_json_figures(json, &report->sum);
	json_end(json);
	text_done(&way);
}

/* Those that are always there, and those that were asked for. */
static int put_sections(const struct report *report, struct json *json, struct tm_error *err)
{
	static const char *const always[] = {"peak", "unfreed", "allocations", "temporary"};
	const struct report_options *options = report->options;
	int code = 0;
	for (size_t i = 0; !code && i < sizeof always / sizeof always[0]; i++) {
		const struct report_section *section = report_section_find(always[i]);
		code = section->json(report, section, json, err);
	}
	for (size_t i = 0; !code && i < options->section_count; i++) {
		const struct report_section *section = options->sections[i];
		bool done = !section->key;
		for (size_t k = 0; k < sizeof always / sizeof always[0]; k++)
			done |= !strcmp(section->name, always[k]);
		if (!done)
			code = section->json(report, section, json, err);
	}
	return code;
}

int report_json(const struct report *report, struct json *json, struct tm_error *err)
{
	json_begin_object(json, NULL);
	put_run(report, json);
	put_totals(report, json);
	put_recording(report, json);
	suppressed_json(&report->suppressed, json);
	put_rss(&report->rss, json);
	int code = put_ages(report, json, err);
	put_selection(report, json);
	if (!code)
		code = put_sections(report, json, err);
	if (!code && report->options->stacks)
		report_stacks_json(report, json);
	json_u64(json, "bytes_read", trace_reader_bytes_read(report->reader));
	json_u64(json, "file_bytes", trace_reader_file_bytes(report->reader));
	json_end(json);
	return code;
}

int report_summary_json(const struct report *report, const struct report_section *section,
			struct json *json, struct tm_error *err)
{
	/* Its keys stand at the top of every report. */
	(void)report;
	(void)section;
	(void)json;
	(void)err;
	return 0;
}

/* "key,value" lines of all totals: the JSON of the summary, taken apart. */
int report_summary_csv(const struct report *report, const struct report_section *section,
		       struct text *out, struct tm_error *err)
{
	(void)section;
	(void)err;
	const struct model_totals *t = &report->totals;
	const struct {
		const char *key;
		uint64_t value;
	} rest[] = {
		{"duration_ns", report_duration_ns(report)},
		{"peak_time_ns", t->peak_time_ns},
		{"threads", report->input.thread_count},
		{"stacks", t->stacks},
		{"events", t->events},
		{"freed_unseen", t->freed_unseen},
		{"freed_older", t->freed_older},
		{"peak_rss_bytes", t->peak_rss_bytes},
		{"mapped_peak_bytes", t->mapped_peak_bytes},
		{"lost_events", report->input.end->lost_events},
	};
	text_put(out, "key,value\n");
	for (size_t i = 0; i < VIEW_FIGURE_COUNT; i++)
		text_print(out, "%s,%" PRIu64 "\n", view_columns[i].key, report->sum.of[i]);
	for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++)
		text_print(out, "%s,%" PRIu64 "\n", rest[i].key, rest[i].value);
	return 0;
}
