/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that reader and writer of a block of events share the workings of:
 * which stack came after which history, which blocks live, which addresses were
 * freed. Only what it does not foresee is written. Inlined: it is the hot path
 * of both directions.
 */
#pragma once

#include "base/memory.h"
#include "trace/columns.h"
#include "trace/recent.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A stack that occurred in this block of events. */
struct foresee_stack {
	uint32_t stack_id;
	uint32_t follower; /* local number of the stack that came after it last */
	uint64_t size_bytes;
	uint64_t address;
	uint8_t api, align_log2;
};

/* What came last time after the same history. */
struct foresee_slot {
	uint32_t stack; /* local number */
	uint32_t size_bytes;
};

/*
 * The history before an allocation: the local numbers of the last three stacks
 * and the kinds of the last two frees after them.
 */
struct foresee_history {
	uint64_t stacks; /* 21 bits each, the last in the low ones */
	uint32_t frees;  /* two bits each: kind + 1 */
};

static inline uint32_t foresee_history_slot(const struct foresee_history *history)
{
	uint64_t mixed =
		history->stacks * 0x9e3779b97f4a7c15u + history->frees * 0xc2b2ae3d27d4eb4fu;
	return (uint32_t)(mixed >> 50);
}

static inline void foresee_history_alloc(struct foresee_history *history, uint32_t stack)
{
	history->stacks = history->stacks << 21 | stack;
	history->frees = 0;
}

static inline void foresee_history_free(struct foresee_history *history, unsigned kind)
{
	history->frees = (history->frees << 2 | ((kind + 1) & 3)) & 15;
}

/*
 * The blocks that began in this block of events and live, one list per thread,
 * youngest at the end: one node per local number, and one for the ends of each.
 * Two arrays, because links are written one by one and would be read in pairs,
 * which the processor cannot forward from one store to the next load.
 */
struct foresee_live {
	uint32_t *older, *younger; /* [COLUMN_LIVE_ROOM] each, one allocation */
};

static inline bool foresee_live_init(struct foresee_live *live)
{
	live->older = tm_grow_array(NULL, (size_t)2 * COLUMN_LIVE_ROOM, sizeof *live->older);
	if (!live->older)
		return false;
	live->younger = live->older + COLUMN_LIVE_ROOM;
	return true;
}

static inline void foresee_live_done(struct foresee_live *live)
{
	live->older = tm_free(live->older);
}

static inline void foresee_live_add(const struct foresee_live *live, uint32_t ends, uint32_t block)
{
	uint32_t top = live->older[ends];
	live->older[block] = top;
	live->younger[block] = ends;
	live->younger[top] = block;
	live->older[ends] = block;
}

static inline void foresee_live_remove(const struct foresee_live *live, uint32_t block)
{
	uint32_t older = live->older[block], younger = live->younger[block];
	live->younger[older] = younger;
	live->older[younger] = older;
	live->older[block] = COLUMN_LIVE_NOT;
}

/* What is foreseen for each thread by its own doing. */
struct foresee_thread {
	struct foresee_history history;
	uint32_t last_older, last_younger; /* neighbours of the block it freed last */
	uint64_t address;                  /* behind the block it allocated last */
	/* Per size class: the block it freed last, linked to those before; UINT32_MAX = none. */
	uint32_t freed[COLUMN_SIZE_CLASSES];
};

static inline void foresee_threads_start(struct foresee_thread *threads,
					 const struct foresee_live *live)
{
	memset(threads, 0, COLUMN_THREADS * sizeof *threads);
	for (uint32_t i = 0; i < COLUMN_THREADS; i++) {
		uint32_t ends = COLUMN_LIVE_ENDS + i;
		live->older[ends] = live->younger[ends] = ends;
		threads[i].last_older = threads[i].last_younger = ends;
		memset(threads[i].freed, 0xff, sizeof threads[i].freed);
	}
}
