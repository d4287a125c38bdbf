/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events as columns. What both directions share: which columns there are and
 * how a token is made up. docs/trace-format.md has the meaning of every byte.
 *
 * Both sides keep the same small memory while they go through a block (which
 * stack followed which, the last size of a stack, which blocks are live) and
 * only what that memory does not foresee is written. It starts empty in each
 * block, so that each can be read alone.
 */
#pragma once

#include "trace/format.h"
#include "trace/records.h"

#include <stdint.h>
#include <string.h>

enum column {
	COLUMN_TOKEN,      /* one byte per event */
	COLUMN_TIME,       /* runs of events in one microsecond, and steps to the next */
	COLUMN_THREAD,     /* first thread; then runs of events, and which thread comes next */
	COLUMN_STACK,      /* stacks that were not foreseen */
	COLUMN_SIZE,       /* sizes that were not foreseen */
	COLUMN_FREE,       /* freed blocks that were not foreseen */
	COLUMN_FREE_STACK, /* only with --free-stacks: one per free */
	COLUMN_EXTRA,      /* api and alignment where a stack's differ from its last */
	COLUMN_EVENTS_COUNT,
	COLUMN_ADDRESS_HIT = COLUMN_EVENTS_COUNT, /* one byte per block that begins */
	COLUMN_ADDRESS,                           /* addresses that were not foreseen */
	COLUMN_COUNT,
};

/*
 * Token of an event that has a stack and a size:
 *   kind * 9 + how its stack was foreseen * 3 + how its size was
 * Token of an event that ends a block:
 *   TOKEN_FREE + kind * 8 + enum token_free
 * and TOKEN_EXTRA where COLUMN_EXTRA has something for it.
 */
enum {
	TOKEN_ALLOC_KIND = 9,
	TOKEN_FREE_KIND = 8,
	TOKEN_FREE = 4 * TOKEN_ALLOC_KIND,
	TOKEN_END = TOKEN_FREE + 4 * TOKEN_FREE_KIND,
	TOKEN_EXTRA = 128,
};
enum token_foreseen {
	TOKEN_BY_HISTORY = 0, /* as the last time after the same history */
	TOKEN_BY_STACK = 1,   /* stack: as the last time after this stack; size: as its last */
	TOKEN_MISS = 2,       /* written: COLUMN_STACK, COLUMN_SIZE */
};
enum token_free {
	TOKEN_FREE_TOP = 0,      /* the youngest of this thread's that lives */
	TOKEN_FREE_NEXT = 1,     /* the next younger that lives after the one it freed last */
	TOKEN_FREE_PREVIOUS = 2, /* the next older */
	TOKEN_FREE_LOCAL = 3, /* COLUMN_FREE: how many were born in this block of events after it */
	TOKEN_FREE_OLD = 4,   /* COLUMN_FREE: born earlier; signed difference to the one before */
	TOKEN_FREE_OLD_NEXT = 5,   /* that difference is +1 */
	TOKEN_FREE_OLD_BEFORE = 6, /* -1 */
	TOKEN_FREE_UNKNOWN = 7,    /* no block */
};

/* The kinds of a token, in the order of their numbers. */
static const uint8_t column_alloc_ops[4] = {TRACE_ALLOC, TRACE_REALLOC_ALLOC, TRACE_REALLOC_UNDO,
					    TRACE_ALLOC_FAIL};
static const uint8_t column_free_ops[4] = {TRACE_FREE, TRACE_REALLOC_FREE, TRACE_FREE_UNSEEN,
					   TRACE_FREE_OLDER};

enum {
	COLUMN_THREADS = 64, /* threads are told apart modulo this */
	COLUMN_LIVE_ENDS =
		FORMAT_BLOCK_EVENTS, /* the two ends of each thread's list, as one node */
	COLUMN_LIVE_ROOM = COLUMN_LIVE_ENDS + COLUMN_THREADS,
	COLUMN_LIVE_NOT = COLUMN_LIVE_ROOM, /* not in a list */
	COLUMN_SIZE_CLASSES = 128,
	COLUMN_TICK_NS = 1000,
	COLUMN_HISTORIES = 16384,
	COLUMN_STACK_MASK = (1 << 21) - 1, /* of the last stack in a history */
	COLUMN_ESCAPE = 15,                /* in a nibble: more follows */
};

/* How an address was foreseen: COLUMN_ADDRESS_HIT. */
enum {
	COLUMN_ADDRESS_FREED = 0, /* that of the block of its size class that was freed last */
	COLUMN_ADDRESS_NEXT = 1,  /* behind the block before */
	COLUMN_ADDRESS_MISS = 2,  /* COLUMN_ADDRESS: 16ths of the difference to its stack's last */
	COLUMN_ADDRESS_ODD = 3,   /* COLUMN_ADDRESS: the difference to its stack's last */
};

static inline uint64_t column_next_address(uint64_t address, uint64_t size_bytes)
{
	return address + (size_bytes + 23) / 16 * 16;
}

/* Which size class, in the steps of the C library's allocator. */
static inline unsigned column_size_class(uint64_t size_bytes)
{
	uint64_t step = (size_bytes + 23) / 16;
	return step < COLUMN_SIZE_CLASSES ? (unsigned)step : 0;
}

/* A stack that occurred in this block of events. */
struct column_stack {
	uint32_t stack_id;
	uint32_t follower; /* local number of the stack that came after it last */
	uint64_t size_bytes;
	uint64_t address;
	uint8_t api, align_log2;
};

/* What came last time after the same history. */
struct column_foreseen {
	uint32_t stack; /* local number */
	uint32_t size_bytes;
};

/*
 * The history before an allocation: the local numbers of the last three stacks
 * and the kinds of the last two frees after them.
 */
struct column_history {
	uint64_t stacks; /* 21 bits each, the last in the low ones */
	uint32_t frees;  /* two bits each: kind + 1 */
};

static inline uint32_t column_history_slot(const struct column_history *history)
{
	uint64_t mixed =
		history->stacks * 0x9e3779b97f4a7c15u + history->frees * 0xc2b2ae3d27d4eb4fu;
	return (uint32_t)(mixed >> 50);
}

static inline void column_history_alloc(struct column_history *history, uint32_t stack)
{
	history->stacks = history->stacks << 21 | stack;
	history->frees = 0;
}

static inline void column_history_free(struct column_history *history, unsigned kind)
{
	history->frees = (history->frees << 2 | ((kind + 1) & 3)) & 15;
}

/*
 * The blocks that began in this block of events and live, one list per thread,
 * youngest at the end: one node per local number, and one for the ends of each.
 */
struct column_live {
	uint32_t older, younger;
};

static inline void column_live_add(struct column_live *live, uint32_t ends, uint32_t block)
{
	uint32_t top = live[ends].older;
	live[block] = (struct column_live){.older = top, .younger = ends};
	live[top].younger = block;
	live[ends].older = block;
}

static inline void column_live_remove(struct column_live *live, uint32_t block)
{
	struct column_live links = live[block];
	live[links.older].younger = links.younger;
	live[links.younger].older = links.older;
	live[block].older = COLUMN_LIVE_NOT;
}

/* What is foreseen for each thread by its own doing. */
struct column_thread {
	struct column_history history;
	struct column_live last; /* neighbours of the block it freed last */
	uint64_t address;        /* behind the block it allocated last */
	/* Per size class: the block it freed last, linked to those before; UINT32_MAX = none. */
	uint32_t freed[COLUMN_SIZE_CLASSES];
};

static inline void column_threads_start(struct column_thread *threads, struct column_live *live)
{
	memset(threads, 0, COLUMN_THREADS * sizeof *threads);
	for (uint32_t i = 0; i < COLUMN_THREADS; i++) {
		uint32_t ends = COLUMN_LIVE_ENDS + i;
		live[ends] = (struct column_live){.older = ends, .younger = ends};
		threads[i].last = live[ends];
		memset(threads[i].freed, 0xff, sizeof threads[i].freed);
	}
}

/* Threads by how recently they had an event: [0] is the present one. */
struct column_recent {
	uint32_t thread_id[COLUMN_ESCAPE];
	uint32_t count;
};

/* Move a thread to the front; its rank before, or COLUMN_ESCAPE if it was not there. */
static inline unsigned column_recent_use(struct column_recent *recent, uint32_t thread_id)
{
	unsigned rank = 0;
	while (rank < recent->count && recent->thread_id[rank] != thread_id)
		rank++;
	unsigned last = rank;
	if (rank == recent->count) {
		rank = COLUMN_ESCAPE;
		if (recent->count < COLUMN_ESCAPE)
			recent->count++;
		last = recent->count - 1;
	}
	for (; last > 0; last--)
		recent->thread_id[last] = recent->thread_id[last - 1];
	recent->thread_id[0] = thread_id;
	return rank;
}
