/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the model does with the live table for every event, inline: each of
 * these costs less than a call. live.h has the picture.
 */
#pragma once

#include "model/live.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

static inline uint64_t live_size_bytes(const struct live_block *block)
{
	return block->size_thread & LIVE_48_BITS;
}

static inline uint64_t live_birth_us(const struct live_block *block)
{
	return block->birth_thread & LIVE_48_BITS;
}

static inline uint64_t live_other(const struct live_block *block)
{
	return block->other_slice & LIVE_48_BITS;
}

static inline uint32_t live_birth_slice(const struct live_block *block)
{
	return (uint32_t)(block->other_slice >> 48);
}

static inline uint32_t live_thread_id(const struct live_block *block)
{
	return (uint32_t)(block->birth_thread >> 48 << 16 | block->size_thread >> 48);
}

struct live_facts {
	uint32_t slot, thread_id, birth_slice;
	uint64_t size_bytes, birth_us, other;
};

/* Everything but the key. */
static inline void live_describe(struct live_block *block, const struct live_facts *facts)
{
	block->slot = facts->slot;
	block->size_thread = facts->size_bytes | (uint64_t)facts->thread_id << 48;
	block->birth_thread = facts->birth_us | (uint64_t)(facts->thread_id >> 16) << 48;
	block->other_slice = (facts->other & LIVE_48_BITS) | (uint64_t)facts->birth_slice << 48;
}

#define LIVE_MIX_1 0x9e3779b97f4a7c15ull
#define LIVE_MIX_2 0xd6e8feb86659fd93ull

/* One-to-one, so that the mixed key stands for the key. */
static inline uint64_t live_mix(const struct live_table *table, uint64_t key)
{
	uint64_t mixed = (key ^ table->seed) * LIVE_MIX_1;
	mixed ^= mixed >> 32;
	return mixed * LIVE_MIX_2;
}

static inline struct live_page *live_page_of(const struct live_table *table, uint64_t mixed)
{
	return table->directory[mixed >> table->shift];
}

static inline struct live_block *live_block_at(const struct live_table *table, uint32_t number)
{
	return &table->chunks[number >> LIVE_CHUNK_LOG2][number & LIVE_CHUNK_MASK];
}

/* Where number `at` of the free blocks' numbers stands. */
static inline uint32_t *live_free_place(const struct live_table *table, uint32_t at)
{
	return &table->frees[at >> LIVE_CHUNK_LOG2][at & LIVE_CHUNK_MASK];
}

static inline uint32_t live_count(const struct live_table *table)
{
	return table->unused - table->free_count;
}

static inline struct live_line *live_home(struct live_page *page, uint32_t tag)
{
	return &page->lines[tag & LIVE_LINE_MASK];
}

static inline struct live_line *live_next_line(struct live_page *page, struct live_line *line)
{
	return ++line < page->lines + LIVE_PAGE_LINES ? line : page->lines;
}

/* Into the second cache: the first takes fewer at a time, and who calls for more waits. */
static inline void live_prefetch(const struct live_table *table, uint64_t mixed)
{
	__builtin_prefetch(live_home(live_page_of(table, mixed), (uint32_t)(mixed >> 32)), 1, 2);
}

/*
 * Bit i: slot i is used and has this tag. The tags are read 16 bytes at a time,
 * which stalls on words that were just stored: live_put() stores a tag only
 * where it changes, and what changes often lies in the line's other half.
 */
static inline uint32_t live_match(const struct live_line *line, uint32_t tag)
{
#ifdef __SSE2__
	__m128i wanted = _mm_set1_epi32((int)tag);
	__m128i low = _mm_load_si128((const __m128i *)line->tags);
	__m128i high = _mm_load_si128((const __m128i *)(line->tags + 4));
	int low_bits = _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(low, wanted)));
	int high_bits = _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(high, wanted)));
	return ((uint32_t)low_bits | (uint32_t)high_bits << 4) & line->used;
#else
	uint32_t found = 0;
	for (uint32_t slot = 0; slot < LIVE_LINE_SLOTS; slot++)
		found |= (uint32_t)(line->tags[slot] == tag) << slot;
	return found & line->used;
#endif
}

static inline bool live_page_is_full(const struct live_page *page)
{
	return page->count >= LIVE_PAGE_FULL;
}

/* Where a key is; block NULL if it is nowhere. */
struct live_place {
	struct live_line *line;
	uint32_t slot;
	struct live_block *block;
};

/* `page` is live_page_of() the key, here and below. */
static inline struct live_place live_find(const struct live_table *table, struct live_page *page,
					  uint64_t mixed)
{
	uint32_t tag = (uint32_t)(mixed >> 32);
	struct live_line *line = live_home(page, tag);
	for (;; line = live_next_line(page, line)) {
		for (uint32_t found = live_match(line, tag); found; found &= found - 1) {
			uint32_t slot = (uint32_t)__builtin_ctz(found);
			struct live_block *block = live_block_at(table, line->numbers[slot]);
			if (block->low == (uint32_t)mixed)
				return (struct live_place){line, slot, block};
		}
		if (!line->passed)
			return (struct live_place){0};
	}
}

/* A slot for a tag, which must not be there with the same low half. The page must not be full. */
static inline void live_put(struct live_page *page, uint32_t tag, uint32_t number)
{
	struct live_line *line = live_home(page, tag);
	while (line->used == (1u << LIVE_LINE_SLOTS) - 1) {
		line->passed++;
		line = live_next_line(page, line);
	}
	uint32_t slot = (uint32_t)__builtin_ctz(~line->used);
	if (line->tags[slot] != tag)
		line->tags[slot] = tag;
	line->numbers[slot] = number;
	line->used |= 1u << slot;
	page->count++;
}

/* Add a key that live_find() did not find. Room must have been reserved. Only `low` is set. */
static inline struct live_block *live_add(struct live_table *table, struct live_page *page,
					  uint64_t mixed)
{
	uint32_t number;
	if (table->free_count) {
		number = *live_free_place(table, --table->free_count);
		/* Freed in any order, so those that come next may be anywhere. */
		uint32_t soon = table->free_count < LIVE_FREE_AHEAD ? 0 : LIVE_FREE_AHEAD;
		__builtin_prefetch(
			live_block_at(table, *live_free_place(table, table->free_count - soon)), 1);
	} else {
		number = table->unused++;
	}
	struct live_block *block = live_block_at(table, number);
	block->low = (uint32_t)mixed;
	live_put(page, (uint32_t)(mixed >> 32), number);
	return block;
}

/* The block must be read before: its memory is free afterwards. */
static inline void live_remove(struct live_table *table, struct live_page *page, uint64_t mixed,
			       struct live_place place)
{
	struct live_line *line = place.line;
	struct live_line *home = live_home(page, (uint32_t)(mixed >> 32));
	line->used &= ~(1u << place.slot);
	for (; __builtin_expect(home != line, 0); home = live_next_line(page, home))
		home->passed--;
	page->count--;
	*live_free_place(table, table->free_count++) = line->numbers[place.slot];
}
