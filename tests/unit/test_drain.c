/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The drain loop against producers that behave as the agent does (or worse).
 * The figures that are expected are the producers' own counts.
 */
#include "collector/section.h"
#include "collector/shm.h"
#include "fake_agent.h"
#include "harness/tap.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct bed {
	struct section *section;
	struct trace_writer *writer;
	struct wire_map map;
	pthread_t thread;
	int error;
};

static void *run_section(void *arg)
{
	struct bed *bed = arg;
	bed->error = section_run(bed->section, bed->writer, NULL);
	return NULL;
}

static void bed_open(struct bed *bed, uint32_t chunk_count)
{
	struct shm shm;
	struct tm_error err = {0};
	char path[] = "/tmp/test-drain.XXXXXX";
	struct stamp_pair earlier = stamp_pair_read();
	usleep(2000);
	struct shm_options memory = {.chunk_count = chunk_count,
				     .stream_count = 4096,
				     .node_count = 100000,
				     .state = WIRE_RECORD};
	REQUIRE(shm_open_new(&shm, &memory, &err) == 0);
	bed->map = shm.map;
	struct section_options options = {.pid = getpid(),
					  .program = "test",
					  .command = "test",
					  .tsc = true,
					  .earlier = earlier,
					  .addresses = true};
	REQUIRE(section_new(&options, &shm, &bed->section, &err) == 0);
	int fd = mkstemp(path);
	unlink(path);
	REQUIRE(trace_writer_open(fd, &(struct trace_writer_options){.addresses = true},
				  &bed->writer, &err) == 0);
	REQUIRE(pthread_create(&bed->thread, NULL, run_section, bed) == 0);
}

static const struct section_result *bed_end(struct bed *bed)
{
	section_end(bed->section, &(struct section_ending){.cause = TRACE_END_EXIT});
	pthread_join(bed->thread, NULL);
	CHECK_EQ_I64(bed->error, 0);
	CHECK_EQ_I64(trace_writer_close(bed->writer, NULL), 0);
	return section_result(bed->section);
}

static void bed_close(struct bed *bed)
{
	bed->section = section_free(bed->section);
}

/* ---- one thread ---- */

static void counts_one_thread(void)
{
	enum { PAIRS = 100000 };
	struct bed bed;
	struct fake_thread thread;
	bed_open(&bed, 16);
	REQUIRE(fake_thread_open(&thread, &bed.map, 1));
	uint32_t root = fake_node(&bed.map, 0, 0x1000, 0);
	uint32_t leaf = fake_node(&bed.map, root, 0x2000, 0);
	uint32_t twin = fake_node(&bed.map, root, 0x2000, 0); /* a lost race made it twice */
	for (uint64_t i = 0; i < PAIRS; i++) {
		fake_alloc(&thread, fake_stamp(), 0x10000 + 16 * i, 10, i % 2 ? leaf : twin);
		if (i % 2)
			fake_free(&thread, fake_stamp(), 0x10000 + 16 * i);
	}
	const struct section_result *result = bed_end(&bed);
	CHECK_EQ_U64(result->totals.allocations, PAIRS);
	CHECK_EQ_U64(result->totals.frees, PAIRS / 2);
	CHECK_EQ_U64(result->totals.live_bytes, PAIRS / 2 * 10);
	CHECK_EQ_U64(result->totals.stacks, 1);
	CHECK_EQ_U64(result->totals.freed_unseen + result->totals.freed_older, 0);
	CHECK_EQ_U64(result->bad_events, 0);
	bed_close(&bed);
}

/* ---- many threads ---- */

struct producer {
	const struct wire_map *map;
	unsigned number;
	uint64_t pairs;
	pthread_barrier_t *idle; /* after this many: wait there, holding a chunk */
	pthread_t thread;
};

static void *produce(void *arg)
{
	struct producer *producer = arg;
	struct fake_thread thread;
	uint64_t base = 0x100000000ull * (producer->number + 1);
	if (!fake_thread_open(&thread, producer->map, 1000000 + producer->number))
		return NULL;
	for (uint64_t i = 0; i < producer->pairs; i++) {
		fake_alloc(&thread, fake_stamp(), base + i % 64 * 32, 32, 0);
		fake_free(&thread, fake_stamp(), base + i % 64 * 32);
	}
	if (producer->idle)
		pthread_barrier_wait(producer->idle);
	return NULL;
}

static uint64_t run_producers(const struct wire_map *map, unsigned count, uint64_t pairs,
			      pthread_barrier_t *idle)
{
	struct producer *producers = calloc(count, sizeof *producers);
	for (unsigned i = 0; i < count; i++) {
		producers[i] =
			(struct producer){.map = map, .number = i, .pairs = pairs, .idle = idle};
		REQUIRE(pthread_create(&producers[i].thread, NULL, produce, &producers[i]) == 0);
	}
	for (unsigned i = 0; i < count; i++)
		pthread_join(producers[i].thread, NULL);
	free(producers);
	return count * pairs;
}

static void check_pairs(const struct section_result *result, uint64_t pairs)
{
	CHECK_EQ_U64(result->totals.allocations, pairs);
	CHECK_EQ_U64(result->totals.frees, pairs);
	CHECK_EQ_U64(result->totals.live_bytes, 0);
	CHECK_EQ_U64(result->totals.freed_unseen + result->totals.freed_older, 0);
	CHECK_EQ_U64(result->end.lost_events, 0);
	CHECK_EQ_U64(result->bad_events, 0);
}

static void loses_nothing_when_the_pool_is_small(void)
{
	struct bed bed;
	bed_open(&bed, 12);
	uint64_t pairs = run_producers(&bed.map, 8, 20000, NULL);
	check_pairs(bed_end(&bed), pairs);
	bed_close(&bed);
}

/* 40 threads, 8 chunks: all must be able to emit, and those that idle hold none for ever. */
static void takes_chunks_from_idle_threads(void)
{
	struct bed bed;
	pthread_barrier_t barrier;
	bed_open(&bed, 8);
	pthread_barrier_init(&barrier, NULL, 40);
	uint64_t pairs = run_producers(&bed.map, 40, 50, &barrier);
	check_pairs(bed_end(&bed), pairs);
	bed_close(&bed);
}

static void follows_thread_churn(void)
{
	struct bed bed;
	uint64_t pairs = 0;
	bed_open(&bed, 16);
	for (int i = 0; i < 60; i++)
		pairs += run_producers(&bed.map, 20, 5, NULL);
	check_pairs(bed_end(&bed), pairs);
	bed_close(&bed);
}

/* ---- hand-over of addresses between threads ---- */

enum { SHARED_BLOCKS = 4, RACE_THREADS = 4, RACE_ROUNDS = 30000 };

struct race {
	const struct wire_map *map;
	unsigned number;
	_Atomic uint32_t *locks; /* 1 while the block is somebody's */
	pthread_t thread;
};

/* A block is taken before its allocation is stamped, and given back after its free is published. */
static void *run_race(void *arg)
{
	struct race *race = arg;
	struct fake_thread thread;
	if (!fake_thread_open(&thread, race->map, 2000000 + race->number))
		return NULL;
	for (unsigned done = 0, at = race->number; done < RACE_ROUNDS; at++) {
		_Atomic uint32_t *lock = &race->locks[at % SHARED_BLOCKS];
		if (atomic_exchange_explicit(lock, 1, memory_order_acquire))
			continue;
		fake_alloc(&thread, fake_stamp(), 0x5000 + at % SHARED_BLOCKS * 64, 64, 0);
		fake_free(&thread, fake_stamp(), 0x5000 + at % SHARED_BLOCKS * 64);
		atomic_store_explicit(lock, 0, memory_order_release);
		done++;
	}
	return NULL;
}

static void keeps_the_order_of_a_race(void)
{
	struct bed bed;
	_Atomic uint32_t locks[SHARED_BLOCKS] = {0};
	struct race races[RACE_THREADS];
	bed_open(&bed, 32);
	for (unsigned i = 0; i < RACE_THREADS; i++) {
		races[i] = (struct race){.map = &bed.map, .number = i, .locks = locks};
		REQUIRE(pthread_create(&races[i].thread, NULL, run_race, &races[i]) == 0);
	}
	for (unsigned i = 0; i < RACE_THREADS; i++)
		pthread_join(races[i].thread, NULL);
	const struct section_result *result = bed_end(&bed);
	check_pairs(result, (uint64_t)RACE_THREADS * RACE_ROUNDS);
	CHECK(result->totals.peak_bytes <= SHARED_BLOCKS * 64);
	bed_close(&bed);
}

/* ---- the end ---- */

static void loses_nothing_published_when_killed(void)
{
	for (int round = 0; round < 5; round++) {
		struct bed bed;
		bed_open(&bed, 32);
		_Atomic uint64_t *count =
			mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		pid_t child = fork();
		if (child == 0) {
			struct fake_thread thread;
			fake_thread_open(&thread, &bed.map, 7);
			for (uint64_t i = 1;; i++) {
				fake_alloc(&thread, fake_stamp(), 0x10000 + i * 16, 1, 0);
				atomic_store(count, i);
			}
		}
		while (atomic_load(count) < 1000u * (unsigned)(round + 1))
			usleep(100);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		uint64_t published = atomic_load(count);
		const struct section_result *result = bed_end(&bed);
		CHECK(result->totals.allocations == published ||
		      result->totals.allocations == published + 1);
		bed_close(&bed);
		munmap((void *)count, 4096);
	}
}

static void says_that_the_collector_died(void)
{
	struct shm shm;
	struct tm_error err;
	REQUIRE(shm_open_new(&shm, &(struct shm_options){.state = WIRE_RECORD}, &err) == 0);
	struct wire_control *control = shm.map.control;
	pid_t child = fork();
	if (child == 0) {
		struct section *section;
		struct trace_writer *writer;
		struct section_options options = {.pid = getppid(),
						  .program = "",
						  .command = "",
						  .tsc = true,
						  .earlier = stamp_pair_read()};
		int fd = open("/dev/null", O_RDWR);
		if (!section_new(&options, &shm, &section, NULL) &&
		    !trace_writer_open(fd, &(struct trace_writer_options){0}, &writer, NULL))
			section_run(section, writer, NULL);
		_exit(1);
	}
	while (!atomic_load(&control->owner))
		usleep(1000);
	CHECK((atomic_load(&control->owner) & 0x40000000u) == 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	CHECK((atomic_load(&control->owner) & 0x40000000u) != 0);
	shm_close(&shm);
}

/* ---- pages for what comes next ---- */

static size_t node_pages(const struct wire_map *map, size_t from, size_t bytes)
{
	unsigned char there[512];
	size_t pages = 0;
	REQUIRE(bytes / 4096 <= sizeof there);
	REQUIRE(mincore((char *)map->nodes + from, bytes, there) == 0);
	for (size_t i = 0; i < bytes / 4096; i++)
		pages += there[i] & 1;
	return pages;
}

static void makes_pages_ahead(void)
{
	struct shm shm;
	struct tm_error err;
	const struct shm_options options = {.state = WIRE_RECORD, .node_count = 1 << 20};
	REQUIRE(shm_open_new(&shm, &options, &err) == 0);
	const struct wire_map *map = &shm.map;
	const size_t all = (1u << 20) * sizeof *map->nodes, step = 1 << 20;
	/* Small programs have none. */
	atomic_store(&map->control->nodes_next, 1000);
	shm_make_ahead(&shm);
	CHECK_EQ_U64(node_pages(map, 0, step), 0);
	/* As much again as is used, and then a MiB. */
	atomic_store(&map->control->nodes_next, (uint32_t)((512 << 10) / sizeof *map->nodes));
	shm_make_ahead(&shm);
	CHECK_EQ_U64(node_pages(map, 512 << 10, 512 << 10), 128);
	CHECK_EQ_U64(node_pages(map, step, step), 0);
	atomic_store(&map->control->nodes_next, (uint32_t)(4 * step / sizeof *map->nodes));
	shm_make_ahead(&shm);
	CHECK_EQ_U64(node_pages(map, 4 * step, step), 256);
	CHECK_EQ_U64(node_pages(map, 5 * step, step), 0);
	/* Never beyond the end, whatever the target says. */
	atomic_store(&map->control->nodes_next, UINT32_MAX);
	shm_make_ahead(&shm);
	CHECK_EQ_U64(node_pages(map, all - step, step), 0);
	shm_close(&shm);
}

/* ---- a hostile target ---- */

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 20;
}

/* Anything may be written anywhere in the shared memory, at any time. */
static void scribble(const struct wire_map *map, uint64_t *random)
{
	uint64_t value = next_random(random);
	uint32_t chunk = (uint32_t)(next_random(random) % map->chunk_count);
	struct wire_stream *stream = &map->streams[next_random(random) % 8];
	switch (next_random(random) % 12) {
	case 0:
		atomic_store(&stream->head, (uint32_t)(value % 40));
		break;
	case 1:
		atomic_store(&stream->head_seq, (uint32_t)value);
		break;
	case 2:
		atomic_store(&map->chunks[chunk].next, (uint32_t)(value % 40));
		break;
	case 3:
		atomic_store(&map->chunks[chunk].committed, (uint32_t)(value % 5000));
		break;
	case 4:
		atomic_store(&map->control->streams_high,
			     (uint32_t)(value % 3 ? value % 10 : value));
		break;
	case 5:
		atomic_store(&stream->serial, value);
		break;
	case 6:
		atomic_store(&stream->state, (uint32_t)(value % 5));
		break;
	case 7:
		map->nodes[value % 64 + 1] =
			(struct wire_node){.parent = (uint32_t)(value >> 8) % 80,
					   .module = (uint32_t)(value >> 16) % 9};
		break;
	case 8:
		atomic_store(&map->control->pool_head, value % 40);
		break;
	default:
		/* Words that look like events more often than not. */
		map->chunks[chunk].words[value % 4000] =
			next_random(random) << 8 | (value >> 32) % 12;
		map->chunks[chunk].words[(value + 1) % 4000] =
			value % 3 ? (value >> 12) % 25 | (value >> 24) % 700 << 16 : value;
	}
}

static void run_hostile(uint64_t seed)
{
	struct bed bed;
	bed_open(&bed, 32);
	pid_t child = fork();
	if (child == 0) {
		for (;;)
			scribble(&bed.map, &seed);
	}
	usleep(300 * 1000);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	section_end(bed.section, &(struct section_ending){.cause = TRACE_END_EXIT});
	pthread_join(bed.thread, NULL);
	trace_writer_close(bed.writer, NULL);
	CHECK(section_result(bed.section)->bad_events > 0);
	bed_close(&bed);
}

static void survives_a_hostile_target(void)
{
	for (uint64_t seed = 1; seed <= 6; seed++)
		run_hostile(seed);
}

static const struct tap_case cases[] = {
	{.name = "one thread's figures are exact", .run = counts_one_thread},
	{.name = "no event is lost when the pool is small",
	 .run = loses_nothing_when_the_pool_is_small},
	{.name = "more threads than chunks do not hang", .run = takes_chunks_from_idle_threads},
	{.name = "threads that come and go are all recorded", .run = follows_thread_churn},
	{.name = "blocks that change threads are no false leaks", .run = keeps_the_order_of_a_race},
	{.name = "what was published before SIGKILL is in the trace",
	 .run = loses_nothing_published_when_killed},
	{.name = "the program learns that its collector died", .run = says_that_the_collector_died},
	{.name = "what comes next has pages before it is used", .run = makes_pages_ahead},
	{.name = "a program that writes into the agent's memory breaks nothing",
	 .run = survives_a_hostile_target},
};
TAP_MAIN(cases)
