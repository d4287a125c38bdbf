/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of struct model, for the files of this folder only. Times are kept in
 * whole microseconds: what a trace stores, so that a model made from the trace
 * and the one that ran while it was recorded are equal.
 */
#pragma once

#include "model/cells.h"
#include "model/live_hot.h"
#include "model/maps.h"
#include "model/model.h"
#include "model/stacks.h"
#include "model/threads.h"
#include "model/unseen.h"
#include "model/young.h"

enum {
	MODEL_GROUP = 32,                  /* events that are looked at ahead */
	MODEL_DEFERRED = 4 * MODEL_GROUP,  /* cells that a group can need */
	MODEL_SLICE_EVENTS_MAX = 1u << 30, /* 32-bit counters of the open slice */
	MODEL_SLICES_BEFORE_DOUBLING = 1024,
	MODEL_SLICES_GROW = 4 * MODEL_SLICES_BEFORE_DOUBLING,
	MODEL_SLICES_SCARCE = 32 * MODEL_SLICES_BEFORE_DOUBLING,
	MODEL_CELLS_MOST = 1 << 20, /* a slice ends when it has so many ... */
	MODEL_CELLS_SMALL = 1 << 14,
	MODEL_SLICES_BY_CELLS = 32768, /* ... but only so many slices end by that */
	MODEL_SLICE_COUNT_MAX = 65535, /* birth slices are kept in 16 bits */
};

/* The open slice: where it began, and its extremes. */
struct model_open_slice {
	uint32_t slice_id;
	bool peak_rose;
	uint64_t start_us;
	uint64_t clock_us; /* of its first event: it lasts from there */
	uint64_t other_us; /* of the last sample before it: events may be far behind those */
	uint64_t first_event, first_allocation, first_bytes, first_frees, first_freed_bytes;
	uint64_t first_temporary;
	uint64_t min_bytes, max_bytes, max_us;
};

/* Rows of the slice that was taken last. */
struct model_rows {
	struct trace_slice_row *rows;
	struct trace_death *deaths;
	struct trace_bucket *buckets;
	uint64_t *order, *order_other; /* stack_id << 32 | slot */
	uint64_t *sorted;              /* one of these two */
	uint32_t *rank;                /* slot -> row */
	uint32_t *counts;              /* of cells by class, then by row */
	struct cell *cells, *cells_other;
	size_t rows_room, deaths_room, buckets_room, order_room, order_other_room, rank_room;
	size_t counts_room, cells_room, cells_other_room;
};

/* The sample with the largest RSS, and what was in use at its time. */
struct model_rss {
	struct trace_sample sample;
	uint64_t time_us;
	uint64_t heap_bytes, mapped_bytes;
	bool heap_known, mapped_known; /* later events than the sample have been seen */
};

struct model {
	/* touched by every event */
	struct young_table young;
	struct live_table live;
	struct stack_table stacks;
	struct thread_table threads;
	uint64_t now_us;
	uint64_t next_us_ns; /* events before this have the time now_us, if it is not 0 */
	uint64_t size_limit; /* larger sizes need a look at the sums */
	uint64_t events, allocations, allocated_bytes;
	uint64_t live_bytes;
	uint64_t extra_births, extra_live; /* what sampled blocks stand for beside themselves */
	uint64_t unlisted; /* live blocks that are not in the live table (loaded models only) */
	uint64_t peak_bytes, peak_blocks, peak_us;
	uint32_t epoch;
	bool by_block; /* replay: blocks are found by block_id, not by address */
	bool loaded;   /* from aggregates: old live blocks are not in the live table */
	bool saturated;
	uint32_t stack_count; /* stacks that allocated */
	struct model_open_slice slice;
	uint64_t temporary, failed, freed_unseen, freed_older;
	uint64_t unread_events; /* in damaged blocks of a trace */
	struct unseen unseen;
	const struct trace_event *group; /* that is being applied: m->events counts those before */

	uint64_t slice_events, slice_us;
	size_t cells_most; /* of a slice */
	uint64_t deferred_count;
	struct cell deferred[MODEL_DEFERRED]; /* to be added after the group; key without + 1 */
	struct cell_table cells;
	struct model_rows out;

	struct map_set maps;
	struct model_rss rss;
	uint64_t other_us; /* of the last sample or map event */
};

/* floor(log2(value)) + 1, 0 for 0; the last bucket takes what is beyond. */
static inline uint32_t model_bucket(uint64_t value)
{
	if (value >> (TRACE_BUCKETS - 2))
		return TRACE_BUCKETS - 1;
	return 63 ^ (uint32_t)__builtin_clzll(2 * value + 1);
}

static inline uint64_t model_live_count(const struct model *m)
{
	return m->young.count + live_count(&m->live) + m->unlisted + m->extra_live;
}

/* All of them, those that are not recorded included; m->allocations numbers those that are. */
static inline uint64_t model_births(const struct model *m)
{
	return m->allocations + m->extra_births;
}

static inline uint64_t model_frees(const struct model *m)
{
	return model_births(m) - model_live_count(m);
}

/* A new epoch; every 2^32 epochs all stacks are settled, so that an old one is never taken for new.
 */
void model_next_epoch(struct model *m);
/* The stack's share of the peak so far. */
static inline uint64_t model_share_bytes(const struct model *m, const struct stack_hot *stack)
{
	return stack->epoch == m->epoch ? stack->saved_bytes : stacks_live_bytes(stack);
}
static inline uint64_t model_share_blocks(const struct model *m, const struct stack_hot *stack)
{
	return stack->epoch == m->epoch ? stack->saved_blocks : stacks_live_blocks(stack);
}
/* Makes the present sums the start of the open slice. */
void model_slice_begin(struct model *m, uint32_t slice_id);
void model_rows_done(struct model_rows *rows);
/* Replay: the open slice's counters join the sums, without rows. */
void model_slice_fold(struct model *m);
/*
 * Replay of the end of a trace: a block that lived before, as its allocation
 * event. It is put into the live table, or with `ended` made the block that the
 * thread's last REALLOC_FREE ended; it is counted nowhere. 0 or -ENOMEM.
 */
TM_MUST_CHECK int model_adopt(struct model *m, const struct trace_event *birth);
TM_MUST_CHECK int model_adopt_pending(struct model *m, const struct trace_event *birth,
				      uint32_t thread_id);
