/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single events on their way into the trace: batches go through the model, which
 * finds the block of each free, into the writer, and slices are cut.
 *
 *	*events_next(e) = (struct trace_event){.op = TRACE_ALLOC, ...};
 *	code = events_put(e, err);
 *
 * Of an allocation: time_ns, address, size_bytes, stack_id, thread_id, op, api. Of
 * a free: time_ns, address, thread_id, op. An allocation on a live address ends
 * the block there as freed unseen. Times that fall are raised and counted. Stacks
 * must have been written before.
 */
#pragma once

#include "import/reader.h"

enum { EVENTS_BATCH = 256 }; /* stays in the first cache from here to the writer */

struct events_counts {
	uint64_t events, late; /* late: with a time before the last one's */
	uint64_t unseen, older;
	uint64_t last_ns;
};

struct events_state;
struct events {
	size_t count;
	struct trace_event batch[EVENTS_BATCH];
	struct events_state *state;
};

struct events_options {
	uint64_t page_bytes; /* 0 = unknown */
	/*
	 * The reader knows the block of each event (allocations count from 0) and fills
	 * block_id, stack_id, size_bytes (below 2^48), and of frees TRACE_EVENT_TEMPORARY; all are
	 * TRACE_ALLOC or TRACE_FREE. There are no addresses then, and lifetimes are not counted.
	 */
	bool known;
};

/* After import_begin(). */
TM_MUST_CHECK int events_new(struct import_job *job, const struct events_options *options,
			     struct events **ret_events, struct tm_error *err);
struct events *events_free(struct events *events);

TM_MUST_CHECK int events_flush(struct events *events, struct tm_error *err);
static inline struct trace_event *events_next(struct events *events)
{
	return &events->batch[events->count];
}
static inline TM_MUST_CHECK int events_put(struct events *events, struct tm_error *err)
{
	return ++events->count < EVENTS_BATCH ? 0 : events_flush(events, err);
}

TM_MUST_CHECK int events_map(struct events *events, const struct trace_map_event *map,
			     struct tm_error *err);
TM_MUST_CHECK int events_sample(struct events *events, const struct trace_sample *sample,
				struct tm_error *err);
/* The rest of the batch and the last slice. Before import_end(). */
TM_MUST_CHECK int events_finish(struct events *events, struct events_counts *ret_counts,
				struct tm_error *err);
