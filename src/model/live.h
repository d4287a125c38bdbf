/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live blocks but the youngest (young.h), found by a 64-bit key: the address,
 * or where a trace is replayed the block_id. Extendible hashing over an index of 8-byte slots, and
 * 32-byte blocks beside it:
 *
 *   mixed key (64 bits, one-to-one with the key)
 *   |-- tag: 32 bits ----------------|-- low: 32 bits, kept in the block --|
 *    directory bits ... | line: 10
 *          |
 *   directory[] -> page: 1024 lines of 64 bytes -> chunks[] of blocks
 *                        line: 7 tags | passed | 7 block numbers | used
 *
 * A page that fills up is split in two (some 30 us); the directory doubles, a
 * few KiB of pointers. There is no rehash of everything. A key sits in its home
 * line, compared with all 7 tags at once, or if that was full in one of the
 * next; `passed` counts the keys that went by, so that a search ends where none
 * did and a removal moves nothing. A page is 35 to 70 % full: a block costs
 * 32 + 13..26 bytes, and 4 more when it has been freed.
 *
 * Known limits: 2.6 thousand million live blocks.
 */
#pragma once

#include "model/bulk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	LIVE_LINE_SLOTS = 7,
	LIVE_PAGE_LINES = 1024,
	LIVE_LINE_MASK = LIVE_PAGE_LINES - 1,
	LIVE_PAGE_FULL = LIVE_PAGE_LINES * LIVE_LINE_SLOTS * 7 / 10,
	LIVE_DEPTH_MAX = 19,
	LIVE_CHUNK_LOG2 = 16,
	LIVE_CHUNK_BLOCKS = 1 << LIVE_CHUNK_LOG2,
	LIVE_CHUNK_MASK = LIVE_CHUNK_BLOCKS - 1,
	LIVE_FREE_AHEAD = 8, /* how many free blocks are called for before they are used */
};
#define LIVE_48_BITS ((1ull << 48) - 1)

/*
 * Words of 48 + 16 bits, put together in registers: bit fields are stored in
 * parts, and reading the whole soon after would wait for them.
 */
struct live_block {
	uint32_t low;          /* of the mixed key */
	uint32_t slot;         /* of the stack, see stacks.h */
	uint64_t size_thread;  /* size_bytes | thread_id's lower half << 48 */
	uint64_t birth_thread; /* birth_us | thread_id's upper half << 48 */
	uint64_t
		other_slice; /* the block_id (keyed by block_id: the address) | birth slice << 48 */
};
_Static_assert(sizeof(struct live_block) == 32, "live block layout");

struct live_line {
	uint32_t tags[LIVE_LINE_SLOTS];
	uint32_t passed;
	uint32_t numbers[LIVE_LINE_SLOTS]; /* of the blocks */
	uint32_t used;                     /* bit per slot */
};
_Static_assert(sizeof(struct live_line) == 64, "one cache line");

struct live_page {
	struct live_line lines[LIVE_PAGE_LINES];
	uint32_t count;
	uint32_t depth; /* directory bits that all its keys share */
};

struct live_table {
	struct live_page **directory; /* by the upper bits of the mixed key */
	struct live_block **chunks;
	uint32_t **frees; /* numbers of free blocks; a chunk of them for each of blocks */
	uint64_t seed;
	uint32_t shift; /* 64 - directory bits, which are at least 1 */
	uint32_t chunk_count, chunk_room;
	uint32_t unused; /* blocks from this number on were never used */
	uint32_t free_count;
	struct live_line *scratch; /* a page's lines while it is split */
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
