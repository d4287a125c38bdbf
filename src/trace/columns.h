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

enum column {
	COLUMN_TOKEN,      /* one byte per event */
	COLUMN_TIME,       /* runs of events in one microsecond, and steps to the next */
	COLUMN_THREAD,     /* first thread; then runs of events, and which thread comes next */
	COLUMN_STACK,      /* stacks that were not foreseen */
	COLUMN_SIZE,       /* sizes that were not foreseen */
	COLUMN_FREE,       /* freed blocks that were not foreseen */
	COLUMN_FREE_STACK, /* only with --free-stacks: one per free */
	COLUMN_EXTRA,      /* api and alignment where a stack's differ from its last */
	COLUMN_CULLED, /* only where blocks are culled: jumps in their numbers, enum culled_mark */
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

/* An entry of COLUMN_CULLED: this + 2 * the events since that of the entry before. */
enum culled_mark {
	CULLED_JUMP = 0,    /* it begins a block; so many numbers before it are not here: varint */
	CULLED_LASTING = 1, /* it ends a block that seems temporary and is not */
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
	return address + (trace_word_size(size_bytes) + 23) / 16 * 16;
}

/* Which size class, in the steps of the C library's allocator. */
static inline unsigned column_size_class(uint64_t size_bytes)
{
	uint64_t step = (trace_word_size(size_bytes) + 23) / 16;
	return step < COLUMN_SIZE_CLASSES ? (unsigned)step : 0;
}
