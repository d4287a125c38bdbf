/* SPDX-License-Identifier: Apache-2.0 */
#include "views/to_json.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "symbols/kinds.h"
#include "views/origin.h"

const char *view_end_name(const struct trace_end *end)
{
	static const char *const names[] = {
		[TRACE_END_UNKNOWN] = "unknown",
		[TRACE_END_EXIT] = "exit",
		[TRACE_END_SIGNAL] = "signal",
		[TRACE_END_EXEC] = "exec",
		[TRACE_END_DETACHED] = "detached",
		[TRACE_END_STOPPED] = "stopped",
		[TRACE_END_AGENT_OFF] = "agent_off",
		[TRACE_END_OOM] = "oom",
		[TRACE_END_DISK_FULL] = "disk_full",
		[TRACE_END_ROTATED] = "rotated",
		[TRACE_END_UNSAID] = "unsaid",
		[TRACE_END_COLLECTOR_LOST] = "collector_lost",
		[TRACE_END_DISK_ERROR] = "disk_error",
	};
	if (end->cause == TRACE_END_SIGNAL && end->status == SIGKILL)
		return "killed";
	return end->cause < sizeof names / sizeof names[0] ? names[end->cause] : "unknown";
}

int view_end_signal(const struct trace_end *end)
{
	bool killed = end->cause == TRACE_END_SIGNAL || end->cause == TRACE_END_OOM;
	return killed && end->status > 0 && end->status < 128 ? end->status : 0;
}

bool view_end_status(const struct trace_end *end, int *ret_status)
{
	int signal_number = view_end_signal(end);
	if (end->cause != TRACE_END_EXIT && !signal_number)
		return false;
	*ret_status = signal_number ? 128 + signal_number : end->status & 0xff;
	return true;
}

const char *view_source_name(uint8_t source)
{
	static const char *const names[] = {
		[TRACE_SYM_NONE] = "none",     [TRACE_SYM_DWARF] = "dwarf",
		[TRACE_SYM_SYMTAB] = "symtab", [TRACE_SYM_DYNSYM] = "dynsym",
		[TRACE_SYM_JIT] = "jit",
	};
	return source < sizeof names / sizeof names[0] ? names[source] : "none";
}

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

void view_json_error(struct json *json, const char *key, uint64_t bytes, uint64_t blocks)
{
	char name[64];
	if (!json->sample_bytes)
		return;
	snprintf(name, sizeof name, "%s_error", key);
	json_u64(json, name,
		 (uint64_t)trace_standard_error((double)bytes, (double)blocks,
						(double)json->sample_bytes));
}

void view_json_figures(struct json *json, const struct view_figures *figures)
{
	for (size_t i = 0; i < VIEW_FIGURE_COUNT; i++) {
		const struct view_column *column = &view_columns[i];
		json_u64(json, column->key, figures->of[i]);
		if (column->unit == VIEW_UNIT_BYTES)
			view_json_error(json, column->key, figures->of[i],
					figures->of[column->partner]);
	}
}

void view_json_flat(struct json *json, const struct view_figures *self,
		    const struct view_figures *inclusive)
{
	json_begin_object(json, "self");
	view_json_figures(json, self);
	json_end(json);
	json_begin_object(json, "inclusive");
	view_json_figures(json, inclusive);
	json_end(json);
}

void view_json_frame(struct json *json, const char *key, const struct view_frame *frame)
{
	json_begin_object(json, key);
	json_string(json, "function", frame->function);
	json_string(json, "module", frame->module);
	json_hex(json, "address", frame->address);
	json_string(json, "file", frame->file);
	put_known(json, "line", frame->line > 0, frame->line);
	put_known(json, "column", frame->column > 0, frame->column);
	json_bool(json, "inlined", frame->inlined);
	if (frame->tail_called)
		json_bool(json, "tail_called", true);
	json_string(json, "source", view_source_name(frame->source));
	json_string(json, "kind", kinds_name((enum frame_kind)frame->kind));
	put_text(json, "package", frame->package);
	json_end(json);
}

void view_json_frames(struct json *json, const char *key, const struct view_data *data,
		      uint32_t stack)
{
	const struct view_frame *frame;
	json_begin_array(json, key);
	while ((frame = view_next_frame(data, &stack)))
		view_json_frame(json, NULL, frame);
	json_end(json);
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

void view_json_run(struct json *json, const struct view_input *input,
		   const struct model_totals *totals)
{
	int status = 0, signal_number = view_end_signal(input->end);
	bool ended = view_end_status(input->end, &status);
	uint64_t end_ns = input->end->duration_ns;
	put_text(json, "program", input->meta->program);
	put_text(json, "command", input->meta->command);
	json_u64(json, "pid", input->meta->pid);
	put_start_time(json, input->meta->start_unix_ns);
	json_u64(json, "duration_ns", end_ns ? end_ns : totals->duration_ns);
	put_text(json, "mode", input->sample_bytes ? "sampled" : input->meta->mode);
	json_u64(json, "sample_bytes", input->sample_bytes);
	json_string(json, "end", view_end_name(input->end));
	put_known(json, "exit_status", ended, (uint64_t)status);
	put_known(json, "signal", signal_number > 0, (uint64_t)signal_number);
	json_u64(json, "threads", input->thread_count);
}

static void put_total(struct json *json, const struct view_input *input, enum view_figure figure,
		      uint64_t value)
{
	bool known = !view_unknown_why(input->meta, view_figure_needs(figure));
	put_known(json, view_columns[figure].key, known, value);
}

void view_json_totals(struct json *json, const struct view_input *input,
		      const struct model_totals *totals)
{
	bool sampled = totals->peak_rss_bytes > 0;
	put_total(json, input, VIEW_ALLOCATIONS, totals->allocations);
	put_total(json, input, VIEW_FREES, totals->frees);
	put_total(json, input, VIEW_ALLOCATED_BYTES, totals->allocated_bytes);
	put_total(json, input, VIEW_TEMPORARY, totals->temporary);
	json_u64(json, "peak_bytes", totals->peak_bytes);
	json_u64(json, "peak_allocations", totals->peak_blocks);
	json_u64(json, "peak_time_ns", totals->peak_time_ns);
	json_u64(json, "unfreed_allocations", totals->live_blocks);
	json_u64(json, "unfreed_bytes", totals->live_bytes);
	json->sample_bytes = input->sample_bytes;
	view_json_error(json, "allocated_bytes", totals->allocated_bytes, totals->allocations);
	view_json_error(json, "peak_bytes", totals->peak_bytes, totals->peak_blocks);
	view_json_error(json, "unfreed_bytes", totals->live_bytes, totals->live_blocks);
	json_u64(json, "inherited_allocations", input->meta->inherited_blocks);
	json_u64(json, "inherited_bytes", input->meta->inherited_bytes);
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

static void put_lines(struct json *json, const char *key, const char *lines)
{
	struct text line = {0};
	json_begin_array(json, key);
	while (lines && *lines) {
		size_t length = strcspn(lines, "\n");
		text_clear(&line);
		text_put_bytes(&line, lines, length);
		json_string(json, NULL, text_string(&line));
		lines += length + (lines[length] != 0);
	}
	json_end(json);
	text_done(&line);
}

void view_json_origin(struct json *json, const struct trace_meta *meta, const struct trace_end *end)
{
	const char *word;
	put_text(json, "origin", meta->origin);
	json_begin_array(json, "unknown");
	for (unsigned i = 0; (word = view_unknown_word(i)); i++)
		if (meta->unknown & 1u << i)
			json_string(json, NULL, word);
	json_end(json);
	put_lines(json, "facts", end->facts);
}

void view_json_recording(struct json *json, const struct view_input *input)
{
	const struct trace_end *end = input->end;
	json_u64(json, "lost_events", end->lost_events);
	json_u64(json, "events_not_stored", end->events_not_stored);
	json_u64(json, "folded_events", end->folded_events);
	json_u64(json, "exact_since_ns", end->exact_since_ns);
	json_u64(json, "culled_events", end->culled_events);
	json_u64(json, "cull_ns", input->meta->cull_ns);
	json_u64(json, "cut_stacks", end->cut_stacks);
	json_u64(json, "frame_pointer_frames", end->fp_frames);
	json_u64(json, "waited_ns", end->waited_ns);
	json_u64(json, "agent_bytes", end->agent_bytes);
	json_u64(json, "collector_cpu_ns", end->collector_cpu_ns);
	json_u64(json, "collector_bytes", end->collector_bytes);
	json_u64(json, "children_not_recorded", end->children_not_recorded);
	json_u64(json, "paused_allocations", end->paused_births);
	json_u64(json, "freed_paused", end->freed_paused);
	put_known(json, "piece", input->meta->piece > 1 || end->cause == TRACE_END_ROTATED,
		  input->meta->piece);
	put_text(json, "note", end->note);
	put_text(json, "tool_version", input->meta->tool_version);
	put_text(json, "source", input->meta->source);
	view_json_origin(json, input->meta, end);
	put_text(json, "host", input->meta->host);
}

static void put_moments(struct json *json, const char *key, const struct query_section *section,
			enum trace_moment_kind kind, uint64_t from_ns, uint64_t to_ns)
{
	size_t count;
	const struct trace_moment *moments = query_moments(section, &count);
	json_begin_array(json, key);
	for (size_t i = 0; i < count; i++) {
		if (moments[i].kind != kind || moments[i].time_ns < from_ns ||
		    moments[i].time_ns > to_ns)
			continue;
		json_begin_object(json, NULL);
		json_u64(json, "time_ns", moments[i].time_ns);
		json_string(json, "name", moments[i].text);
		json_end(json);
	}
	json_end(json);
}

void view_json_moments(struct json *json, const struct query_section *section, uint64_t from_ns,
		       uint64_t to_ns)
{
	size_t at = 0;
	uint64_t start_ns, end_ns;
	put_moments(json, "marks", section, TRACE_MOMENT_MARK, from_ns, to_ns);
	put_moments(json, "modes", section, TRACE_MOMENT_MODE, from_ns, to_ns);
	json_begin_array(json, "pauses");
	while (query_next_pause(section, &at, &start_ns, &end_ns)) {
		if (end_ns < from_ns || start_ns > to_ns)
			continue;
		json_begin_object(json, NULL);
		json_u64(json, "start_ns", start_ns > from_ns ? start_ns : from_ns);
		json_u64(json, "end_ns", end_ns < to_ns ? end_ns : to_ns);
		json_end(json);
	}
	json_end(json);
}

/* With one decimal, rounded down: 100 means all of it. */
static double percent_of(uint64_t part, uint64_t whole)
{
	uint64_t tenths = (uint64_t)((double)part / (double)whole * 1000);
	return (double)tenths / 10;
}

void view_json_rss(struct json *json, const char *key, const struct view_rss *rss)
{
	if (!rss->known) {
		json_null(json, key);
		return;
	}
	json_begin_object(json, key);
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
