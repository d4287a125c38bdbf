/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report_totals.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/units.h"
#include "cli/report_put.h"
#include "cli/report_sections.h"
#include "views/origin.h"
#include "views/to_json.h"

uint64_t report_duration_ns(const struct report *report)
{
	uint64_t end_ns = report->input.end->duration_ns;
	return end_ns ? end_ns : report->totals.duration_ns;
}

/*
 * An empty heap is no success: hardly any program never allocates. The cause is
 * guessed where the file says nothing of it.
 */
const char *report_warning(const struct report *report)
{
	const char *warning = trace_reader_warning(report->reader);
	const struct trace_end *end = report->input.end;
	if (warning || report->totals.events || end->cause == TRACE_END_EXEC)
		return warning;
	if (end->paused_births)
		return "No heap event was recorded: all blocks were allocated in pauses.";
	if (end->cause == TRACE_END_STOPPED || end->cause == TRACE_END_DETACHED)
		return "No heap event was recorded before the recording ended.";
	if (*end->note)
		return "No heap event was recorded.";
	return "No heap event was recorded. Probably the program's malloc is its own (linked into "
	       "it), or it is not the process that does the work: record that one, or build it "
	       "with the malloc of the system.";
}

enum { HEAD_COLUMNS = 13, SPARK_COLUMNS = 60 };

/* One line of the head: a name, then a text with all its blanks; NULL: the name alone. */
static void put_verbatim(struct out *out, const char *name, const char *text)
{
	out_style(out, OUT_DIM);
	text_print(&out->text, "%-*s", HEAD_COLUMNS, name);
	out_style(out, OUT_PLAIN);
	if (!text)
		return;
	text_put_visible(&out->text, text, strlen(text));
	text_put_char(&out->text, '\n');
}

/* The same, what printf makes of the rest, broken to the width. */
__attribute__((format(printf, 3, 4))) static void put_line(struct out *out, const char *name,
							   const char *format, ...)
{
	char line[512];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	put_verbatim(out, name, NULL);
	/* Words of one line hang below each other. */
	struct out sub = {.width = out->width};
	out_paragraph(&sub, HEAD_COLUMNS, line);
	text_put(&out->text, text_string(&sub.text) + (sub.text.length ? HEAD_COLUMNS : 0));
	text_done(&sub.text);
}

static void put_warning(struct out *out, const char *sentence)
{
	out_style(out, OUT_WARN);
	out_paragraph(out, 0, sentence);
	out_style(out, OUT_PLAIN);
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0.0;
}

void report_end_sentence(const struct trace_end *end, char *out, size_t out_bytes)
{
	int number = view_end_signal(end);
	switch ((enum trace_end_cause)end->cause) {
	case TRACE_END_EXIT:
		snprintf(out, out_bytes, "the program ended with exit status %d", end->status);
		return;
	case TRACE_END_SIGNAL:
		snprintf(out, out_bytes, "the program was %s by signal %d (%s)",
			 number == SIGKILL ? "killed" : "ended", number,
			 number ? strsignal(number) : "unknown");
		return;
	case TRACE_END_EXEC:
		snprintf(out, out_bytes, "the process went on as another program (exec)");
		return;
	case TRACE_END_DETACHED:
		snprintf(out, out_bytes, "detached; the program went on");
		return;
	case TRACE_END_STOPPED:
		snprintf(out, out_bytes,
			 "the recording was stopped or reached its limit; the program went on");
		return;
	case TRACE_END_AGENT_OFF:
		snprintf(out, out_bytes, "the agent switched itself off; the program went on");
		return;
	case TRACE_END_OOM:
		snprintf(out, out_bytes, "the kernel ended the program for want of memory");
		return;
	case TRACE_END_DISK_FULL:
		snprintf(out, out_bytes, "the disk was full");
		return;
	case TRACE_END_ROTATED:
		snprintf(out, out_bytes, "the recording went on in the next file");
		return;
	case TRACE_END_UNSAID:
		snprintf(out, out_bytes, "the file does not say how the program ended");
		return;
	case TRACE_END_COLLECTOR_LOST:
		snprintf(
			out, out_bytes,
			"the recorder was lost: it was killed, or this is a copy of a file that it "
			"was writing");
		return;
	case TRACE_END_DISK_ERROR:
		snprintf(out, out_bytes, "the disk failed");
		return;
	case TRACE_END_UNKNOWN:
		break;
	}
	snprintf(out, out_bytes, "not known: the file has no end yet, it is still being written");
}

/* What an imported file does not say is not shown as 0. True: it was said so. */
static bool put_unknown(const struct report *report, struct out *out, const char *name,
			unsigned bits)
{
	const char *why = view_unknown_why(report->input.meta, bits);
	if (why)
		put_line(out, name, "not known: %s", why);
	return why != NULL;
}

static void put_run(const struct report *report, struct out *out)
{
	const struct trace_meta *meta = report->input.meta;
	const struct trace_end *end = report->input.end;
	char started[64] = "?", ended[160];
	time_t seconds = (time_t)(meta->start_unix_ns / 1000000000u);
	struct tm local;
	if (meta->start_unix_ns && localtime_r(&seconds, &local))
		strftime(started, sizeof started, "%Y-%m-%d %H:%M:%S", &local);
	report_put_title(report, out);
	put_verbatim(out, "command", meta->command && meta->command[0] ? meta->command : "?");
	report_end_sentence(end, ended, sizeof ended);
	if (!put_unknown(report, out, "time", TRACE_UNKNOWN_TIMES))
		put_line(out, "time", "%s, for %s", started,
			 out_duration(out, report_duration_ns(report)).text);
	put_line(out, "end", "%s", ended);
}

struct amount {
	char text[128];
};

/* "2.45 MB in 785 blocks, 3.12 kB on average"; of one block that is its size. */
static struct amount amount(const struct report *report, const struct out *out, uint64_t bytes,
			    uint64_t blocks)
{
	struct amount text;
	if (report->input.meta->unknown & TRACE_UNKNOWN_COUNTS) {
		snprintf(text.text, sizeof text.text, "%s", out_bytes(out, bytes).text);
		return text;
	}
	int used = snprintf(text.text, sizeof text.text, "%s in %s block%s",
			    put_estimate(report, out, bytes, blocks).text,
			    put_count(report, blocks).text, put_plural(blocks));
	const struct view_figures pair = {
		.of = {[VIEW_ALLOCATIONS] = blocks, [VIEW_ALLOCATED_BYTES] = bytes}};
	if (blocks > 1)
		snprintf(text.text + used, sizeof text.text - (size_t)used, ", %s on average",
			 out_bytes(out, view_average(&pair, VIEW_ALLOCATIONS)).text);
	return text;
}

static void put_live(const struct report *report, struct out *out, uint64_t bytes, uint64_t blocks)
{
	if (put_unknown(report, out, "live", TRACE_UNKNOWN_FREES))
		return;
	const char *words = report_live_words(report);
	bool unfreed = !strcmp(words, "unfreed");
	put_line(out, unfreed ? words : "live", "%s (%s)", amount(report, out, bytes, blocks).text,
		 unfreed ? "live at the end; that alone is no leak" : words);
}

static void put_allocations(const struct report *report, struct out *out,
			    const struct view_figures *f)
{
	if (put_unknown(report, out, "allocations", TRACE_UNKNOWN_ALLOCATIONS))
		return;
	put_line(out, "allocations", "%s of %s in all, %s on average",
		 put_count(report, f->of[VIEW_ALLOCATIONS]).text,
		 put_estimate(report, out, f->of[VIEW_ALLOCATED_BYTES], f->of[VIEW_ALLOCATIONS])
			 .text,
		 out_bytes(out, view_average(f, VIEW_ALLOCATIONS)).text);
	if (!put_unknown(report, out, "temporary", TRACE_UNKNOWN_TEMPORARY))
		put_line(out, "temporary", "%s (%.1f %%)",
			 units_grouped(f->of[VIEW_TEMPORARY]).text,
			 percent(f->of[VIEW_TEMPORARY], f->of[VIEW_ALLOCATIONS]));
	if (!put_unknown(report, out, "frees", TRACE_UNKNOWN_FREES))
		put_line(
			out, "frees", "%s of %s", put_count(report, f->of[VIEW_FREES]).text,
			put_estimate(report, out, f->of[VIEW_FREED_BYTES], f->of[VIEW_FREES]).text);
	if (f->of[VIEW_FAILED])
		put_line(out, "failed", "%s allocations got no memory",
			 units_grouped(f->of[VIEW_FAILED]).text);
}

static void put_stacks(const struct report *report, struct out *out)
{
	char threads[64] = "";
	uint64_t stacks = report->totals.stacks;
	size_t count = report->input.thread_count;
	if (!(report->input.meta->unknown & TRACE_UNKNOWN_THREADS))
		snprintf(threads, sizeof threads, ", %zu thread%s", count, put_plural(count));
	put_line(out, "stacks", "%s stack%s that allocate%s", units_grouped(stacks).text,
		 put_plural(stacks), threads);
}

static void put_totals(const struct report *report, struct out *out)
{
	const struct model_totals *t = &report->totals;
	put_line(out, "peak", "%s, after %s",
		 amount(report, out, t->peak_bytes, t->peak_blocks).text,
		 out_duration(out, t->peak_time_ns).text);
	put_live(report, out, t->live_bytes, t->live_blocks);
	put_allocations(report, out, &report->sum);
	const struct trace_meta *meta = report->input.meta;
	if (meta->inherited_blocks)
		put_line(out, "inherited", "%s of the allocations, %s, lived when this part began",
			 units_grouped(meta->inherited_blocks).text,
			 out_bytes(out, meta->inherited_bytes).text);
	put_stacks(report, out);
	if (t->freed_unseen)
		put_line(out, "freed unseen", "%s blocks were freed by calls that are not seen",
			 units_grouped(t->freed_unseen).text);
	const struct trace_end *end = report->input.end;
	uint64_t older =
		t->freed_older > end->freed_paused ? t->freed_older - end->freed_paused : 0;
	if (older || report_is_attached(report))
		put_line(out, "freed older", "%s frees of blocks older than the recording",
			 units_grouped(older).text);
	if (end->paused_births || end->freed_paused)
		put_line(out, "in pauses",
			 "%s blocks were allocated while recording was paused and are not in these "
			 "figures; %s of them were freed",
			 units_grouped(end->paused_births).text,
			 units_grouped(end->freed_paused).text);
	if (t->mapped_peak_bytes || t->reserved_peak_bytes || t->file_mapped_peak_bytes)
		put_line(out, "mapped", "%s at most (beside it %s reserved, %s of files)",
			 out_bytes(out, t->mapped_peak_bytes).text,
			 out_bytes(out, t->reserved_peak_bytes).text,
			 out_bytes(out, t->file_mapped_peak_bytes).text);
}

/* ---- a part of the run ---- */

/* Why events are not in figures that were found by looking at single blocks. */
static const char *why_unread(const struct trace_end *end)
{
	if (end->folded_events)
		return "Older events were folded: only single blocks since then are in these "
		       "figures (docs/days.md).";
	if (end->culled_events)
		return "Blocks that did not live long were culled: only those that are stored one "
		       "by one are in these figures (docs/days.md).";
	return "Damaged or missing parts of the trace are not in these figures.";
}

void report_put_range(const struct report *report, struct out *out)
{
	const struct report_options *options = report->options;
	const struct query_answer *answer = &report->answer;
	if (!report->is_part)
		return;
	if (options->at)
		put_line(out, "moment", "%s after the start, of %s",
			 out_duration(out, answer->to_ns).text,
			 out_duration(out, report_duration_ns(report)).text);
	else if (options->from || options->to)
		put_line(out, "range", "%s to %s, of %s", out_duration(out, answer->from_ns).text,
			 out_duration(out, answer->to_ns).text,
			 out_duration(out, report_duration_ns(report)).text);
	if (options->filter)
		put_verbatim(out, "filter", options->filter);
	struct text way = {0};
	query_answer_explain(&way, answer);
	put_line(out, "found by", "%s", text_string(&way));
	text_done(&way);
	if (answer->snapped)
		put_warning(out, "Events at the edge of the range are not stored: the edge was "
				 "moved to the nearest moment whose figures are.");
	if (answer->unread_events)
		put_warning(out, why_unread(report->input.end));
}

static void put_part(const struct report *report, struct out *out)
{
	const struct view_figures *f = &report->sum;
	const struct query_answer *answer = &report->answer;
	report_put_range(report, out);
	text_put_char(&out->text, '\n');
	char of_all[64] = "";
	if (report->bound)
		snprintf(of_all, sizeof of_all, ", of %s in all",
			 out_bytes(out, answer->peak_bytes).text);
	put_line(out, "peak", "%s%s, %s after the start",
		 amount(report, out, f->of[VIEW_PEAK_BYTES], f->of[VIEW_PEAK_BLOCKS]).text, of_all,
		 out_duration(out, answer->peak_time_ns).text);
	put_live(report, out, f->of[VIEW_UNFREED_BYTES], f->of[VIEW_UNFREED_BLOCKS]);
	put_line(out, "surviving", "%s, of those allocated here",
		 amount(report, out, f->of[VIEW_SURVIVING_BYTES], f->of[VIEW_SURVIVING_BLOCKS])
			 .text);
	put_allocations(report, out, f);
}

static void put_rss(const struct view_rss *rss, struct out *out)
{
	if (!rss->known) {
		put_line(out, "peak RSS", "not known: the recording has no samples");
		return;
	}
	uint64_t rest = (uint64_t)(rss->rest_bytes < 0 ? -rss->rest_bytes : rss->rest_bytes);
	put_line(out, "peak RSS", "%s = heap %s + mapped %s + agent %s %c %s %s",
		 out_bytes(out, rss->rss_bytes).text, out_bytes(out, rss->heap_bytes).text,
		 out_bytes(out, rss->mapped_bytes).text, out_bytes(out, rss->agent_bytes).text,
		 rss->rest_bytes < 0 ? '-' : '+', out_bytes(out, rest).text,
		 rss->rest_bytes < 0 ? "never touched"
				     : "rest (code, stacks, what the allocator keeps)");
	if (!rss->anonymous_bytes)
		return;
	put_line(out, "explained",
		 "recorded blocks, live or freed and kept, explain %.1f %% of %s anonymous memory",
		 percent(rss->explained_bytes, rss->anonymous_bytes),
		 out_bytes(out, rss->anonymous_bytes).text);
	if (rss->cause) {
		put_warning(out, rss->cause);
		out_paragraph(out, 0, rss->advice);
	}
}

/* What is in the figures, but cannot be asked for one by one. */
static void put_not_stored(const struct report *report, struct out *out)
{
	const struct trace_end *end = report->input.end;
	char line[512];
	if (query_rebuilt(report->query)) {
		snprintf(line, sizeof line,
			 "%s events were not stored one by one: without the stored figures they "
			 "are lost.",
			 units_grouped(end->events_not_stored).text);
		if (end->events_not_stored)
			put_warning(out, line);
		return;
	}
	if (end->folded_events) {
		snprintf(line, sizeof line,
			 "Single blocks only since %s: %s older events are in all figures, but "
			 "no longer one by one (--retain).",
			 out_duration(out, end->exact_since_ns).text,
			 units_grouped(end->folded_events).text);
		put_warning(out, line);
	}
	if (end->culled_events) {
		snprintf(line, sizeof line,
			 "Single blocks only from a lifetime of %s on: %s events of others are in "
			 "all figures, but not one by one (--cull).",
			 out_duration(out, report->input.meta->cull_ns).text,
			 units_grouped(end->culled_events).text);
		put_warning(out, line);
	}
	if (trace_end_no_room(end)) {
		snprintf(line, sizeof line,
			 "%s events are in the figures but not stored one by one: the file "
			 "reached its limit or the disk was full.",
			 units_grouped(trace_end_no_room(end)).text);
		put_warning(out, line);
	}
}

static void put_recording(const struct report *report, struct out *out)
{
	const struct trace_meta *meta = report->input.meta;
	const struct trace_end *end = report->input.end;
	char line[512];
	if (report_is_imported(report)) {
		report_put_origin(report, out);
		return;
	}
	put_line(out, "recording", "%s, %s events, %s lost, %s stacks cut; file %s",
		 report->input.sample_bytes ? "sampled"
		 : meta->mode               ? meta->mode
					    : "?",
		 units_grouped(report->totals.events).text, units_grouped(end->lost_events).text,
		 units_grouped(end->cut_stacks).text,
		 out_bytes(out, trace_reader_file_bytes(report->reader)).text);
	put_line(out, "its cost", "collector %s CPU, agent %s, program waited %s",
		 out_duration(out, end->collector_cpu_ns).text,
		 out_bytes(out, end->agent_bytes).text, out_duration(out, end->waited_ns).text);
	if (report->input.sample_bytes)
		put_line(out, "sampled",
			 "a block every %s bytes%s: figures are estimates, ± one standard error",
			 units_grouped(report->input.sample_bytes).text,
			 report->input.sample_bytes == meta->sample_bytes ? "" : " at most");
	if (end->lost_events)
		put_warning(out, "Events were lost: the figures above are too small. Record "
				 "again with a faster disk, or with less load.");
	if (report->totals.saturated)
		put_warning(out, "Sizes or sums are beyond what is counted: the figures above are "
				 "lower bounds.");
	put_not_stored(report, out);
	if (end->children_not_recorded) {
		bool one = end->children_not_recorded == 1;
		snprintf(line, sizeof line, "%s child process%s not recorded: %s.",
			 units_grouped(end->children_not_recorded).text, one ? " was" : "es were",
			 meta->children ? "no agent got in, or had anything to record"
			 : one          ? "'tidemark run --children' records it"
					: "'tidemark run --children' records them");
		put_warning(out, line);
	}
	if (end->note[0])
		put_warning(out, end->note);
	const char *warning = report_warning(report);
	if (warning)
		put_warning(out, warning);
	if (query_rebuilt(report->query))
		put_warning(out,
			    "The file has no stored figures, or they are damaged: they were made "
			    "anew from its events. 'tidemark repair' writes them back.");
}

/*
 * A curve comes from the slices of a long run, or from the events of a short one. In between
 * that costs more than all the rest of the summary.
 */
static bool is_curve_cheap(const struct report *report)
{
	uint64_t events = report->totals.events;
	return report->totals.peak_bytes && (events <= 1500000 || events >= 24 * 262144);
}

/* The shape of the run at a glance; --section timeline has it with axes. */
static int put_spark(const struct report *report, struct out *out, struct tm_error *err)
{
	struct text curve = {0};
	unsigned columns = SPARK_COLUMNS;
	if (out->width && out->width < HEAD_COLUMNS + columns)
		columns = out->width - HEAD_COLUMNS;
	int code = is_curve_cheap(report) ? report_spark(report, columns, &curve, err) : 0;
	if (!code && curve.length)
		put_verbatim(out, "live bytes", text_string(&curve));
	text_done(&curve);
	return code;
}

int report_summary_text(const struct report *report, const struct report_section *section,
			struct out *out, struct tm_error *err)
{
	(void)section;
	put_run(report, out);
	if (report->is_part) {
		put_part(report, out);
		return 0;
	}
	text_put_char(&out->text, '\n');
	put_totals(report, out);
	int code = report_put_ages(report, out, err);
	if (!code)
		code = put_spark(report, out, err);
	if (code)
		return code;
	put_rss(&report->rss, out);
	put_recording(report, out);
	return 0;
}

void report_put_title(const struct report *report, struct out *out)
{
	const struct trace_meta *meta = report->input.meta;
	out_style(out, OUT_BOLD);
	const char *name = meta->program && meta->program[0] ? meta->program : report->path;
	out_name(out, view_module_name(name), 0);
	out_style(out, OUT_PLAIN);
	if (meta->pid)
		text_print(&out->text, " (pid %" PRIu32 ")", meta->pid);
	if (report->section_count > 1)
		text_print(&out->text, ", image %zu of 0 to %zu", report->section,
			   report->section_count - 1);
	if (report->input.sample_bytes)
		text_put(&out->text, ": estimates from a sample, ± their standard error");
	text_put_char(&out->text, '\n');
}
