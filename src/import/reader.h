/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For those who write a reader of a format: one file, one const descriptor, one
 * line in import.c's table. read() does:
 *
 *	import_begin(job, &meta)             once what goes into the meta data is known
 *	frames_..., events_... or profile_... in any order that the file has
 *	import_fact(job, "...")              what a user should know about this file
 *	import_end(job, &end)
 *
 * Input is hostile: check every id and length; memory must not grow with what a
 * file merely claims. A file that ends too early gives what it had, with a fact.
 */
#pragma once

#include "base/error.h"
#include "import/import.h"
#include "import/input.h"
#include "symbols/symbols.h"
#include "trace/trace.h"

struct events;
struct import_job;

struct import_format {
	const char *name;  /* "heaptrack": the trace's source is "import:heaptrack" */
	const char *title; /* "heaptrack, interpreted or raw, formats 0 to 3" */
	/* Does a file that begins so belong to it? whole: there is no more of it than this. */
	bool (*recognise)(const char *head, size_t bytes, bool whole);
	int (*read)(struct import_job *job, struct tm_error *err);
};

struct import_input *import_input(struct import_job *job);
/* For one call: events on their way are written first. Stacks go through import_stacks(). */
struct trace_writer *import_writer(struct import_job *job);
/* Stacks, whose ids are counted from 1. Other threads' use of the writer is no concern. */
TM_MUST_CHECK int import_stacks(struct import_job *job, const struct trace_stack *stacks,
				size_t count, struct tm_error *err);
/* Where names of addresses are looked for. */
struct symbols_options import_symbols(const struct import_job *job);

/*
 * Begins the section. tool_version, mode, source are filled in; `origin` should say
 * what the file is ("heaptrack 1.4.0, format 3, interpreted"), `unknown` what it
 * lacks, `addresses` whether those of events are to be kept. Texts are copied. Once.
 */
TM_MUST_CHECK int import_begin(struct import_job *job, const struct trace_meta *meta,
			       struct tm_error *err);
/* A sentence about this file, kept in the trace and shown by report and info. */
void import_fact(struct import_job *job, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* A line of leak suppressions ("leak:foo") that the file carries. */
void import_suppression(struct import_job *job, const char *line, size_t length);
/* The file ends within something. Adds the fact, once. */
void import_cut(struct import_job *job);
/* Ends the section. facts and suppressions are filled in. */
TM_MUST_CHECK int import_end(struct import_job *job, const struct trace_end *end,
			     struct tm_error *err);
/* For import/events.c: from here on these events use the writer, too; NULL: no more. */
void import_events(struct import_job *job, struct events *events);
/* Tells the progress, at most now and then: call it often. 0 or -ECANCELED. */
TM_MUST_CHECK int import_tick(struct import_job *job, struct tm_error *err);
/* For the result: events read one by one, stacks. */
void import_count(struct import_job *job, uint64_t events, uint64_t stacks);
/* What a failed call of the writer means: err's sentence. */
int import_write_failed(int code, struct tm_error *err);
