/* SPDX-License-Identifier: Apache-2.0 */
/* The shared pool of chunks, hosted, with threads on both sides: also run under TSan. */
#include "wire/pool.h"

#include "base/memory.h"
#include "harness/tap.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNKS = 8, WRITERS = 4, STREAMS = WRITERS, NODES = 16, ROUNDS = 20000 };
/* The chunks of a writer run over several times. */
enum { EVENTS = 3 * CHUNKS * WIRE_CHUNK_WORDS / 2 };

struct session {
	void *memory;
	struct wire_map map;
	_Atomic unsigned owners[CHUNKS];
};

static struct session *session_new(void)
{
	struct wire_control counts = {
		.stream_count = STREAMS, .chunk_count = CHUNKS, .node_count = NODES};
	uint64_t bytes = wire_layout(&counts);
	struct session *session = tm_alloc(sizeof *session);
	REQUIRE(session);
	session->memory = aligned_alloc(WIRE_PAGE_BYTES, bytes);
	REQUIRE(session->memory);
	memset(session->memory, 0, bytes);
	counts.magic = WIRE_MAGIC;
	counts.version = WIRE_VERSION;
	counts.depth = WIRE_DEPTH_MAX;
	memcpy(session->memory, &counts, sizeof counts);
	REQUIRE(wire_map_init(&session->map, session->memory, bytes) == 0);
	for (uint32_t chunk = 1; chunk <= CHUNKS; chunk++)
		wire_pool_put(&session->map, chunk);
	return session;
}

static void session_free(struct session *session)
{
	free(session->memory);
	tm_free(session);
}

static void layouts_are_checked(void)
{
	struct session *session = session_new();
	struct wire_control *control = session->map.control;
	uint64_t bytes = control->total_bytes;
	struct wire_map map;
	CHECK_EQ_I64(wire_map_init(&map, session->memory, bytes), 0);
	CHECK_EQ_I64(wire_map_init(&map, session->memory, bytes - 1), -1);
	control->chunk_count++;
	CHECK_EQ_I64(wire_map_init(&map, session->memory, bytes), -1);
	control->chunk_count = UINT32_MAX;
	CHECK_EQ_I64(wire_map_init(&map, session->memory, UINT64_MAX), -1);
	control->chunk_count = CHUNKS;
	control->nodes_offset += 8;
	CHECK_EQ_I64(wire_map_init(&map, session->memory, bytes), -1);
	control->nodes_offset -= 8;
	control->version++;
	CHECK_EQ_I64(wire_map_init(&map, session->memory, bytes), -1);
	session_free(session);
}

static void all_chunks_come_back(void)
{
	struct session *session = session_new();
	unsigned seen = 0;
	for (int i = 0; i < CHUNKS; i++) {
		uint32_t chunk = wire_pool_take(&session->map);
		REQUIRE(chunk >= 1 && chunk <= CHUNKS);
		seen |= 1u << (chunk - 1);
	}
	CHECK_EQ_U64(seen, (1u << CHUNKS) - 1);
	CHECK_EQ_U64(wire_pool_take(&session->map), WIRE_NONE);
	CHECK_EQ_U64(atomic_load(&session->map.control->pool_free), 0);
	wire_pool_put(&session->map, 3);
	CHECK_EQ_U64(wire_pool_take(&session->map), 3);
	session_free(session);
}

/* A head that points nowhere comes from a broken or hostile peer. */
static void damaged_heads_are_no_chunks(void)
{
	struct session *session = session_new();
	atomic_store(&session->map.control->pool_head, CHUNKS + 1);
	CHECK_EQ_U64(wire_pool_take(&session->map), WIRE_NONE);
	atomic_store(&session->map.control->pool_head, UINT64_MAX);
	CHECK_EQ_U64(wire_pool_take(&session->map), WIRE_NONE);
	session_free(session);
}

static void *take_and_put(void *context)
{
	struct session *session = context;
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t chunk = wire_pool_take(&session->map);
		if (chunk == WIRE_NONE) {
			sched_yield();
			continue;
		}
		if (!CHECK_EQ_U64(atomic_fetch_add(&session->owners[chunk - 1], 1), 0))
			return NULL;
		/* Not atomic: under TSan this proves that ownership moves with order. */
		session->map.chunks[chunk - 1].words[0] = (uint64_t)i;
		atomic_fetch_sub(&session->owners[chunk - 1], 1);
		wire_pool_put(&session->map, chunk);
	}
	return NULL;
}

static void chunks_have_one_owner(void)
{
	struct session *session = session_new();
	pthread_t threads[WRITERS];
	for (int i = 0; i < WRITERS; i++)
		REQUIRE(pthread_create(&threads[i], NULL, take_and_put, session) == 0);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ_U64(atomic_load(&session->map.control->pool_free), CHUNKS);
	session_free(session);
}

struct writer {
	struct session *session;
	uint32_t index;
};

static uint32_t take_waiting(struct session *session)
{
	uint32_t chunk;
	while ((chunk = wire_pool_take(&session->map)) == WIRE_NONE)
		sched_yield();
	return chunk;
}

static void *write_events(void *context)
{
	struct writer *writer = context;
	struct wire_map *map = &writer->session->map;
	struct wire_chunk *chunk = NULL;
	uint32_t words = 0;
	for (uint64_t event = 0; event < EVENTS; event++) {
		if (!chunk || words + 2 > WIRE_CHUNK_WORDS) {
			uint32_t taken = take_waiting(writer->session);
			wire_chunk_open(map, taken, writer->index, writer->index + 1);
			/* Release: who follows the link sees the chunk opened. */
			atomic_store_explicit(chunk ? &chunk->next
						    : &map->streams[writer->index].head,
					      taken, memory_order_release);
			chunk = &map->chunks[taken - 1];
			words = 0;
		}
		chunk->words[words] = event << 8 | WIRE_OP_FREE;
		chunk->words[words + 1] = event * 16;
		words += 2;
		wire_chunk_commit(chunk, words);
	}
	return NULL;
}

struct reader {
	uint32_t chunk; /* index + 1 */
	uint32_t words;
	uint64_t events;
};

/* Read what is there of one stream; give back the chunks that are done. */
static void read_stream(struct session *session, uint32_t index, struct reader *reader)
{
	struct wire_map *map = &session->map;
	if (reader->chunk == WIRE_NONE)
		reader->chunk =
			atomic_load_explicit(&map->streams[index].head, memory_order_acquire);
	while (reader->chunk != WIRE_NONE) {
		struct wire_chunk *chunk = &map->chunks[reader->chunk - 1];
		/* next before committed: it is set after the last commit. */
		uint32_t next = atomic_load_explicit(&chunk->next, memory_order_acquire);
		uint32_t committed = atomic_load_explicit(&chunk->committed, memory_order_acquire);
		for (; reader->words < committed; reader->words += 2, reader->events++) {
			REQUIRE(chunk->words[reader->words] ==
				(reader->events << 8 | WIRE_OP_FREE));
			REQUIRE(chunk->words[reader->words + 1] == reader->events * 16);
		}
		if (next == WIRE_NONE)
			return;
		wire_pool_put(map, reader->chunk);
		reader->chunk = next;
		reader->words = 0;
	}
}

static void every_event_arrives_in_order(void)
{
	struct session *session = session_new();
	struct writer writers[WRITERS];
	struct reader readers[WRITERS] = {0};
	pthread_t threads[WRITERS];
	for (uint32_t i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){session, i};
		REQUIRE(pthread_create(&threads[i], NULL, write_events, &writers[i]) == 0);
	}
	for (bool all = false; !all;) {
		all = true;
		for (uint32_t i = 0; i < WRITERS; i++) {
			read_stream(session, i, &readers[i]);
			all &= readers[i].events == EVENTS;
		}
		sched_yield();
	}
	for (int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	session_free(session);
}

static const struct tap_case cases[] = {
	{.name = "a session that makes no sense is refused", .run = layouts_are_checked},
	{.name = "no chunk gets lost", .run = all_chunks_come_back},
	{.name = "a damaged pool is an empty one", .run = damaged_heads_are_no_chunks},
	{.name = "no chunk has two owners", .run = chunks_have_one_owner},
	{.name = "every event arrives, whole and in order", .run = every_event_arrives_in_order},
};
TAP_MAIN(cases)
