/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the collector takes: streams of the micro program (malloc and free of
 * 16 to 512 bytes, 64 live objects per thread) are laid into shared memory
 * beforehand, then merged, matched, modelled, encoded, compressed and written.
 *
 *   bench-collector [THREADS [MILLION_EVENTS [CONTEXTS]]]
 *
 * Prints, per event, the CPU time of the drain thread (merge, model, encode) and
 * of all threads (with compression and disk).
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "collector/cursor.h"
#include "collector/extra.h"
#include "collector/feed.h"
#include "collector/merge.h"
#include "collector/shm.h"
#include "fake_agent.h"

enum {
	THREADS_MAX = 64,
	LIVE_OBJECTS = 64,
	CHUNKS = WIRE_CHUNK_COUNT,
	PAIR_STAMPS = 120,
	DEPTH = 10
};

struct producer {
	struct fake_thread thread;
	uint64_t random, stamp;
	uint64_t objects[LIVE_OBJECTS];
	uint64_t base;
};

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

static void make_pair(struct producer *p, const uint32_t *contexts, unsigned context_count)
{
	uint64_t random = next_random(&p->random);
	unsigned at = random % LIVE_OBJECTS;
	uint32_t node = contexts[(random >> 8) % context_count];
	if (p->objects[at])
		fake_free(&p->thread, p->stamp += PAIR_STAMPS / 2 + random % 7, p->objects[at]);
	/* Addresses as a thread cache gives them: the one freed last. */
	if (!p->objects[at])
		p->objects[at] = p->base + at * 512;
	fake_alloc(&p->thread, p->stamp += PAIR_STAMPS / 2 + random % 5, p->objects[at],
		   (uint32_t)(16 + random % 497), node);
}

static void began(void *ctx, struct cursor *cursor)
{
	cursor->thread_id = feed_thread(ctx, cursor->tid, 0);
}

static void ended(void *ctx, struct cursor *cursor)
{
	(void)ctx;
	(void)cursor;
}

static void fill(struct producer *producers, unsigned threads, uint64_t events,
		 const uint32_t *contexts, unsigned context_count)
{
	for (uint64_t i = 0; i < events / 2; i++)
		make_pair(&producers[i % threads], contexts, context_count);
}

static void check(int error, const struct tm_error *err)
{
	if (!error)
		return;
	fprintf(stderr, "bench-collector: %s\n", err->text);
	exit(1);
}

int main(int argc, char **argv)
{
	unsigned threads = argc > 1 ? (unsigned)atoi(argv[1]) : 2;
	uint64_t events = (argc > 2 ? (uint64_t)atoi(argv[2]) : 10) * 1000000, done = 0;
	unsigned context_count = argc > 3 ? (unsigned)atoi(argv[3]) : 1;
	static struct feed feed;
	static struct producer producers[THREADS_MAX];
	struct stamp_pair earlier = stamp_pair_read();
	struct shm shm;
	struct cursors cursors;
	struct merge merge;
	struct extra extra = {.feed = &feed};
	struct tm_error err = {0};
	struct trace_writer *writer;
	char path[] = "/tmp/bench-collector.XXXXXX";
	threads = threads < 1 ? 1 : threads > THREADS_MAX ? THREADS_MAX : threads;
	usleep(2000);
	check(shm_open_new(&shm, &(struct shm_options){.chunk_count = CHUNKS, .state = WIRE_RECORD},
			   &err),
	      &err);
	check(trace_writer_open(mkstemp(path), &(struct trace_writer_options){.addresses = true},
				&writer, &err),
	      &err);
	unlink(path);
	check(feed_init(&feed, &shm.map, true, &earlier, 0, &err), &err);
	check(cursors_init(&cursors, &shm.map) || merge_init(&merge, &cursors, &feed, &extra),
	      &err);
	feed.writer = writer;
	trace_writer_begin(writer, &(struct trace_meta){.program = "micro",
							.command = "micro",
							.host = "",
							.mode = "exact",
							.source = "run",
							.clock = "tsc",
							.tool_version = ""});
	uint32_t *contexts = calloc(context_count, sizeof *contexts);
	for (unsigned i = 0; i < context_count; i++)
		for (unsigned depth = 0; depth < DEPTH; depth++)
			contexts[i] =
				fake_node(&shm.map, contexts[i], 0x400000 + i * 4096 + depth, 0);
	for (unsigned i = 0; i < threads; i++) {
		producers[i] = (struct producer){.random = i,
						 .base = 0x7f0000000000 + i * 0x4000000ull,
						 .stamp = fake_stamp() + i * 31};
		fake_thread_open(&producers[i].thread, &shm.map, i + 1);
		producers[i].thread.no_wait = true;
	}
	uint64_t drain = 0, cpu = 0, round = (uint64_t)CHUNKS * WIRE_CHUNK_WORDS / 3;
	while (done < events) {
		fill(producers, threads, round, contexts, context_count);
		done += round;
		uint64_t drain_before = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
		uint64_t cpu_before = clock_cpu_ns();
		for (int pass = 0; pass < 2; pass++) {
			merge_release(&merge, cursors_snapshot(&cursors, began, &feed));
			cursors_sweep(&cursors, ended, &feed);
		}
		feed_tick(&feed);
		drain += clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - drain_before;
		cpu += clock_cpu_ns() - cpu_before;
	}
	uint64_t cpu_before = clock_cpu_ns();
	feed_close_slice(&feed);
	trace_writer_end(writer, &(struct trace_end){.cause = TRACE_END_EXIT});
	uint64_t bytes = trace_writer_bytes(writer);
	check(trace_writer_close(writer, &err), &err);
	cpu += clock_cpu_ns() - cpu_before;
	struct model_totals totals;
	model_totals(feed.model, &totals);
	printf("threads=%u events=%llu drain_ns_per_event=%.2f cpu_ns_per_event=%.2f "
	       "bytes_per_event=%.3f repaired=%llu unseen=%llu older=%llu bad=%llu\n",
	       threads, (unsigned long long)feed.events, (double)drain / (double)feed.events,
	       (double)cpu / (double)feed.events, (double)bytes / (double)feed.events,
	       (unsigned long long)feed.repaired, (unsigned long long)totals.freed_unseen,
	       (unsigned long long)totals.freed_older, (unsigned long long)feed.bad_events);
	free(contexts);
	return 0;
}
