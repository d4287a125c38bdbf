/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A belt between two threads: the reader of a file fills chunks, and what is done
 * with them (model, encoding) is done on a thread of its own, in the same order.
 *
 *	reader ──> chunk ─┐                     ┌─> work()
 *	                  └─> [full] [full] ... ┘
 *	            ^                             │
 *	            └───────── [empty] <──────────┘
 *
 * There are few chunks: a reader that is faster waits. The thread begins with the
 * first full chunk, so that a small file needs none; where none can be had the work
 * is done by the caller. A failure of work() stays: what comes after it is dropped, and
 * the caller hears of it with one of the next chunks, at the latest in belt_settle().
 */
#pragma once

#include "base/error.h"
#include "trace/trace.h"

enum {
	BELT_EVENTS = 2048, /* of a chunk */
	BELT_STACKS = 512,
	BELT_STEPS = 64,
};

/* Something between two events. */
struct belt_step {
	size_t before; /* the event with this number of the chunk */
	bool is_map;
	union {
		struct trace_sample sample;
		struct trace_map_event map;
	};
};

struct belt_chunk {
	size_t event_count, stack_count, step_count;
	struct trace_event events[BELT_EVENTS];
	struct trace_stack stacks[BELT_STACKS]; /* come before all of its events */
	struct belt_step steps[BELT_STEPS];
};

/* What is done with a chunk; 0 or -errno with a sentence. */
typedef int (*belt_work_fn)(void *ctx, struct belt_chunk *chunk, struct tm_error *err);

struct belt;
/* The first chunk, to be filled, goes to *ret_chunk. */
TM_MUST_CHECK int belt_new(belt_work_fn work, void *ctx, struct belt **ret_belt,
			   struct belt_chunk **ret_chunk, struct tm_error *err);
/* What was not passed on is dropped. The work at hand is waited for. */
struct belt *belt_free(struct belt *belt);
/* Passes the chunk on; the next one to fill goes to *ret_chunk, also on failure. May wait. */
TM_MUST_CHECK int belt_pass(struct belt *belt, struct belt_chunk **ret_chunk, struct tm_error *err);
/*
 * The same, and waits until all is done: until the next belt_pass() what work()
 * works with belongs to the caller.
 */
TM_MUST_CHECK int belt_settle(struct belt *belt, struct belt_chunk **ret_chunk,
			      struct tm_error *err);
