/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the collector stands in each stream. A cursor follows the chain of
 * chunks of one stream slot; two limits divide what it may read:
 *
 *        read             first snapshot      second snapshot     committed
 *   ──────┴─────────────────────┴───────────────────┴────────────────┴──
 *          to be released now      only if its stamp   not yet looked at
 *                                  is smaller
 *
 * The second snapshot of a pass is the first of the next. Nothing in shared
 * memory is believed: chunk numbers and counts are checked and kept here, and a
 * chunk belongs to one cursor at a time.
 */
#pragma once

#include "base/error.h"
#include "wire/pool.h"

#include <stdbool.h>
#include <stddef.h>

#define CURSOR_DRY UINT64_MAX

enum { CURSOR_TAKEN_MAX = 8 };

struct cursor {
	const uint64_t *at;    /* next unread word of the present chunk */
	const uint64_t *end;   /* end of its words in the second snapshot */
	uint64_t stamp;        /* full stamp of the event at `at`; CURSOR_DRY: none */
	uint64_t first_words;  /* unread words of the first snapshot */
	uint64_t second_words; /* unread words of the second snapshot, the first's included */
	uint64_t serial;       /* of the stream; 0: this slot is not followed */
	uint32_t slot;
	uint32_t thread_id;
	uint32_t chunk;      /* present chunk, index + 1; 0 none */
	uint32_t last_chunk; /* newest chunk seen in the chain; 0 none */
	uint32_t head_seq;
	uint32_t tid, lane;
	uint32_t idle_passes; /* snapshots in a row that brought nothing */
	bool revoking;        /* asked for the chunk; it is not ours yet */
	bool final;           /* nothing more comes in this chain */
	bool gone;            /* the thread no longer exists */
	bool ended;           /* and that has been told */
	bool broken;          /* the chain made no sense: read no further */
	uint8_t taken_count;
	const uint64_t *taken[CURSOR_TAKEN_MAX]; /* events already applied out of order */
};

struct cursors {
	const struct wire_map *map;
	struct cursor *all; /* one per stream slot */
	uint32_t *followed; /* slots with serial != 0, in any order */
	uint32_t followed_count;
	uint32_t *chunk_words; /* per chunk: words seen committed */
	uint32_t *chunk_next;  /* per chunk: successor seen, index + 1 */
	uint8_t *chunk_owned;  /* per chunk: 1 while a cursor has it */
	uint64_t bad;          /* things that made no sense */
	uint32_t returned;     /* chunks given back since the last wake */
	/*
	 * Read chunks that the pool gets later, oldest first: what lies in this processor's cache
	 * must be fetched from it, line by line, when a thread writes there again.
	 */
	uint32_t *held;                        /* ring of [chunk_count] */
	uint32_t held_first, held_count, read; /* chunks read since the last snapshot */
	bool can_revoke;                       /* membarrier(GLOBAL) works here */
	/* Per slot: the tid that was found to be gone; written by the watch thread. */
	_Atomic uint32_t *dead;
};

/* Sums over all streams, as the agent counts them. */
struct cursor_counters {
	uint64_t lost, waited_ns, cut, fp_frames, frames, unwinds;
	uint64_t cost, samples; /* ticks of the stamps' clock; sampled blocks and their ends */
};

TM_MUST_CHECK int cursors_init(struct cursors *cursors, const struct wire_map *map);
void cursors_done(struct cursors *cursors);

typedef void (*cursor_fn)(void *ctx, struct cursor *cursor);

/*
 * A new snapshot: the second becomes the first. begin() is told of streams seen
 * for the first time. Returns the words of the first. O(streams ever used).
 */
uint64_t cursors_snapshot(struct cursors *cursors, cursor_fn begin, void *ctx);

/* Everything of the present chunk is read: give it back and go on. False when dry. */
bool cursor_next_chunk(struct cursors *cursors, struct cursor *cursor);

/*
 * After a pass: gives back chunks that were taken from idle threads, and slots
 * when they are scarce. ended() is told once of each thread that is gone.
 */
void cursors_sweep(struct cursors *cursors, cursor_fn ended, void *ctx);

/* Threads wait for chunks: tell those that got some back. */
void cursors_wake(struct cursors *cursors);
/* Ask idle threads for their chunks. Returns how many were asked. */
uint32_t cursors_revoke_idle(struct cursors *cursors);

struct cursor_counters cursors_counters(const struct cursors *cursors);
