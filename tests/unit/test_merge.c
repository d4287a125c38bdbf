/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of events from several streams. Stamps are chosen, the snapshots
 * are taken at chosen moments, and the order in which the model sees the events
 * is read back from the trace.
 */
#include "collector/extra.h"
#include "collector/merge.h"
#include "collector/shm.h"
#include "fake_agent.h"
#include "harness/tap.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct bed {
	struct shm shm;
	struct cursors cursors;
	struct feed feed;
	struct extra extra;
	struct merge merge;
	char path[32];
	uint64_t base; /* stamps count from here */
};

static void began(void *ctx, struct cursor *cursor)
{
	cursor->thread_id = feed_thread(ctx, cursor->tid, 0);
}

static void ended(void *ctx, struct cursor *cursor)
{
	(void)ctx;
	(void)cursor;
}

static struct bed *bed_new(uint32_t chunk_count)
{
	struct bed *bed = calloc(1, sizeof *bed);
	struct tm_error err = {0};
	struct stamp_pair earlier = stamp_pair_read();
	struct shm_options memory = {
		.chunk_count = chunk_count, .stream_count = 64, .node_count = 1024};
	REQUIRE(bed != NULL);
	strcpy(bed->path, "/tmp/test-merge.XXXXXX");
	int fd = mkstemp(bed->path);
	REQUIRE(fd >= 0 && shm_open_new(&bed->shm, &memory, &err) == 0);
	REQUIRE(cursors_init(&bed->cursors, &bed->shm.map) == 0);
	/* Nanoseconds as stamps: the times in the trace are then known exactly. */
	REQUIRE(feed_init(&bed->feed, &bed->shm.map, false, &earlier, 0, &err) == 0);
	REQUIRE(trace_writer_open(fd, &(struct trace_writer_options){.addresses = true},
				  &bed->feed.writer, &err) == 0);
	trace_writer_begin(bed->feed.writer, &(struct trace_meta){.tool_version = "",
								  .program = "",
								  .command = "",
								  .host = "",
								  .mode = "",
								  .source = "",
								  .clock = ""});
	bed->extra.feed = &bed->feed;
	REQUIRE(merge_init(&bed->merge, &bed->cursors, &bed->feed, &bed->extra) == 0);
	bed->base = bed->feed.clock.base_stamp;
	return bed;
}

static void bed_pass(struct bed *bed)
{
	merge_release(&bed->merge, cursors_snapshot(&bed->cursors, began, &bed->feed));
	cursors_sweep(&bed->cursors, ended, &bed->feed);
}

/* The writer is closed already. */
static void bed_free(struct bed *bed)
{
	unlink(bed->path);
	merge_done(&bed->merge);
	feed_done(&bed->feed);
	cursors_done(&bed->cursors);
	shm_close(&bed->shm);
	free(bed);
}

/* The addresses in the order of the trace, as letters from 'a' on. */
static void bed_check(struct bed *bed, const char *want)
{
	struct trace_reader *reader = NULL;
	struct tm_error err = {0};
	char got[256] = "";
	size_t length = 0;
	feed_close_slice(&bed->feed);
	trace_writer_end(bed->feed.writer, &(struct trace_end){.cause = TRACE_END_EXIT});
	REQUIRE(trace_writer_close(bed->feed.writer, &err) == 0);
	REQUIRE(trace_reader_open(bed->path, &reader, &err) == 0);
	for (size_t i = 0; i < trace_reader_event_block_count(reader); i++) {
		struct trace_event_block facts;
		struct trace_event events[256];
		REQUIRE(trace_reader_event_block(reader, i, &facts) == 0);
		REQUIRE(facts.event_count <= 256 - length);
		REQUIRE(trace_reader_events(reader, i, events, &err) == 0);
		for (size_t k = 0; k < facts.event_count; k++)
			got[length++] = (char)('a' + events[k].address / 16 - 1);
	}
	CHECK_STR(got, want);
	trace_reader_close(reader);
	bed_free(bed);
}

static void put(struct bed *bed, struct fake_thread *thread, uint64_t stamp, char letter)
{
	REQUIRE(fake_alloc(thread, bed->base + stamp, (uint64_t)(letter - 'a' + 1) * 16, 8, 0));
}

static void open_threads(struct bed *bed, struct fake_thread *threads, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		REQUIRE(fake_thread_open(&threads[i], &bed->shm.map, i + 1));
		threads[i].no_wait = true;
	}
}

static void merges_by_stamp(void)
{
	struct bed *bed = bed_new(16);
	struct fake_thread threads[3];
	open_threads(bed, threads, 3);
	put(bed, &threads[0], 10, 'a');
	put(bed, &threads[0], 40, 'd');
	put(bed, &threads[1], 20, 'b');
	put(bed, &threads[1], 60, 'f');
	put(bed, &threads[2], 30, 'c');
	put(bed, &threads[2], 50, 'e');
	bed_pass(bed);
	bed_pass(bed);
	bed_check(bed, "abcdef");
}

/* More streams than a row of stamps takes: the heap. */
static void merges_many_streams(void)
{
	struct bed *bed = bed_new(32);
	struct fake_thread threads[24];
	char want[25] = "";
	open_threads(bed, threads, 24);
	for (unsigned i = 0; i < 24; i++) {
		put(bed, &threads[(i * 7) % 24], 10 + i, (char)('a' + i));
		want[i] = (char)('a' + i);
	}
	bed_pass(bed);
	bed_pass(bed);
	bed_check(bed, want);
}

/* Seen late, but stamped before what is released: it goes first. */
static void takes_stragglers_in(void)
{
	struct bed *bed = bed_new(16);
	struct fake_thread threads[2];
	open_threads(bed, threads, 2);
	put(bed, &threads[0], 100, 'c');
	bed_pass(bed); /* c is in the first snapshot of the next pass */
	put(bed, &threads[1], 50, 'a');
	put(bed, &threads[1], 60, 'b');
	put(bed, &threads[1], 200, 'd');
	bed_pass(bed);
	CHECK_EQ_U64(bed->feed.count, 3); /* d must wait: something before it may come */
	put(bed, &threads[0], 150, 'x');
	bed_pass(bed);
	bed_check(bed, "abcxd");
}

static void does_not_wait_for_idle_threads(void)
{
	struct bed *bed = bed_new(16);
	struct fake_thread threads[2];
	open_threads(bed, threads, 2);
	put(bed, &threads[0], 10, 'a');
	bed_pass(bed);
	bed_pass(bed);
	put(bed, &threads[1], 20, 'b');
	bed_pass(bed);
	bed_pass(bed);
	CHECK_EQ_U64(bed->feed.count, 2);
	bed_check(bed, "ab");
}

/* Chains of several chunks; each goes back to the pool when it is read. */
static void returns_chunks(void)
{
	struct bed *bed = bed_new(4);
	struct fake_thread thread;
	open_threads(bed, &thread, 1);
	unsigned emitted = 0;
	for (unsigned round = 0; round < 20; round++) {
		while (emitted < (round + 1) * 2000 &&
		       fake_free(&thread, bed->base + emitted, 16 * (1 + emitted % 20)))
			emitted++;
		bed_pass(bed);
		bed_pass(bed);
	}
	CHECK_EQ_U64(emitted, 40000);
	feed_flush(&bed->feed, true);
	CHECK_EQ_U64(bed->feed.events, emitted);
	CHECK(atomic_load(&bed->shm.map.control->pool_free) >= 3);
	trace_writer_close(bed->feed.writer, NULL);
	bed_free(bed);
}

/* What was just read lies in the collector's cache: threads get other chunks first, but never none.
 */
static void holds_read_chunks_back(void)
{
	enum { POOL = 64 };
	struct bed *bed = bed_new(POOL);
	struct fake_thread thread;
	const _Atomic uint32_t *pool_free = &bed->shm.map.control->pool_free;
	open_threads(bed, &thread, 1);
	unsigned emitted = 0;
	while (atomic_load(pool_free) > POOL / 2 &&
	       fake_free(&thread, bed->base + emitted, 16 * (1 + emitted % 20)))
		emitted++;
	bed_pass(bed);
	uint32_t before = atomic_load(pool_free);
	bed_pass(bed);
	CHECK(bed->cursors.held_count > 0 && bed->cursors.held_count <= POOL / 2);
	CHECK_EQ_U64(atomic_load(pool_free), before);
	while (atomic_load(pool_free) > 0 &&
	       fake_free(&thread, bed->base + emitted, 16 * (1 + emitted % 20)))
		emitted++;
	bed_pass(bed);
	CHECK(atomic_load(pool_free) >= POOL / 8); /* it was short */
	bed_pass(bed);
	bed_pass(bed);
	bed_pass(bed);
	CHECK_EQ_U64(bed->cursors.held_count, 0); /* little comes: none is held */
	feed_flush(&bed->feed, true);
	CHECK_EQ_U64(bed->feed.events, emitted);
	trace_writer_close(bed->feed.writer, NULL);
	bed_free(bed);
}

/* The thread has taken its next chunk and not yet written into it. */
static void link_chunk(struct fake_thread *thread)
{
	uint32_t next = wire_pool_take(thread->map);
	REQUIRE(next != WIRE_NONE);
	wire_chunk_open(thread->map, next, thread->index, atomic_load(&thread->stream->serial));
	atomic_store(&thread->chunk->next, next);
	thread->chunk = &thread->map->chunks[next - 1];
	thread->used = 0;
}

/* One of two streams runs dry where its chunk ends and the next has nothing yet. */
static void goes_on_after_a_full_chunk(void)
{
	enum { FULL = WIRE_CHUNK_WORDS / 2, MORE = 100 };
	struct bed *bed = bed_new(8);
	struct fake_thread threads[2];
	open_threads(bed, threads, 2);
	REQUIRE(fake_free(&threads[0], bed->base + 1, 16)); /* first of all: it leads the row */
	for (unsigned i = 0; i < FULL; i++)
		REQUIRE(fake_free(&threads[1], bed->base + 10 + i, 16));
	REQUIRE(fake_free(&threads[0], bed->base + 100000, 16));
	CHECK_EQ_U64(threads[1].used, WIRE_CHUNK_WORDS);
	link_chunk(&threads[1]);
	bed_pass(bed);
	bed_pass(bed);
	for (unsigned i = 0; i < MORE; i++)
		REQUIRE(fake_free(&threads[1], bed->base + 200000 + i, 16));
	bed_pass(bed);
	bed_pass(bed);
	feed_flush(&bed->feed, true);
	CHECK_EQ_U64(bed->feed.events, FULL + MORE + 2);
	CHECK_EQ_U64(bed->feed.bad_events, 0);
	trace_writer_close(bed->feed.writer, NULL);
	bed_free(bed);
}

/* A thread that was idle loses its chunk and goes on with another. */
static void takes_a_chunk_back(void)
{
	struct bed *bed = bed_new(4);
	struct fake_thread thread;
	if (!bed->cursors.can_revoke)
		tap_skip("the kernel has no membarrier");
	open_threads(bed, &thread, 1);
	put(bed, &thread, 10, 'a');
	for (int i = 0; i < 8; i++)
		bed_pass(bed);
	CHECK_EQ_U64(atomic_load(&bed->shm.map.control->pool_free), 3);
	CHECK_EQ_U64(cursors_revoke_idle(&bed->cursors), 1);
	bed_pass(bed);
	CHECK_EQ_U64(atomic_load(&bed->shm.map.control->pool_free), 4);
	put(bed, &thread, 20, 'b');
	bed_pass(bed);
	bed_pass(bed);
	CHECK_EQ_U64(atomic_load(&bed->shm.map.control->pool_free), 3);
	bed_check(bed, "ab");
}

/* It emitted between being asked and our looking: old and new chunk, in order. */
static void loses_nothing_in_the_handshake(void)
{
	struct bed *bed = bed_new(4);
	struct fake_thread thread;
	if (!bed->cursors.can_revoke)
		tap_skip("the kernel has no membarrier");
	open_threads(bed, &thread, 1);
	put(bed, &thread, 10, 'a');
	for (int i = 0; i < 8; i++)
		bed_pass(bed);
	put(bed, &thread, 20, 'b'); /* into the old chunk, not yet seen */
	CHECK_EQ_U64(cursors_revoke_idle(&bed->cursors), 1);
	put(bed, &thread, 30, 'c'); /* into a new one */
	bed_pass(bed);
	bed_pass(bed);
	CHECK_EQ_U64(bed->feed.count, 3);
	bed_check(bed, "abc");
}

/* ---- the handshake, again and again ---- */

enum { ASKED_EVENTS = 100000 };

struct asked {
	const struct wire_map *map;
	uint64_t base;
	_Atomic bool done;
};

/* Idle now and then, about as long as it takes to be asked for the chunk. */
static void *emit_with_pauses(void *arg)
{
	struct asked *asked = arg;
	struct fake_thread thread;
	uint32_t random = 1;
	REQUIRE(fake_thread_open(&thread, asked->map, 77));
	for (uint64_t i = 0; i < ASKED_EVENTS; i++) {
		const uint64_t words[] = {WIRE_OP_ALLOC_FAIL, 1, 0};
		REQUIRE(fake_emit(&thread, asked->base + i, words, 3));
		random = random * 1664525u + 1013904223u;
		for (uint32_t pause = random >> 23; pause > 0; pause--)
			__asm__ volatile("pause");
	}
	atomic_store(&asked->done, true);
	return NULL;
}

static void loses_nothing_when_asked_often(void)
{
	struct bed *bed = bed_new(4);
	struct asked asked = {.map = &bed->shm.map, .base = bed->base};
	struct model_totals totals;
	pthread_t thread;
	if (!bed->cursors.can_revoke ||
	    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0))
		tap_skip("the kernel has no membarrier");
	atomic_store(&bed->shm.map.control->quick_barrier, 1);
	REQUIRE(pthread_create(&thread, NULL, emit_with_pauses, &asked) == 0);
	while (!atomic_load(&asked.done)) {
		bed_pass(bed);
		cursors_revoke_idle(&bed->cursors);
	}
	pthread_join(thread, NULL);
	bed_pass(bed);
	bed_pass(bed);
	feed_flush(&bed->feed, true);
	model_totals(bed->feed.model, &totals);
	CHECK_EQ_U64(totals.failed, ASKED_EVENTS);
	trace_writer_close(bed->feed.writer, NULL);
	bed_free(bed);
}

/* A wide event, a failed one, alignment and api: every field arrives. */
static void decodes_every_kind(void)
{
	struct bed *bed = bed_new(4);
	struct fake_thread thread;
	open_threads(bed, &thread, 1);
	const uint64_t events[][4] = {
		{WIRE_OP_ALLOC_WIDE | WIRE_API_ALIGNED << 4, 16, 6, 5ull << 32},
		{WIRE_OP_REALLOC_BEGIN | WIRE_API_REALLOC << 4, 16},
		{WIRE_OP_REALLOC_FAIL | WIRE_API_REALLOC << 4, 1ull << 60, 0},
		{WIRE_OP_REALLOC_BEGIN | WIRE_API_REALLOC << 4, 16},
		{WIRE_OP_REALLOC_END | WIRE_API_REALLOC << 4, 32, 100},
		{WIRE_OP_ALLOC_FAIL | 15 << 4, 1ull << 61, 0},
		{WIRE_OP_FREE_STACK, 32, 0},
	};
	for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
		REQUIRE(fake_emit(&thread, bed->base + i, events[i],
				  wire_event_words(events[i][0], events[i][1])));
	bed_pass(bed);
	bed_pass(bed);
	const struct trace_event *got = bed->feed.batch;
	REQUIRE(bed->feed.count == 7);
	CHECK_EQ_U64(got[0].op, TRACE_ALLOC);
	CHECK_EQ_U64(got[0].align_log2, 6);
	CHECK_EQ_U64(got[0].size_bytes, 5ull << 32);
	CHECK_EQ_U64(got[0].api, TRACE_API_ALIGNED);
	CHECK_EQ_U64(got[1].op, TRACE_REALLOC_FREE);
	CHECK_EQ_U64(got[2].op, TRACE_REALLOC_UNDO);
	CHECK_EQ_U64(got[2].size_bytes, 1ull << 60);
	CHECK_EQ_U64(got[4].op, TRACE_REALLOC_ALLOC);
	CHECK_EQ_U64(got[4].size_bytes, 100);
	CHECK_EQ_U64(got[5].op, TRACE_ALLOC_FAIL);
	CHECK_EQ_U64(got[5].api, TRACE_API_CUSTOM); /* no such api */
	CHECK_EQ_U64(got[6].op, TRACE_FREE);
	feed_flush(&bed->feed, true);
	struct model_totals totals;
	model_totals(bed->feed.model, &totals);
	CHECK_EQ_U64(totals.live_blocks, 0);
	CHECK_EQ_U64(totals.failed, 2);
	trace_writer_close(bed->feed.writer, NULL);
	bed_free(bed);
}

static const struct tap_case cases[] = {
	{.name = "events of several threads come in the order of time", .run = merges_by_stamp},
	{.name = "the same with many threads", .run = merges_many_streams},
	{.name = "an event that is seen late still comes in its place", .run = takes_stragglers_in},
	{.name = "an idle thread holds nobody up", .run = does_not_wait_for_idle_threads},
	{.name = "chunks go back as soon as they are read", .run = returns_chunks},
	{.name = "chunks that were just read are held back", .run = holds_read_chunks_back},
	{.name = "a chunk is not lost after one that was read to its end",
	 .run = goes_on_after_a_full_chunk},
	{.name = "an idle thread's chunk is taken back", .run = takes_a_chunk_back},
	{.name = "nothing is lost while it is taken back", .run = loses_nothing_in_the_handshake},
	{.name = "nor when it is taken back again and again",
	 .run = loses_nothing_when_asked_often},
	{.name = "every kind of event arrives with all its figures", .run = decodes_every_kind},
};
TAP_MAIN(cases)
