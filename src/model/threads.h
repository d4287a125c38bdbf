/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the model remembers of each thread: the block it allocated last, if
 * nothing came after (for *temporary*), and the block that its last
 * REALLOC_FREE ended, until the other half of that realloc comes.
 */
#pragma once

#include "model/live.h"

#include <stdbool.h>
#include <stdint.h>

enum { THREAD_CHUNK_LOG2 = 10, THREAD_CHUNK = 1 << THREAD_CHUNK_LOG2 };

#define THREAD_NO_BLOCK UINT64_MAX

struct thread_pending {
	bool valid;
	uint64_t key; /* in the live table */
	struct live_block block;
	uint64_t death_us;
};

struct thread_state {
	uint64_t last_block; /* block_id + 1; THREAD_NO_BLOCK; 0: nothing seen of this thread yet */
	struct thread_pending *pending;
};

struct thread_table {
	struct thread_state **chunks;
	struct thread_state *first; /* chunks[0]: most programs have no more threads */
	uint32_t first_count;       /* THREAD_CHUNK once it is there */
	uint32_t chunk_room;
	uint64_t bytes;
};

void threads_done(struct thread_table *table);
/* Make room for a thread; for the pending realloc of a reserved thread. 0 or -ENOMEM. */
int threads_reserve(struct thread_table *table, uint32_t thread_id);
int threads_reserve_pending(struct thread_table *table, uint32_t thread_id);

static inline bool threads_has(const struct thread_table *table, uint32_t thread_id)
{
	uint32_t chunk = thread_id >> THREAD_CHUNK_LOG2;
	return chunk < table->chunk_room && table->chunks[chunk];
}

/* Of a reserved thread. */
static inline struct thread_state *threads_at(const struct thread_table *table, uint32_t thread_id)
{
	return &table->chunks[thread_id >> THREAD_CHUNK_LOG2][thread_id & (THREAD_CHUNK - 1)];
}
