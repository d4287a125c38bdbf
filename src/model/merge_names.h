/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks, modules, threads and symbols of merged sections: what is the same in
 * two pieces of one process becomes one, what is of two processes stays two.
 */
#pragma once

#include "base/idmap.h"
#include "model/merge_plan.h"

struct merge_stack_path;

/* What becomes of the ids of one part. */
struct merge_ids {
	const struct trace_stack *stacks; /* the part's, as below */
	const struct trace_module *modules;
	const struct trace_thread *threads;
	size_t stack_count, module_count, thread_count;
	uint32_t *stack_ids; /* merged ids by the part's; 0 = not asked for yet */
	uint32_t *module_ids;
	uint64_t *mapped_ns;   /* by the part's module ids, in merged time */
	uint32_t anonymous_id; /* of code without a module; 0 unless there are several processes */
	uint32_t root_id;      /* stack that stands for the process; 0 = none */
	uint32_t thread_base;  /* what is added to its thread ids */
};

struct merge_names {
	const struct merge_plan *plan;
	struct trace_writer *writer;
	struct tm_error *err;
	struct merge_ids *ids;  /* by part */
	uint32_t *exit_threads; /* by stream */
	struct idmap stack_map, symbol_map, source_map;
	struct trace_stack *stacks; /* [0] is id 1 */
	size_t stack_count, stack_room, stacks_written;
	uint32_t *path;
	size_t path_room;
	struct merge_seen *seen; /* addresses whose symbols are written */
	size_t seen_count, seen_room;
	const struct trace_source_line **lines; /* that are written */
	size_t line_count, line_room;
	char **labels; /* of processes, by stream; NULL with one process */
};

/* Writes modules, threads and the stacks of processes. After the section began. */
TM_MUST_CHECK int merge_names_make(struct merge_names *names, const struct merge_plan *plan,
				   struct trace_writer *writer, struct tm_error *err);
void merge_names_done(struct merge_names *names);
/* The merged id of a part's stack. -ENOMEM, -EBADMSG. O(frames) the first time. */
TM_MUST_CHECK int merge_names_stack(struct merge_names *names, size_t part, uint32_t *id);
/* Stacks that are new since the last call. */
TM_MUST_CHECK int merge_names_flush(struct merge_names *names);
/* Symbols and source lines of all parts. */
TM_MUST_CHECK int merge_names_symbols(struct merge_names *names);
