/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap blocks from events: each block that a filter chooses is reported once,
 * when its fate is known. The way for questions that aggregates cannot answer.
 * Memory: 80 bytes per block that may be chosen and lives.
 */
#pragma once

#include "base/error.h"
#include "model/filter.h"
#include "trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WALK_NEVER UINT64_MAX

/* Moments as ordinals of events: a block is cut by those at which a failed realloc held it. */
enum { WALK_CUT_START, WALK_CUT_END, WALK_CUT_PEAK, WALK_CUTS };

struct walk_block {
	uint64_t block_id, size_bytes, address;
	struct trace_weight weight; /* what it stands for */
	uint64_t birth_ns, birth_event;
	uint32_t stack_id, thread_id;
	uint8_t op, api, align_log2;
	uint8_t absent; /* bit per cut: a realloc that failed held it then */
	uint32_t next;  /* of the free list */
};

struct walk_end {
	uint64_t event;   /* ordinal; WALK_NEVER: it has not ended */
	uint64_t time_ns; /* of the last event, if it has not */
	uint64_t next_block_id;
	uint32_t thread_id, free_stack_id;
	uint8_t op; /* TRACE_OP_COUNT: it has not */
	bool is_temporary;
};

/* A failed realloc held a block at a cut: rare, so kept beside the blocks. */
struct walk_gap {
	uint64_t block_id, held_ns; /* since when */
	uint32_t thread_id;
	unsigned cut;
};

enum walk_move { WALK_BEGINS, WALK_ENDS, WALK_RETURNS /* after a failed realloc */ };

struct walk_thread;
struct walk {
	/* Set by the caller: */
	const struct filter_bound *filter; /* NULL: all */
	uint64_t cuts[WALK_CUTS];
	uint64_t now_ns;    /* for ages */
	uint64_t now_event; /* blocks that live after all events before this ordinal are of now */
	bool marked;        /* ends of older blocks have TRACE_EVENT_TEMPORARY where it is due */
	uint64_t end_ns;    /* of the run: how old unfreed blocks are at least */
	int (*chosen)(void *ctx, const struct walk_block *block, const struct walk_end *end);
	int (*failed)(void *ctx, uint64_t ordinal, const struct trace_event *event); /* or NULL */
	/* Each move of a block that may be chosen, in order; may be NULL. */
	void (*moved)(void *ctx, uint64_t ordinal, const struct walk_block *block,
		      enum walk_move move);
	void *ctx;
	/*
	 * To hold no more than `limit` blocks at a time (0: all): blocks before from_id are not
	 * looked at, and when there are too many, until_id becomes the first that was not: another
	 * walk can begin there.
	 */
	uint64_t from_id, until_id, limit;
	/* The walk's own: */
	struct walk_block *blocks;
	uint32_t used, room, free_head; /* free_head: number + 1 */
	uint32_t *index;                /* number + 1 of a block */
	size_t index_room, count;
	struct walk_thread *threads;
	size_t thread_room;
	struct walk_gap *gaps;
	size_t gap_count;
	uint64_t last_ns;
	uint64_t first_block_id; /* of the block of events */
};

/* All of a decoded block of events, in order. 0, what a callback returned, -ENOMEM. */
TM_MUST_CHECK int walk_events(struct walk *walk, const struct trace_event_block *facts,
			      const struct trace_event *events, size_t count);
/* Reports what is still alive. */
TM_MUST_CHECK int walk_finish(struct walk *walk);
void walk_done(struct walk *walk);
