/* SPDX-License-Identifier: Apache-2.0 */
#include "model/threads.h"

#include <errno.h>

#include "base/memory.h"

void threads_done(struct thread_table *table)
{
	for (uint32_t i = 0; i < table->chunk_room; i++) {
		struct thread_state *chunk = table->chunks[i];
		for (uint32_t j = 0; chunk && j < THREAD_CHUNK; j++)
			tm_free(chunk[j].pending);
		tm_free(chunk);
	}
	tm_free(table->chunks);
	*table = (struct thread_table){0};
}

int threads_reserve(struct thread_table *table, uint32_t thread_id)
{
	uint32_t chunk = thread_id >> THREAD_CHUNK_LOG2;
	if (chunk >= table->chunk_room) {
		uint32_t room = table->chunk_room ? table->chunk_room : 16;
		while (room <= chunk)
			room *= 2;
		struct thread_state **chunks = tm_grow_array(table->chunks, room, sizeof *chunks);
		if (!chunks)
			return -ENOMEM;
		for (uint32_t i = table->chunk_room; i < room; i++)
			chunks[i] = NULL;
		table->bytes += (room - table->chunk_room) * sizeof *chunks;
		table->chunks = chunks;
		table->chunk_room = room;
	}
	if (!table->chunks[chunk]) {
		table->chunks[chunk] = tm_alloc_array(THREAD_CHUNK, sizeof **table->chunks);
		if (!table->chunks[chunk])
			return -ENOMEM;
		table->bytes += THREAD_CHUNK * sizeof **table->chunks;
		if (chunk == 0) {
			table->first = table->chunks[0];
			table->first_count = THREAD_CHUNK;
		}
	}
	return 0;
}

int threads_reserve_pending(struct thread_table *table, uint32_t thread_id)
{
	struct thread_state *thread = threads_at(table, thread_id);
	if (thread->pending)
		return 0;
	thread->pending = tm_alloc(sizeof *thread->pending);
	if (!thread->pending)
		return -ENOMEM;
	table->bytes += sizeof *thread->pending;
	return 0;
}
