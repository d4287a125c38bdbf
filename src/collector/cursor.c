/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/cursor.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memory.h"

enum {
	IDLE_PASSES = 4,  /* snapshots without news after which a thread counts as idle */
	FEW_CHUNKS = 4,   /* between two snapshots: too few to hold any back */
	SMALL_POOL = 32,  /* chunks of a pool that holds none back */
	WAKE_CHUNKS = 16, /* come back before a waiting thread is woken within a pass */
};

int cursors_init(struct cursors *cursors, const struct wire_map *map)
{
	*cursors = (struct cursors){.map = map};
	cursors->all = tm_alloc_array(map->stream_count, sizeof *cursors->all);
	cursors->followed = tm_alloc_array(map->stream_count, sizeof *cursors->followed);
	cursors->dead = tm_alloc_array(map->stream_count, sizeof *cursors->dead);
	cursors->chunk_words = tm_alloc_array(map->chunk_count, sizeof *cursors->chunk_words);
	cursors->chunk_next = tm_alloc_array(map->chunk_count, sizeof *cursors->chunk_next);
	cursors->chunk_owned = tm_alloc_array(map->chunk_count, sizeof *cursors->chunk_owned);
	cursors->held = tm_alloc_array(map->chunk_count, sizeof *cursors->held);
	if (cursors->all && cursors->followed && cursors->dead && cursors->chunk_words &&
	    cursors->chunk_next && cursors->chunk_owned && cursors->held) {
		long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
		cursors->can_revoke = commands > 0 && (commands & MEMBARRIER_CMD_GLOBAL);
		return 0;
	}
	cursors_done(cursors);
	return -ENOMEM;
}

void cursors_done(struct cursors *cursors)
{
	tm_free(cursors->all);
	tm_free(cursors->followed);
	tm_free((void *)cursors->dead);
	tm_free(cursors->chunk_words);
	tm_free(cursors->chunk_next);
	tm_free(cursors->chunk_owned);
	tm_free(cursors->held);
	*cursors = (struct cursors){0};
}

/* The chunk becomes the newest of the chain. False: no such chunk, or it is somewhere else already.
 */
static bool enter_chunk(struct cursors *cursors, struct cursor *cursor, uint32_t chunk)
{
	if (chunk == WIRE_NONE || chunk > cursors->map->chunk_count ||
	    cursors->chunk_owned[chunk - 1]) {
		cursors->bad++;
		cursor->broken = true;
		return false;
	}
	cursors->chunk_owned[chunk - 1] = 1;
	cursors->chunk_words[chunk - 1] = 0;
	cursors->chunk_next[chunk - 1] = WIRE_NONE;
	if (cursor->last_chunk)
		cursors->chunk_next[cursor->last_chunk - 1] = chunk;
	else
		cursor->chunk = chunk;
	cursor->last_chunk = chunk;
	return true;
}

/* Words committed to the newest chunk since we looked. */
static uint32_t new_words(struct cursors *cursors, struct cursor *cursor)
{
	uint32_t index = cursor->last_chunk - 1;
	/* Pairs with the release in wire_chunk_commit(). */
	uint32_t committed =
		atomic_load_explicit(&cursors->map->chunks[index].committed, memory_order_acquire);
	uint32_t seen = cursors->chunk_words[index];
	if (committed > WIRE_CHUNK_WORDS || committed < seen) {
		cursors->bad++;
		cursor->broken = true;
		return 0;
	}
	cursors->chunk_words[index] = committed;
	return committed - seen;
}

/* Follow the chain from the newest chunk seen to its present end. */
static uint64_t look_ahead(struct cursors *cursors, struct cursor *cursor)
{
	uint64_t words = 0;
	while (!cursor->broken && cursor->last_chunk) {
		struct wire_chunk *chunk = &cursors->map->chunks[cursor->last_chunk - 1];
		/* Before `committed`: once it has a successor its count is final. */
		uint32_t next = atomic_load_explicit(&chunk->next, memory_order_acquire);
		words += new_words(cursors, cursor);
		if (cursor->broken || next == WIRE_NONE || !enter_chunk(cursors, cursor, next))
			break;
	}
	return words;
}

static void begin_stream(struct cursors *cursors, uint32_t slot, uint32_t head_seq, cursor_fn begin,
			 void *ctx)
{
	struct cursor *cursor = &cursors->all[slot];
	struct wire_stream *stream = &cursors->map->streams[slot];
	uint64_t serial = atomic_load_explicit(&stream->serial, memory_order_relaxed);
	if (!serial)
		return;
	*cursor = (struct cursor){
		.serial = serial, .slot = slot, .head_seq = head_seq, .stamp = CURSOR_DRY};
	cursor->tid = atomic_load_explicit(&stream->first_tid, memory_order_relaxed);
	cursor->lane = atomic_load_explicit(&stream->lane, memory_order_relaxed);
	cursors->followed[cursors->followed_count++] = slot;
	enter_chunk(cursors, cursor, atomic_load_explicit(&stream->head, memory_order_relaxed));
	begin(ctx, cursor);
}

static void find_new_streams(struct cursors *cursors, cursor_fn begin, void *ctx)
{
	const struct wire_map *map = cursors->map;
	uint32_t high = atomic_load_explicit(&map->control->streams_high, memory_order_acquire);
	if (high > map->stream_count)
		high = map->stream_count;
	for (uint32_t slot = 0; slot < high; slot++) {
		struct cursor *cursor = &cursors->all[slot];
		if (cursor->serial)
			continue;
		/* Pairs with the release of head_seq in the agent, after head and serial. */
		uint32_t head_seq =
			atomic_load_explicit(&map->streams[slot].head_seq, memory_order_acquire);
		if (head_seq != cursor->head_seq)
			begin_stream(cursors, slot, head_seq, begin, ctx);
	}
}

/* The first chunk of the thread's new chain if it has begun one, else 0. */
static uint32_t new_head(struct cursor *cursor, struct wire_stream *stream)
{
	/* Pairs with the release of head_seq in the agent, after head. */
	uint32_t head_seq = atomic_load_explicit(&stream->head_seq, memory_order_acquire);
	if (head_seq == cursor->head_seq)
		return WIRE_NONE;
	cursor->head_seq = head_seq;
	cursor->revoking = cursor->final = false;
	return atomic_load_explicit(&stream->head, memory_order_relaxed);
}

/* The revoke handshake, seen from here: has the chunk become ours? As new_head(). */
static uint32_t check_revoke(struct cursors *cursors, struct cursor *cursor)
{
	struct wire_stream *stream = &cursors->map->streams[cursor->slot];
	uint32_t head = new_head(cursor, stream);
	if (head || !cursor->revoking || atomic_load_explicit(&stream->busy, memory_order_acquire))
		return head;
	/* Not busy after the barrier: when it next emits it sees revoke and takes another. */
	cursor->final = atomic_load_explicit(&stream->revoke, memory_order_acquire) != 0;
	if (cursor->final)
		return WIRE_NONE;
	/*
	 * The request is gone. Either it was answered since we looked for a new
	 * head, and to ask again before that is followed would lose it; or the thread
	 * was just done with the request before and wiped ours, and keeps its chunk.
	 */
	cursor->revoking = false;
	return new_head(cursor, stream);
}

/* Has the watch thread seen that this stream's thread no longer exists? */
static bool thread_is_gone(const struct cursors *cursors, const struct cursor *cursor)
{
	return atomic_load_explicit(&cursors->dead[cursor->slot], memory_order_acquire) ==
	       cursor->tid;
}

static void snapshot_one(struct cursors *cursors, struct cursor *cursor)
{
	cursor->first_words = cursor->second_words;
	/* Before the words are counted: what was committed before the end is then seen. */
	cursor->gone = thread_is_gone(cursors, cursor);
	uint32_t head = check_revoke(cursors, cursor);
	uint64_t words = look_ahead(cursors, cursor);
	/* A new chain goes on where the old one ended: nothing of it may come later. */
	if (head && enter_chunk(cursors, cursor, head))
		words += look_ahead(cursors, cursor);
	cursor->second_words += words;
	cursor->idle_passes = words ? 0 : cursor->idle_passes + 1;
	if (cursor->chunk)
		cursor->end = cursors->map->chunks[cursor->chunk - 1].words +
			      cursors->chunk_words[cursor->chunk - 1];
	if (cursor->chunk && !cursor->at)
		cursor->at = cursors->map->chunks[cursor->chunk - 1].words;
	cursor_next_chunk(cursors, cursor);
}

static uint32_t most_held(const struct wire_map *map)
{
	return map->chunk_count > SMALL_POOL ? map->chunk_count / 2 : 0;
}

/* The oldest held chunks go to the pool until at most `most` are held and it is not short. */
static void release_held(struct cursors *cursors, uint32_t most)
{
	const struct wire_map *map = cursors->map;
	_Atomic uint32_t *pool_free = &map->control->pool_free;
	while (cursors->held_count > most ||
	       (cursors->held_count &&
		atomic_load_explicit(pool_free, memory_order_relaxed) < map->chunk_count / 8)) {
		wire_pool_put(map, cursors->held[cursors->held_first]);
		cursors->held_first = (cursors->held_first + 1) % map->chunk_count;
		cursors->held_count--;
		cursors->returned++;
		atomic_fetch_add_explicit(&map->control->progress, 1, memory_order_relaxed);
	}
	/* One chunk is full in no time, and to sleep and to be woken for each costs more. */
	if (cursors->returned >= WAKE_CHUNKS || map->chunk_count <= SMALL_POOL)
		cursors_wake(cursors);
}

static void give_back(struct cursors *cursors, uint32_t chunk)
{
	const struct wire_map *map = cursors->map;
	cursors->chunk_owned[chunk - 1] = 0;
	/* No thread may take it for its own any more: what wire_pool_put() does, but now. */
	atomic_store_explicit(&map->chunks[chunk - 1].serial, 0, memory_order_relaxed);
	uint32_t last = (cursors->held_first + cursors->held_count) % map->chunk_count;
	cursors->held[last] = chunk;
	cursors->held_count++;
	cursors->read++;
	release_held(cursors, most_held(map));
}

uint64_t cursors_snapshot(struct cursors *cursors, cursor_fn begin, void *ctx)
{
	uint64_t first_words = 0;
	release_held(cursors, cursors->read < FEW_CHUNKS ? 0 : most_held(cursors->map));
	cursors->read = 0;
	find_new_streams(cursors, begin, ctx);
	for (uint32_t i = 0; i < cursors->followed_count; i++) {
		struct cursor *cursor = &cursors->all[cursors->followed[i]];
		snapshot_one(cursors, cursor);
		first_words += cursor->first_words;
	}
	return first_words;
}

bool cursor_next_chunk(struct cursors *cursors, struct cursor *cursor)
{
	while (cursor->chunk && cursor->at == cursor->end && cursor->chunk != cursor->last_chunk) {
		uint32_t done = cursor->chunk;
		cursor->chunk = cursors->chunk_next[done - 1];
		cursor->at = cursors->map->chunks[cursor->chunk - 1].words;
		cursor->end = cursor->at + cursors->chunk_words[cursor->chunk - 1];
		give_back(cursors, done);
	}
	return cursor->chunk && cursor->at < cursor->end;
}

static void leave_chain(struct cursors *cursors, struct cursor *cursor)
{
	uint32_t chunk = cursor->chunk;
	while (chunk) {
		uint32_t next = cursors->chunk_next[chunk - 1];
		give_back(cursors, chunk);
		chunk = next;
	}
	cursor->chunk = cursor->last_chunk = WIRE_NONE;
	cursor->at = cursor->end = NULL;
	cursor->first_words = cursor->second_words = 0;
}

/*
 * The thread is gone and its slot is needed. The state is the lock against an
 * agent that takes the stream over for a new thread with the same thread
 * pointer, or another (lane_table.c). False: it did.
 */
static bool give_up_slot(struct cursors *cursors, struct cursor *cursor)
{
	struct wire_stream *stream = &cursors->map->streams[cursor->slot];
	uint32_t active = WIRE_STREAM_ACTIVE;
	if (!atomic_compare_exchange_strong(&stream->state, &active, WIRE_STREAM_CLOSED))
		return false;
	if (atomic_load(&stream->tid) != cursor->tid) {
		atomic_store(&stream->state, WIRE_STREAM_ACTIVE);
		return false;
	}
	leave_chain(cursors, cursor);
	cursor->serial = 0;
	atomic_store_explicit(&stream->state, WIRE_STREAM_GONE, memory_order_release);
	return true;
}

static bool slots_are_scarce(const struct cursors *cursors)
{
	const struct wire_map *map = cursors->map;
	return atomic_load_explicit(&map->control->streams_high, memory_order_relaxed) >
	       map->stream_count / 2;
}

void cursors_sweep(struct cursors *cursors, cursor_fn ended, void *ctx)
{
	uint32_t kept = 0;
	bool scarce = slots_are_scarce(cursors);
	for (uint32_t i = 0; i < cursors->followed_count; i++) {
		struct cursor *cursor = &cursors->all[cursors->followed[i]];
		bool all_read = cursor->second_words == 0 && cursor->chunk == cursor->last_chunk;
		if (all_read && cursor->gone && !cursor->ended) {
			cursor->ended = true;
			ended(ctx, cursor);
		}
		if (all_read && scarce && cursor->gone && give_up_slot(cursors, cursor))
			continue;
		if (all_read && cursor->final)
			leave_chain(cursors, cursor);
		cursors->followed[kept++] = cursors->followed[i];
	}
	cursors->followed_count = kept;
	cursors_wake(cursors);
}

void cursors_wake(struct cursors *cursors)
{
	struct wire_control *control = cursors->map->control;
	/* Pairs with the waiter: it counts itself, then looks at the pool once more. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!cursors->returned ||
	    !atomic_load_explicit(&control->pool_waiters, memory_order_relaxed))
		return;
	atomic_fetch_add_explicit(&control->pool_seq, 1, memory_order_release);
	syscall(SYS_futex, &control->pool_seq, FUTEX_WAKE, cursors->returned, NULL, NULL, 0);
	cursors->returned = 0;
}

/*
 * The other half of the handshake: the thread has only a compiler barrier. The
 * plain barrier takes tens of milliseconds, the quick one microseconds.
 */
static void order_threads(const struct cursors *cursors)
{
	bool quick =
		atomic_load_explicit(&cursors->map->control->quick_barrier, memory_order_acquire);
	if (!quick || syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0))
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

uint32_t cursors_revoke_idle(struct cursors *cursors)
{
	uint32_t asked = 0;
	if (!cursors->can_revoke)
		return 0;
	for (uint32_t i = 0; i < cursors->followed_count; i++) {
		struct cursor *cursor = &cursors->all[cursors->followed[i]];
		if (cursor->revoking || cursor->final || cursor->broken || !cursor->last_chunk ||
		    (cursor->idle_passes < IDLE_PASSES && !cursor->gone))
			continue;
		cursor->revoking = true;
		atomic_store_explicit(&cursors->map->streams[cursor->slot].revoke, 1,
				      memory_order_relaxed);
		asked++;
	}
	if (asked)
		order_threads(cursors);
	return asked;
}

struct cursor_counters cursors_counters(const struct cursors *cursors)
{
	const struct wire_map *map = cursors->map;
	struct cursor_counters sum = {0};
	uint32_t high = atomic_load_explicit(&map->control->streams_high, memory_order_acquire);
	for (uint32_t i = 0; i < high && i < map->stream_count; i++) {
		const struct wire_stream *stream = &map->streams[i];
		sum.lost += atomic_load_explicit(&stream->lost, memory_order_relaxed);
		sum.waited_ns += atomic_load_explicit(&stream->waited_ns, memory_order_relaxed);
		sum.cut += atomic_load_explicit(&stream->cut, memory_order_relaxed);
		sum.fp_frames += atomic_load_explicit(&stream->fp_frames, memory_order_relaxed);
		sum.frames += atomic_load_explicit(&stream->frames, memory_order_relaxed);
		sum.cost += atomic_load_explicit(&stream->cost, memory_order_relaxed);
		sum.samples += atomic_load_explicit(&stream->samples, memory_order_relaxed);
		sum.unwinds += atomic_load_explicit(&stream->unwinds, memory_order_relaxed);
	}
	return sum;
}
