/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report_totals.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/units.h"

const char *report_end_name(uint32_t cause)
{
	static const char *const names[] = {
		[TRACE_END_UNKNOWN] = "unknown",     [TRACE_END_EXIT] = "exit",
		[TRACE_END_SIGNAL] = "signal",       [TRACE_END_EXEC] = "exec",
		[TRACE_END_DETACHED] = "detached",   [TRACE_END_STOPPED] = "stopped",
		[TRACE_END_AGENT_OFF] = "agent_off", [TRACE_END_OOM] = "oom",
		[TRACE_END_DISK_FULL] = "disk_full",
	};
	return cause < sizeof names / sizeof names[0] ? names[cause] : "unknown";
}

int report_signal(const struct trace_end *end)
{
	bool killed = end->cause == TRACE_END_SIGNAL || end->cause == TRACE_END_OOM;
	return killed && end->status > 0 && end->status < 128 ? end->status : 0;
}

bool report_exit_status(const struct trace_end *end, int *ret_status)
{
	int signal_number = report_signal(end);
	if (end->cause != TRACE_END_EXIT && !signal_number)
		return false;
	*ret_status = signal_number ? 128 + signal_number : end->status & 0xff;
	return true;
}

uint64_t report_duration_ns(const struct report *report)
{
	uint64_t end_ns = report->input.end->duration_ns;
	return end_ns ? end_ns : report->totals.duration_ns;
}

/* An empty heap is no success: hardly any program never allocates. */
const char *report_warning(const struct report *report)
{
	const char *warning = trace_reader_warning(report->reader);
	if (warning || report->totals.events || report->input.end->cause == TRACE_END_EXEC)
		return warning;
	return "No heap event was recorded. Probably the program's malloc is its own (linked into "
	       "it), or it is not the process that does the work: record that one, or build it "
	       "with the malloc of the system.";
}

/* One line of the head: a name, then what printf makes of the rest. */
__attribute__((format(printf, 3, 4))) static void put_line(struct out *out, const char *name,
							   const char *format, ...)
{
	char line[512];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	out_style(out, OUT_DIM);
	text_print(&out->text, "%-12s", name);
	out_style(out, OUT_PLAIN);
	text_put_char(&out->text, ' ');
	text_put_visible(&out->text, line, strlen(line));
	text_put_char(&out->text, '\n');
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

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

void report_end_sentence(const struct trace_end *end, char *out, size_t out_bytes)
{
	int number = report_signal(end);
	switch ((enum trace_end_cause)end->cause) {
	case TRACE_END_EXIT:
		snprintf(out, out_bytes, "the program ended with exit status %d", end->status);
		return;
	case TRACE_END_SIGNAL:
		snprintf(out, out_bytes, "the program was ended by signal %d (%s)", number,
			 number ? strsignal(number) : "unknown");
		return;
	case TRACE_END_EXEC:
		snprintf(out, out_bytes, "the process went on as another program (exec)");
		return;
	case TRACE_END_DETACHED:
		snprintf(out, out_bytes, "detached; the program went on");
		return;
	case TRACE_END_STOPPED:
		snprintf(out, out_bytes, "the recording reached its limit; the program went on");
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
	case TRACE_END_UNKNOWN:
		break;
	}
	snprintf(out, out_bytes,
		 "not known: the file has no end (still written, or the recorder was killed)");
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
	out_style(out, OUT_BOLD);
	out_name(out, meta->program ? view_module_name(meta->program) : "?", 0);
	out_style(out, OUT_PLAIN);
	text_print(&out->text, " (pid %" PRIu32 ")", meta->pid);
	if (report->section_count > 1)
		text_print(&out->text, ", section %zu of 0 to %zu", report->section,
			   report->section_count - 1);
	text_put_char(&out->text, '\n');
	put_line(out, "command", "%s", meta->command ? meta->command : "?");
	report_end_sentence(end, ended, sizeof ended);
	put_line(out, "time", "%s, for %s", started,
		 units_duration(report_duration_ns(report)).text);
	put_line(out, "end", "%s", ended);
}

static void put_totals(const struct report *report, struct out *out)
{
	const struct model_totals *t = &report->totals;
	put_line(out, "peak", "%s in %s block%s, after %s", units_bytes(t->peak_bytes).text,
		 units_grouped(t->peak_blocks).text, plural(t->peak_blocks),
		 units_duration(t->peak_time_ns).text);
	put_line(out, "unfreed", "%s in %s block%s (live at the end; that alone is no leak)",
		 units_bytes(t->live_bytes).text, units_grouped(t->live_blocks).text,
		 plural(t->live_blocks));
	put_line(out, "allocations", "%s of %s in all, from %s stack%s in %zu thread%s",
		 units_grouped(t->allocations).text, units_bytes(t->allocated_bytes).text,
		 units_grouped(t->stacks).text, plural(t->stacks), report->input.thread_count,
		 plural(report->input.thread_count));
	put_line(out, "temporary", "%s (%.1f %%)", units_grouped(t->temporary).text,
		 percent(t->temporary, t->allocations));
	put_line(out, "frees", "%s", units_grouped(t->frees).text);
	if (t->failed)
		put_line(out, "failed", "%s allocations got no memory",
			 units_grouped(t->failed).text);
	if (t->freed_unseen)
		put_line(out, "freed unseen", "%s blocks were freed by calls that are not seen",
			 units_grouped(t->freed_unseen).text);
	if (t->freed_older)
		put_line(out, "freed older", "%s frees of blocks older than the recording",
			 units_grouped(t->freed_older).text);
	if (t->mapped_peak_bytes || t->reserved_peak_bytes || t->file_mapped_peak_bytes)
		put_line(out, "mapped", "%s at most (beside it %s reserved, %s of files)",
			 units_bytes(t->mapped_peak_bytes).text,
			 units_bytes(t->reserved_peak_bytes).text,
			 units_bytes(t->file_mapped_peak_bytes).text);
}

static void put_rss(const struct view_rss *rss, struct out *out)
{
	if (!rss->known) {
		put_line(out, "peak RSS", "not known: the recording has no samples");
		return;
	}
	uint64_t rest = (uint64_t)(rss->rest_bytes < 0 ? -rss->rest_bytes : rss->rest_bytes);
	put_line(out, "peak RSS", "%s = heap %s + mapped %s + agent %s %c %s %s",
		 units_bytes(rss->rss_bytes).text, units_bytes(rss->heap_bytes).text,
		 units_bytes(rss->mapped_bytes).text, units_bytes(rss->agent_bytes).text,
		 rss->rest_bytes < 0 ? '-' : '+', units_bytes(rest).text,
		 rss->rest_bytes < 0 ? "never touched"
				     : "rest (code, stacks, what the allocator keeps)");
	if (!rss->anonymous_bytes)
		return;
	put_line(out, "explained",
		 "recorded blocks, live or freed and kept, explain %.1f %% of %s anonymous memory",
		 percent(rss->explained_bytes, rss->anonymous_bytes),
		 units_bytes(rss->anonymous_bytes).text);
	if (rss->cause) {
		put_warning(out, rss->cause);
		out_paragraph(out, 0, rss->advice);
	}
}

static void put_recording(const struct report *report, struct out *out)
{
	const struct trace_meta *meta = report->input.meta;
	const struct trace_end *end = report->input.end;
	char line[512];
	put_line(out, "recording", "%s, %s events, %s lost, %s stacks cut; file %s",
		 meta->mode ? meta->mode : "?", units_grouped(report->totals.events).text,
		 units_grouped(end->lost_events).text, units_grouped(end->cut_stacks).text,
		 units_bytes(trace_reader_file_bytes(report->reader)).text);
	put_line(out, "its cost", "collector %s CPU, agent %s, program waited %s",
		 units_duration(end->collector_cpu_ns).text, units_bytes(end->agent_bytes).text,
		 units_duration(end->waited_ns).text);
	if (end->lost_events)
		put_warning(out, "Events were lost: the figures above are too small. Record "
				 "again with a faster disk, or with less load.");
	if (report->totals.saturated)
		put_warning(out, "Sizes or sums are beyond what is counted: the figures above are "
				 "lower bounds.");
	if (end->events_not_stored) {
		snprintf(line, sizeof line,
			 "%s events are in the figures but not stored one by one: the file "
			 "reached its limit or the disk was full.",
			 units_grouped(end->events_not_stored).text);
		put_warning(out, line);
	}
	if (end->children_not_recorded) {
		snprintf(line, sizeof line,
			 "%s child processes were not recorded: 'tidemark run --children' "
			 "records them.",
			 units_grouped(end->children_not_recorded).text);
		put_warning(out, line);
	}
	if (end->note[0])
		put_warning(out, end->note);
	const char *warning = report_warning(report);
	if (warning)
		put_warning(out, warning);
}

void report_totals(const struct report *report, struct out *out)
{
	put_run(report, out);
	text_put_char(&out->text, '\n');
	put_totals(report, out);
	put_rss(&report->rss, out);
	put_recording(report, out);
}
