/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that a scan has seen begin and not yet end, by block_id. It grows
 * within the memory that the section's scans share; when that is used up,
 * open_blocks_add() says so and the scan must do without.
 */
#pragma once

#include "sql/state.h"

struct open_block {
	uint64_t key; /* block_id + 1; 0 = none */
	uint64_t birth_ns, size_bytes, address;
	uint64_t realloc_from; /* block_id or TRACE_NO_BLOCK */
	uint32_t stack_id, thread_id;
	uint8_t api, align_log2;
};

struct open_blocks {
	struct sql *sql;
	struct open_block *slots;
	size_t slot_count, used;
	uint64_t own_bytes; /* taken from the shared memory */
};

/* -ENOMEM. */
TM_MUST_CHECK int open_blocks_init(struct open_blocks *open, struct sql *sql);
void open_blocks_done(struct open_blocks *open);
/* False: there is no room. One of the same block_id is replaced. O(1). */
bool open_blocks_add(struct open_blocks *open, const struct open_block *block);
/* The same for one that was taken out before: there is always room. -ENOMEM. O(1). */
TM_MUST_CHECK int open_blocks_put_back(struct open_blocks *open, const struct open_block *block);
/* Takes a block out; false if it is not there. O(1). */
bool open_blocks_take(struct open_blocks *open, uint64_t block_id, struct open_block *ret);
/*
 * Takes any block out; false if there is none. Start with *cursor = 0. Once begun, only this may be
 * called until the table is empty.
 */
bool open_blocks_take_any(struct open_blocks *open, size_t *cursor, struct open_block *ret);
