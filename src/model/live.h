/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live blocks, found by a 64-bit key: the address, or where a trace is
 * replayed the block_id. Extendible hashing over an index of 8-byte slots, and
 * 32-byte blocks beside it:
 *
 *   mixed key (64 bits, one-to-one with the key)
 *   |-- tag: 32 bits ----------------|-- low: 32 bits, kept in the block --|
 *    directory bits ... | home: 13
 *          |
 *   directory[] -> page: 8192 slots {tag, block number + 1} -> chunks[] of blocks
 *
 * A page that fills up is split in two (some 40 us); the directory doubles, a
 * few KiB of pointers. There is no rehash of everything. Inside a page: linear
 * probing, deletion by shifting back, both on the tags alone. A page is 40 to
 * 80 % full, so a block costs 32 + 10..20 bytes.
 *
 * Known limits: 3.4 thousand million live blocks.
 */
#pragma once

#include "model/bulk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	LIVE_PAGE_SLOTS = 8192,
	LIVE_PAGE_MASK = LIVE_PAGE_SLOTS - 1,
	LIVE_PAGE_FULL = LIVE_PAGE_SLOTS * 8 / 10,
	LIVE_DEPTH_MAX = 19,
	LIVE_CHUNK_LOG2 = 16,
	LIVE_CHUNK_BLOCKS = 1 << LIVE_CHUNK_LOG2,
	LIVE_CHUNK_MASK = LIVE_CHUNK_BLOCKS - 1,
};
#define LIVE_48_BITS ((1ull << 48) - 1)

struct live_block {
	uint32_t low;  /* of the mixed key; while free: number + 1 of the next free block */
	uint32_t slot; /* of the stack, see stacks.h */
	uint64_t size_bytes : 48;
	uint64_t thread_low : 16;
	uint64_t birth_us : 48;
	uint64_t thread_high : 16;
	uint64_t other : 48; /* keyed by address: the block_id; by block_id: the address */
	uint64_t birth_slice : 16;
};
_Static_assert(sizeof(struct live_block) == 32, "live block layout");

struct live_page {
	uint32_t count;
	uint32_t depth; /* directory bits that all its keys share */
	uint32_t reserved[14];
	uint64_t slots[LIVE_PAGE_SLOTS]; /* tag << 32 | number + 1; 0 empty */
};

struct live_table {
	struct live_page **directory; /* 1 << depth entries */
	struct live_block **chunks;
	uint64_t seed;
	uint32_t depth;
	uint32_t chunk_count, chunk_room;
	uint32_t unused;    /* blocks from this number on were never used */
	uint32_t free_head; /* number + 1, 0 none */
	uint32_t free_count;
	uint64_t count;
	uint64_t *scratch; /* a page's slots while it is split */
	struct bulk bulk;
};

/* All return 0 or -ENOMEM (live_reserve_page also -EOVERFLOW) and change nothing on failure. */
int live_init(struct live_table *table);
void live_done(struct live_table *table);
/* Room for `blocks` more blocks, at most LIVE_CHUNK_BLOCKS. */
int live_reserve_blocks(struct live_table *table, uint32_t blocks);
/* Split the page of this key until it is not full: then 64 more keys fit. */
int live_split_page(struct live_table *table, uint64_t mixed);
/* The key of a slot found by walking the pages. */
uint64_t live_unmix(const struct live_table *table, uint64_t mixed);
typedef int (*live_visit_fn)(void *ctx, uint64_t key, const struct live_block *block);
int live_each(const struct live_table *table, live_visit_fn fn, void *ctx);
uint64_t live_memory_bytes(const struct live_table *table);

/* ---- the hot path: inline, since each costs less than a call ---- */

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
	/* In two steps: a shift by 64 would be undefined for depth 0. */
	return table->directory[mixed >> 32 >> (32 - table->depth)];
}

static inline struct live_block *live_block_at(const struct live_table *table, uint32_t number)
{
	return &table->chunks[number >> LIVE_CHUNK_LOG2][number & LIVE_CHUNK_MASK];
}

static inline void live_prefetch(const struct live_table *table, uint64_t mixed)
{
	__builtin_prefetch(&live_page_of(table, mixed)->slots[(mixed >> 32) & LIVE_PAGE_MASK], 1);
}

static inline bool live_page_is_full(const struct live_table *table, uint64_t mixed)
{
	return live_page_of(table, mixed)->count >= LIVE_PAGE_FULL;
}

/* Where a key is: `slot` is 0 if it is not there, and `at` then the place to put it. */
struct live_place {
	struct live_page *page;
	uint32_t at;
	uint64_t slot;
};

static inline struct live_place live_find(const struct live_table *table, uint64_t mixed)
{
	struct live_page *page = live_page_of(table, mixed);
	uint32_t tag = (uint32_t)(mixed >> 32);
	uint32_t at = tag & LIVE_PAGE_MASK;
	uint64_t slot;
	while ((slot = page->slots[at]) != 0) {
		if ((uint32_t)(slot >> 32) == tag &&
		    live_block_at(table, (uint32_t)slot - 1)->low == (uint32_t)mixed)
			break;
		at = (at + 1) & LIVE_PAGE_MASK;
	}
	return (struct live_place){.page = page, .at = at, .slot = slot};
}

static inline struct live_block *live_place_block(const struct live_table *table,
						  const struct live_place *place)
{
	return live_block_at(table, (uint32_t)place->slot - 1);
}

/* Put a key where live_find() found none. Room must have been reserved. The block is not zeroed. */
static inline struct live_block *live_add(struct live_table *table, const struct live_place *place,
					  uint64_t mixed)
{
	uint32_t number;
	struct live_block *block;
	if (table->free_head) {
		number = table->free_head - 1;
		block = live_block_at(table, number);
		table->free_head = block->low;
		table->free_count--;
	} else {
		number = table->unused++;
		block = live_block_at(table, number);
	}
	block->low = (uint32_t)mixed;
	place->page->slots[place->at] = mixed >> 32 << 32 | (number + 1);
	place->page->count++;
	table->count++;
	return block;
}

/* The block must be read before: its memory is free afterwards. */
static inline void live_remove(struct live_table *table, const struct live_place *place)
{
	struct live_page *page = place->page;
	uint32_t hole = place->at;
	uint32_t number = (uint32_t)place->slot - 1;
	for (uint32_t at = (hole + 1) & LIVE_PAGE_MASK; page->slots[at];
	     at = (at + 1) & LIVE_PAGE_MASK) {
		uint32_t home = (uint32_t)(page->slots[at] >> 32) & LIVE_PAGE_MASK;
		if (((at - home) & LIVE_PAGE_MASK) >= ((at - hole) & LIVE_PAGE_MASK)) {
			page->slots[hole] = page->slots[at];
			hole = at;
		}
	}
	page->slots[hole] = 0;
	page->count--;
	table->count--;
	live_block_at(table, number)->low = table->free_head;
	table->free_head = number + 1;
	table->free_count++;
}
