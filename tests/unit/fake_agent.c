/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_agent.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t fake_stamp(void)
{
	return __builtin_ia32_rdtsc();
}

bool fake_thread_open(struct fake_thread *thread, const struct wire_map *map, uint32_t tid)
{
	struct wire_control *control = map->control;
	uint32_t index = atomic_fetch_add(&control->streams_high, 1);
	if (index >= map->stream_count)
		return false;
	struct wire_stream *stream = &map->streams[index];
	*thread = (struct fake_thread){.map = map, .stream = stream, .index = index};
	atomic_store(&stream->tid, tid);
	atomic_store(&stream->first_tid, tid);
	atomic_store(&stream->serial, atomic_fetch_add(&control->thread_serial, 1) + 1);
	atomic_store(&stream->state, WIRE_STREAM_ACTIVE);
	return true;
}

static uint32_t take_chunk(struct fake_thread *thread)
{
	struct wire_control *control = thread->map->control;
	const struct timespec step = {.tv_nsec = 20 * 1000 * 1000};
	uint32_t chunk = wire_pool_take(thread->map);
	if (chunk || thread->no_wait)
		return chunk;
	thread->waits++;
	atomic_fetch_add(&control->pool_waiters, 1);
	while (atomic_load(&control->state) != WIRE_OFF) {
		uint32_t seq = atomic_load(&control->pool_seq);
		chunk = wire_pool_take(thread->map);
		if (chunk)
			break;
		if (atomic_exchange(&control->asleep, 0))
			syscall(SYS_futex, &control->asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
		syscall(SYS_futex, &control->pool_seq, FUTEX_WAIT, seq, &step, NULL, 0);
	}
	atomic_fetch_sub(&control->pool_waiters, 1);
	return chunk;
}

static bool refill(struct fake_thread *thread)
{
	struct wire_stream *stream = thread->stream;
	atomic_store_explicit(&stream->busy, 0, memory_order_release);
	uint32_t chunk = take_chunk(thread);
	atomic_store_explicit(&stream->busy, 1, memory_order_seq_cst);
	if (!chunk)
		return false;
	thread->refills++;
	wire_chunk_open(thread->map, chunk, thread->index, atomic_load(&stream->serial));
	if (thread->chunk && !atomic_load_explicit(&stream->revoke, memory_order_seq_cst)) {
		atomic_store_explicit(&thread->chunk->next, chunk, memory_order_release);
	} else {
		atomic_store_explicit(&stream->head, chunk, memory_order_relaxed);
		atomic_fetch_add_explicit(&stream->head_seq, 1, memory_order_release);
		atomic_store_explicit(&stream->revoke, 0, memory_order_release);
	}
	thread->chunk = &thread->map->chunks[chunk - 1];
	thread->used = 0;
	return true;
}

bool fake_emit(struct fake_thread *thread, uint64_t stamp, const uint64_t *words, unsigned count)
{
	struct wire_stream *stream = thread->stream;
	/* The real agent has a compiler barrier here; TSan wants to see the order. */
	atomic_store_explicit(&stream->busy, 1, memory_order_seq_cst);
	if ((!thread->chunk || thread->used + count > WIRE_CHUNK_WORDS ||
	     atomic_load_explicit(&stream->revoke, memory_order_seq_cst)) &&
	    !refill(thread)) {
		atomic_store_explicit(&stream->busy, 0, memory_order_release);
		return false;
	}
	uint64_t *to = thread->chunk->words + thread->used;
	to[0] = stamp << 8 | (words[0] & 0xff);
	for (unsigned i = 1; i < count; i++)
		to[i] = words[i];
	thread->used += count;
	thread->last_stamp = stamp;
	wire_chunk_commit(thread->chunk, thread->used);
	atomic_store_explicit(&stream->busy, 0, memory_order_release);
	return true;
}

bool fake_alloc(struct fake_thread *thread, uint64_t stamp, uint64_t address, uint32_t bytes,
		uint32_t node)
{
	uint64_t words[] = {WIRE_OP_ALLOC, address, (uint64_t)node << 32 | bytes};
	return fake_emit(thread, stamp, words, 3);
}

bool fake_free(struct fake_thread *thread, uint64_t stamp, uint64_t address)
{
	uint64_t words[] = {WIRE_OP_FREE, address};
	return fake_emit(thread, stamp, words, 2);
}

uint32_t fake_node(const struct wire_map *map, uint32_t parent, uint64_t pc, uint32_t module)
{
	uint32_t id = atomic_fetch_add(&map->control->nodes_next, 1);
	map->nodes[id] = (struct wire_node){.parent = parent, .module = module, .pc = pc};
	return id;
}
