/* SPDX-License-Identifier: Apache-2.0 */
/* The report for machines. docs/report-json.md describes it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/report_put.h"
#include "cli/report_sections.h"
#include "cli/report_totals.h"
#include "views/origin.h"
#include "views/to_json.h"

static void put_text(struct json *json, const char *key, const char *text)
{
	json_string(json, key, text && text[0] ? text : NULL);
}

/* What was run, its totals, how the recording went, and what the resident set was made of. */
static void put_facts(const struct report *report, struct json *json)
{
	view_json_run(json, &report->input, &report->totals);
	view_json_totals(json, &report->input, &report->totals);
	view_json_recording(json, &report->input);
	put_text(json, "warning", report_warning(report));
	json_u64(json, "section", report->section);
	json_u64(json, "section_count", report->section_count);
	view_json_rss(json, "rss", &report->rss);
	view_json_moments(json, report->query, 0, UINT64_MAX);
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
	view_json_figures(json, &report->sum);
	json_end(json);
	text_done(&way);
}

static int put_section(const struct report *report, const struct report_section *section,
		       struct json *json, struct tm_error *err)
{
	if (!view_unknown_why(report->input.meta, section->needs))
		return section->json(report, section, json, err);
	json_null(json, section->key);
	return 0;
}

/* Those that are always there, and those that were asked for. */
static int put_sections(const struct report *report, struct json *json, struct tm_error *err)
{
	static const char *const always[] = {"peak", "unfreed", "allocations", "temporary"};
	const struct report_options *options = report->options;
	int code = 0;
	for (size_t i = 0; !code && i < sizeof always / sizeof always[0]; i++) {
		const struct report_section *section = report_section_find(always[i]);
		code = put_section(report, section, json, err);
	}
	for (size_t i = 0; !code && i < options->section_count; i++) {
		const struct report_section *section = options->sections[i];
		bool done = !section->key;
		for (size_t k = 0; k < sizeof always / sizeof always[0]; k++)
			done |= !strcmp(section->name, always[k]);
		if (!done)
			code = put_section(report, section, json, err);
	}
	return code;
}

int report_json(const struct report *report, struct json *json, struct tm_error *err)
{
	json_begin_object(json, NULL);
	put_facts(report, json);
	suppressed_json(&report->suppressed, json);
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
