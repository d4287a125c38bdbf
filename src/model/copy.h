/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A section written anew: what repairing and trimming share. Events come from
 * the caller in their final order, with block ids that count from 0; they are
 * applied to a model and written, mappings and samples beside them, and slices
 * are cut where they are due.
 */
#pragma once

#include "model/model.h"
#include "model/restack.h"
#include "trace/trace.h"

struct copy {
	struct trace_reader *reader;
	struct trace_writer *writer;
	struct model *model;
	struct tm_error *err;
	const struct trace_stack *stacks; /* of the reader, as all below */
	const struct trace_module *modules;
	const struct trace_thread *threads;
	const struct trace_sample *samples;
	const struct trace_map_event *maps;
	const struct trace_moment *moments;
	const struct trace_symbol *symbols;
	const struct trace_source_line *sources;
	size_t stack_count, module_count, thread_count, sample_count, map_count, symbol_count;
	size_t source_count, moment_count;
	size_t next_sample, next_map, next_moment;
	/* Slices end at these events, in rising order; NULL: where they are due. */
	const uint64_t *cuts;
	size_t cut_count, next_cut;
	struct restack *restack; /* NULL: stacks keep their ids */
	uint64_t from_ns;        /* times are counted from here */
	uint64_t start_ns;       /* and this is added, to what comes after the start */
	uint64_t last_ns;        /* of the last event written */
	uint64_t births;         /* allocations written */
	bool starts_paused;      /* a pause that began before lasts */
	const char *starts_mode; /* borrowed; how blocks are recorded when it begins; NULL: as the
				    section began */
};

/* Loads the tables of the selected section, makes the model. The caller begins the section. */
TM_MUST_CHECK int copy_init(struct copy *copy, struct trace_reader *reader,
			    struct trace_writer *writer, uint64_t page_bytes, struct tm_error *err);
void copy_done(struct copy *copy);

/* A time of the old file in the new one. */
uint64_t copy_time(const struct copy *copy, uint64_t time_ns);
/* All modules and threads; what is referred to and lost gets a record that says so. */
TM_MUST_CHECK int copy_names(struct copy *copy);
/* A stack of the old file, or a mark in its place if it is lost or makes no sense. */
struct trace_stack copy_stack(const struct copy *copy, size_t stack_id);
/* Events in the new file's times and block ids. Changes them as model_apply() does. */
TM_MUST_CHECK int copy_events(struct copy *copy, struct trace_event *events, size_t count);
/* Marks and pauses before this old time are not copied; a pause that lasts is remembered. */
void copy_skip_moments(struct copy *copy, uint64_t until_ns);
/* Mappings, samples, marks and pauses up to this old time, in order. */
TM_MUST_CHECK int copy_others(struct copy *copy, uint64_t until_ns);
/* The open slice ends here. */
TM_MUST_CHECK int copy_cut(struct copy *copy);
/* The last slice, if there is anything to be put into one. */
TM_MUST_CHECK int copy_finish(struct copy *copy);
