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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

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

/* Threads by how recently they had an event: [0] is the present one. */
struct foresee_recent {
	uint32_t thread_id[COLUMN_ESCAPE + 1]; /* the last is no thread's */
	uint32_t count;
};
_Static_assert(COLUMN_ESCAPE == 15, "four times four lanes");

/*
 * Which of many threads comes next is as good as random, so both steps of moving
 * one to the front do the same for each: no branch depends on it.
 */
#ifdef __SSE2__
static inline __m128i foresee_recent_equal(const struct foresee_recent *recent, int at,
					   __m128i wanted)
{
	return _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)(recent->thread_id + at)), wanted);
}

static inline uint32_t foresee_recent_match(const struct foresee_recent *recent, uint32_t thread_id)
{
	__m128i wanted = _mm_set1_epi32((int)thread_id);
	__m128i low = _mm_packs_epi32(foresee_recent_equal(recent, 0, wanted),
				      foresee_recent_equal(recent, 4, wanted));
	__m128i high = _mm_packs_epi32(foresee_recent_equal(recent, 8, wanted),
				       foresee_recent_equal(recent, 12, wanted));
	return (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(low, high));
}

/* Four of them move one up as far as they are before `end`; what stood there. */
static inline __m128i foresee_recent_move(struct foresee_recent *recent, int at, __m128i end,
					  __m128i before)
{
	/* Loaded as it was stored: a load across two stores would wait for both. */
	__m128i *place = (__m128i *)(recent->thread_id + at), present = _mm_loadu_si128(place);
	__m128i mask = _mm_cmpgt_epi32(end, _mm_setr_epi32(at, at + 1, at + 2, at + 3));
	__m128i moved = _mm_or_si128(_mm_slli_si128(present, 4), _mm_srli_si128(before, 12));
	_mm_storeu_si128(place,
			 _mm_or_si128(_mm_and_si128(mask, moved), _mm_andnot_si128(mask, present)));
	return present;
}

/* [0, last) move one up, and the thread is [0]. */
static inline void foresee_recent_push(struct foresee_recent *recent, unsigned last,
				       uint32_t thread_id)
{
	__m128i end = _mm_set1_epi32((int)last + 1);
	__m128i before = _mm_slli_si128(_mm_cvtsi32_si128((int)thread_id), 12);
	before = foresee_recent_move(recent, 0, end, before);
	before = foresee_recent_move(recent, 4, end, before);
	before = foresee_recent_move(recent, 8, end, before);
	foresee_recent_move(recent, 12, end, before);
}
#else
static inline uint32_t foresee_recent_match(const struct foresee_recent *recent, uint32_t thread_id)
{
	uint32_t found = 0;
	for (unsigned i = 0; i < COLUMN_ESCAPE; i++)
		found |= (uint32_t)(recent->thread_id[i] == thread_id) << i;
	return found;
}

static inline void foresee_recent_push(struct foresee_recent *recent, unsigned last,
				       uint32_t thread_id)
{
	for (; last > 0; last--)
		recent->thread_id[last] = recent->thread_id[last - 1];
	recent->thread_id[0] = thread_id;
}
#endif

/* Move a thread to the front; its rank before, or COLUMN_ESCAPE if it was not there. */
static inline unsigned foresee_recent_use(struct foresee_recent *recent, uint32_t thread_id)
{
	/* What stands beyond the count is of an earlier block. */
	uint32_t found = foresee_recent_match(recent, thread_id) & ((1u << recent->count) - 1);
	if (__builtin_expect(found != 0, 1)) {
		unsigned rank = (unsigned)__builtin_ctz(found);
		foresee_recent_push(recent, rank, thread_id);
		return rank;
	}
	recent->count += recent->count < COLUMN_ESCAPE;
	foresee_recent_push(recent, recent->count - 1, thread_id);
	return COLUMN_ESCAPE;
}
