/* SPDX-License-Identifier: Apache-2.0 */
/* The report for machines. docs/report-json.md describes it. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "cli/report.h"

enum { STACKS_PER_SITE = 5 };

static void put_known(struct json *json, const char *key, bool known, uint64_t value)
{
	if (known)
		json_u64(json, key, value);
	else
		json_null(json, key);
}

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
	put_known(json, "exit_status", ended, (uint64_t)status);
	put_known(json, "signal", signal_number > 0, (uint64_t)signal_number);
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
	json_u64(json, "failed_allocations", totals->failed);
	json_u64(json, "freed_unseen", totals->freed_unseen);
	json_u64(json, "freed_older", totals->freed_older);
	put_known(json, "peak_rss_bytes", sampled, totals->peak_rss_bytes);
	put_known(json, "peak_rss_time_ns", sampled, totals->peak_rss_time_ns);
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
	put_known(json, "anonymous_bytes", known, rss->anonymous_bytes);
	put_known(json, "explained_bytes", known, rss->explained_bytes);
	if (known)
		json_double(json, "explained_percent",
			    percent_of(rss->explained_bytes, rss->anonymous_bytes));
	else
		json_null(json, "explained_percent");
	json_string(json, "cause", rss->cause);
	json_string(json, "advice", rss->advice);
	json_end(json);
}

static void put_figures(struct json *json, const struct view_figures *figures)
{
	for (size_t i = 0; i < VIEW_FIGURE_COUNT; i++)
		json_u64(json, view_columns[i].key, figures->of[i]);
}

static void put_frame(struct json *json, const struct view_frame *frame)
{
	static const char *const sources[] = {
		[TRACE_SYM_NONE] = "none",     [TRACE_SYM_DWARF] = "dwarf",
		[TRACE_SYM_SYMTAB] = "symtab", [TRACE_SYM_DYNSYM] = "dynsym",
		[TRACE_SYM_JIT] = "jit",
	};
	char address[32];
	snprintf(address, sizeof address, "0x%" PRIx64, frame->address);
	json_begin_object(json, NULL);
	json_string(json, "function", frame->function);
	json_string(json, "module", frame->module);
	json_string(json, "address", address);
	json_string(json, "file", frame->file);
	put_known(json, "line", frame->line > 0, frame->line);
	put_known(json, "column", frame->column > 0, frame->column);
	json_bool(json, "inlined", frame->inlined);
	json_string(json, "source",
		    frame->source <= TRACE_SYM_JIT ? sources[frame->source] : "none");
	json_end(json);
}

static void put_stack(const struct report *report, struct json *json,
		      const struct view_stack_row *row, bool numbered)
{
	json_begin_object(json, NULL);
	if (numbered)
		json_u64(json, "stack_id", row->stack);
	put_figures(json, &row->figures);
	json_begin_array(json, "frames");
	uint32_t cursor = row->stack;
	const struct view_frame *frame;
	while ((frame = view_next_frame(report->data, &cursor)))
		put_frame(json, frame);
	json_end(json);
	json_end(json);
}

static size_t shown(uint64_t limit, size_t count)
{
	return limit && limit < count ? (size_t)limit : count;
}

static int put_sites(const struct report *report, struct json *json, const char *name,
		     const char *key, struct tm_error *err)
{
	struct view_rows rows;
	int code = view_fill(view_find(name), report->data, &rows, err);
	if (code)
		return code;
	json_begin_array(json, key);
	for (size_t i = 0; i < shown(report->options.limit, rows.count); i++) {
		const struct view_row *row = &rows.rows[i];
		json_begin_object(json, NULL);
		json_string(json, "function", row->function);
		json_string(json, "module", row->module);
		put_figures(json, &row->self);
		json_u64(json, "stack_count", row->stack_count);
		json_begin_array(json, "stacks");
		for (size_t k = 0; k < row->stack_count && k < STACKS_PER_SITE; k++)
			put_stack(report, json, &row->stacks[k], false);
		json_end(json);
		json_end(json);
	}
	json_end(json);
	view_rows_done(&rows);
	return 0;
}

static int put_functions(const struct report *report, struct json *json, struct tm_error *err)
{
	struct view_rows rows;
	int code = view_fill(view_find("functions"), report->data, &rows, err);
	if (code)
		return code;
	json_begin_array(json, "functions");
	for (size_t i = 0; i < shown(report->options.function_limit, rows.count); i++) {
		json_begin_object(json, NULL);
		json_string(json, "function", rows.rows[i].function);
		json_string(json, "module", rows.rows[i].module);
		json_begin_object(json, "self");
		put_figures(json, &rows.rows[i].self);
		json_end(json);
		json_begin_object(json, "inclusive");
		put_figures(json, &rows.rows[i].inclusive);
		json_end(json);
		json_end(json);
	}
	json_end(json);
	view_rows_done(&rows);
	return 0;
}

static void put_all_stacks(const struct report *report, struct json *json)
{
	size_t count;
	const struct view_stack_row *rows = view_stacks(report->data, &count);
	json_begin_array(json, "stack_list");
	for (size_t i = 0; i < count; i++)
		put_stack(report, json, &rows[i], true);
	json_end(json);
}

int report_json(const struct report *report, struct json *json, struct tm_error *err)
{
	static const struct {
		const char *view, *key;
	} tops[] = {
		{"peak", "top_peak"},
		{"unfreed", "top_unfreed"},
		{"allocations", "top_allocations"},
		{"temporary", "top_temporary"},
	};
	json_begin_object(json, NULL);
	put_run(report, json);
	put_totals(report, json);
	put_recording(report, json);
	put_rss(&report->rss, json);
	int code = 0;
	for (size_t i = 0; !code && i < sizeof tops / sizeof tops[0]; i++)
		code = put_sites(report, json, tops[i].view, tops[i].key, err);
	if (!code && report->options.by_function)
		code = put_functions(report, json, err);
	if (!code && report->options.stacks)
		put_all_stacks(report, json);
	json_u64(json, "bytes_read", trace_reader_bytes_read(report->reader));
	json_u64(json, "file_bytes", trace_reader_file_bytes(report->reader));
	json_end(json);
	return code;
}
