/* SPDX-License-Identifier: Apache-2.0 */
/* What the faces of `tidemark report` get: one section, loaded. */
#pragma once

#include "base/json.h"
#include "cli/out.h"
#include "views/views.h"

struct report_options {
	uint64_t limit;          /* sites to show; 0 = all */
	uint64_t function_limit; /* functions to show; 0 = all */
	bool by_function;
	bool stacks; /* every stack */
};

struct report {
	const char *path;
	struct trace_reader *reader;
	size_t section, section_count;
	struct kinds *kinds;
	struct view_input input;
	struct model *model;
	struct model_totals totals;
	struct view_data *data;
	struct view_rss rss;
	struct report_options options;
};

/* "exit", "signal", ...: as in docs/report-json.md. */
const char *report_end_name(uint32_t cause);
/* The program ended, and its status is known: the exit status, or 128 + signal. */
bool report_exit_status(const struct trace_end *end, int *ret_status);
/* The same as a sentence, without its full stop. */
void report_end_sentence(const struct trace_end *end, char *out, size_t out_bytes);
/* Of the signal that ended the program; 0 = none. */
int report_signal(const struct trace_end *end);
/* From the end of the recording, or else of the last event. */
uint64_t report_duration_ns(const struct report *report);

/* What is wrong with the file or with what it holds: a sentence, or NULL. */
const char *report_warning(const struct report *report);

/* One object. May fail for lack of memory only. */
TM_MUST_CHECK int report_json(const struct report *report, struct json *json, struct tm_error *err);
TM_MUST_CHECK int report_text(const struct report *report, struct out *out, struct tm_error *err);
/* --stacks without --json: one line per stack. */
void report_stack_lines(const struct report *report, struct out *out);
