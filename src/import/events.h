/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single events on their way into the trace: batches go through the model, which
 * finds the block of each free, into the writer, and slices are cut. That is done on
 * a thread of its own (import/belt.h) while the reader reads on.
 *
 *	*events_next(e) = (struct trace_event){.op = TRACE_ALLOC, ...};
 *	code = events_put(e, err);
 *
 * Of an allocation: time_ns, address, size_bytes, stack_id, thread_id, op, api. Of
 * a free: time_ns, address, thread_id, op. An allocation on a live address ends
 * the block there as freed unseen. Times that fall are raised and counted. Stacks
 * must have been written before, with import_stacks().
 */
#pragma once

#include "import/belt.h"
#include "import/reader.h"

struct events_counts {
	uint64_t events, late; /* late: with a time before the last one's */
	uint64_t unseen, older;
	uint64_t last_ns;
};

struct events_state;
struct events {
	struct belt_chunk *chunk; /* that is filled now */
	struct events_state *state;
};

struct events_options {
	uint64_t page_bytes; /* 0 = unknown */
	/*
	 * The reader knows the block of each event (allocations count from 0) and fills
	 * block_id, stack_id, size_bytes (below 2^48), and of frees TRACE_EVENT_TEMPORARY; all are
	 * TRACE_ALLOC or TRACE_FREE, and no time falls. There are no addresses then, and
	 * lifetimes are not counted.
	 */
	bool known;
};

/* After import_begin(). */
TM_MUST_CHECK int events_new(struct import_job *job, const struct events_options *options,
			     struct events **ret_events, struct tm_error *err);
struct events *events_free(struct events *events);

/* Passes the chunk on; also tells the progress. */
TM_MUST_CHECK int events_pass(struct events *events, struct tm_error *err);
static inline struct trace_event *events_next(struct events *events)
{
	return &events->chunk->events[events->chunk->event_count];
}
static inline TM_MUST_CHECK int events_put(struct events *events, struct tm_error *err)
{
	return ++events->chunk->event_count < BELT_EVENTS ? 0 : events_pass(events, err);
}

/* For import_stacks(): stacks of the events that follow. */
TM_MUST_CHECK int events_stacks(struct events *events, const struct trace_stack *stacks,
				size_t count, struct tm_error *err);
/* Until the next call nobody else uses the writer. A failure comes up again later. */
void events_settle(struct events *events);

TM_MUST_CHECK int events_map(struct events *events, const struct trace_map_event *map,
			     struct tm_error *err);
TM_MUST_CHECK int events_sample(struct events *events, const struct trace_sample *sample,
				struct tm_error *err);
/* The rest of the events and the last slice. Before import_end(). */
TM_MUST_CHECK int events_finish(struct events *events, struct events_counts *ret_counts,
				struct tm_error *err);
