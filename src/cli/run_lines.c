/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_lines.h"

#include <stdio.h>
#include <string.h>

#include "base/quote.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/run_names.h"
#include "trace/weight.h"

#define RATE_LEAST_NS 1000000000ull

/* All at once: the program may still be writing to the same terminal. */
static void say_to(FILE *to, const struct text *text)
{
	fwrite(text_string(text), 1, text->length, to);
	fflush(to);
}

static void say(const struct text *text)
{
	say_to(stderr, text);
}

void run_lines_begin(FILE *to, const char *path)
{
	struct text text = {0};
	text_put(&text, "tidemark: recording to ");
	text_put_visible(&text, path, strlen(path));
	text_put(&text, "\n");
	say_to(to, &text);
	text_done(&text);
}

void run_lines_naming(void *ctx)
{
	(void)ctx;
	struct text text = {0};
	text_put(&text, "tidemark: looking up names (Ctrl-C leaves the rest of them out)\n");
	say(&text);
	text_done(&text);
}

/* " ± 3 %" of an estimate, else "". */
static struct units_text error_of(const struct collector_trace *trace, uint64_t bytes,
				  uint64_t blocks)
{
	struct units_text text = {""};
	if (trace->sample_bytes && bytes)
		snprintf(text.text, sizeof text.text, " ± %.0f %%",
			 trace_standard_error((double)bytes, (double)blocks,
					      (double)trace->sample_bytes) /
				 (double)bytes * 100);
	return text;
}

static void put_figures(struct text *text, const struct collector_trace *trace)
{
	const struct model_totals *totals = &trace->totals;
	const struct trace_end *end = &trace->end;
	text_print(text, "tidemark: %s%s allocations, %s%s at the peak, %s%s %s in %s",
		   trace->sample_bytes ? "about " : "", units_grouped(totals->allocations).text,
		   units_bytes(totals->peak_bytes).text,
		   error_of(trace, totals->peak_bytes, totals->peak_blocks).text,
		   units_bytes(totals->live_bytes).text,
		   error_of(trace, totals->live_bytes, totals->live_blocks).text,
		   end->cause == TRACE_END_DETACHED ? "live at detach" : "unfreed",
		   units_duration(end->duration_ns).text);
	text_print(text, "; recording took %s of CPU and %s of memory, the program waited %s\n",
		   units_duration(end->collector_cpu_ns).text,
		   units_bytes(end->collector_bytes).text, units_duration(end->waited_ns).text);
}

static void put_file(struct text *text, const struct collector_trace *trace, size_t trace_count)
{
	text_print(text, "tidemark: %s in ", units_bytes(trace->file_bytes).text);
	text_put_visible(text, trace->path, strlen(trace->path));
	if (trace_count > 1)
		text_print(text, ", the largest of %zu traces", trace_count);
	const struct collector_rate *rate = &trace->rate;
	/* Of less than a second it says nothing about an hour. */
	if (trace->end.duration_ns >= RATE_LEAST_NS)
		text_print(text, ", %s per hour", units_bytes(rate->bytes_per_hour).text);
	if (trace->end.duration_ns >= RATE_LEAST_NS && rate->left_ns)
		text_print(text, ": at that rate there is room for %s more",
			   units_duration(rate->left_ns).text);
	text_put(text, "\ntidemark: to see it, type: tidemark report ");
	quote_argument(text, trace->path);
	text_put(text, "\n");
}

/* What kept the recorder from its work; "": a line that follows says it; NULL: nothing. */
static const char *what_failed(const struct collector_trace *trace)
{
	if (!trace)
		return "the agent did not get into the program";
	if (trace->problem.code)
		return "";
	if (trace->sanitizer)
		return "the program is built with a sanitizer, whose allocator hides it; "
		       "build it without -fsanitize";
	if (!trace->agent_began && trace->end.cause != TRACE_END_STOPPED)
		return "the agent in the program was answered too late (is the machine too "
		       "busy, or was tidemark stopped?), or got no memory; record it again";
	return NULL;
}

/* Likewise, of a recording that worked. */
static const char *why_silent(const struct collector_trace *trace)
{
	if (trace->end.paused_births)
		return "all that the program made was in pauses";
	if (trace->end.cause == TRACE_END_STOPPED && !trace->never_on)
		return "the program made none through malloc and its kin before the recording "
		       "ended";
	return *trace->end.note ? "" : "the program made none through malloc and its kin";
}

static void put_nothing_recorded(struct text *text, const struct collector_trace *trace)
{
	if (trace && trace->end.cause == TRACE_END_DETACHED) {
		text_put(text, "tidemark: note: the process allocated nothing meanwhile\n");
		return;
	}
	const char *why = what_failed(trace);
	if (!why && trace->earlier_events) {
		text_put(text, "tidemark: note: the program's last image made no allocation that "
			       "was recorded; those before it are in the file (tidemark report "
			       "--image 0, and so on)\n");
		return;
	}
	text_put(text, "tidemark: error: no allocation was recorded");
	why = why ? why : why_silent(trace);
	if (*why)
		text_print(text, ": %s", why);
	text_put(text, "\n");
}

static void put_warnings(struct text *text, const struct collector_trace *trace)
{
	const struct trace_end *end = &trace->end;
	if (trace->problem.code)
		text_print(text, "tidemark: error: %s\n", trace->problem.text);
	if (*end->note)
		text_print(text, "tidemark: note: %s\n", end->note);
	if (end->lost_events)
		text_print(text, "tidemark: warning: %s events were lost\n",
			   units_grouped(end->lost_events).text);
	if (end->folded_events)
		text_print(text,
			   "tidemark: note: %s older events are in the figures only (--retain)\n",
			   units_grouped(end->folded_events).text);
	if (end->culled_events)
		text_print(text,
			   "tidemark: note: %s events of short-lived blocks are in the figures "
			   "only (--cull)\n",
			   units_grouped(end->culled_events).text);
	if (trace_end_no_room(end))
		text_print(text,
			   "tidemark: note: %s events are counted in the figures but not stored\n",
			   units_grouped(trace_end_no_room(end)).text);
	if (trace->bad_events)
		text_print(text,
			   "tidemark: warning: %s records made no sense: the program may have "
			   "written into the agent's memory\n",
			   units_grouped(trace->bad_events).text);
	if (trace->name_warnings) {
		text_put(text, "tidemark: note: ");
		text_put_visible(text, trace->name_warning, strlen(trace->name_warning));
		if (trace->name_warnings > 1)
			text_print(text, " (and %u more files)", trace->name_warnings - 1);
		text_put(text, "\n");
	}
	if (trace->names_cut)
		text_put(text, "tidemark: note: not all names are in the trace; 'tidemark "
			       "symbolize' adds the rest\n");
}

void run_lines_end(const struct collector_result *result, bool quiet)
{
	struct text text = {0};
	const struct collector_trace *trace =
		result->traces && result->trace_count ? result->traces : NULL;
	if (result->warning.code)
		text_print(&text, "tidemark: warning: %s\n", result->warning.text);
	if (!result->plain && (!trace || !trace->totals.events))
		put_nothing_recorded(&text, trace);
	for (size_t i = 0; result->traces && i < result->trace_count; i++)
		put_warnings(&text, &result->traces[i]);
	if (trace && !quiet && trace->totals.events && trace->unnamed.cure != CURE_NONE)
		run_names_put(&text, trace);
	if (result->pieces_deleted)
		text_print(&text,
			   "tidemark: note: %s older file%s of this recording %s deleted "
			   "(--keep)\n",
			   units_grouped(result->pieces_deleted).text,
			   result->pieces_deleted == 1 ? "" : "s",
			   result->pieces_deleted == 1 ? "was" : "were");
	if (trace && !quiet) {
		put_figures(&text, trace);
		put_file(&text, trace, result->trace_count);
	}
	say(&text);
	text_done(&text);
}
