/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads by how recently they had an event: reader and writer of a block of
 * events name a thread by its rank among them. Inlined, as foresee.h.
 */
#pragma once

#include "trace/columns.h"

#include <stdint.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* [0] is the present one. */
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
