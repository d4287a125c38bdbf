/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The micro program of the figures: pairs of malloc and free of 16 to 512
 * bytes, 64 live objects per thread, from stacks of a chosen depth. Compiled
 * with -O2 -fomit-frame-pointer; prints what one pair cost inside the loop.
 *
 *   micro MODE DEPTH THREADS PAIRS
 *
 * Modes:
 *   steady  all pairs come from the bottom of one stack of DEPTH frames
 *   walk    the depth walks at random around DEPTH, two calls or returns
 *           between two pairs; a fork in the path at every sixth level gives
 *           about 20 contexts at depth 10, 100 at 30, some thousand at 60
 *   walkx   as walk, but the path forks at every level: most contexts are new
 *
 * PAIRS is the sum over the threads. DEPTH counts the frames from the function
 * that calls malloc to the process's or thread's entry, give or take one.
 *
 * Known limits: the threads share nothing but the allocator, so this shows no
 * frees across threads.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* So that a level is one frame. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

enum {
	LIVE_OBJECTS = 64,
	SIZE_MIN = 16,
	SIZE_MAX_BYTES = 512,
	FRAMES_BELOW = 4, /* entry, libc's start, main or the thread's start, run_thread() */
	DEPTH_MIN = 10,
	DEPTH_MAX = 1000,
	THREADS_MAX = 64,
	FORK_EVERY = 6, /* walk: levels between two forks of the path */
	LEVEL_KINDS = 8,
};

enum mode { MODE_STEADY, MODE_WALK, MODE_WALKX };

static const char *const mode_names[] = {"steady", "walk", "walkx"};

struct worker {
	uint64_t random;
	uint64_t pairs_left;
	unsigned moves_left; /* calls or returns until the next pair */
	unsigned depth_low, depth_high;
	enum mode mode;
	void *objects[LIVE_OBJECTS];
};

struct bench {
	enum mode mode;
	unsigned depth, threads;
	uint64_t pairs;
	pthread_barrier_t start;
};

struct worker_start {
	struct bench *bench;
	unsigned index;
};

typedef void level_fn(struct worker *w, unsigned depth);

static level_fn *const levels[LEVEL_KINDS];

static ALWAYS_INLINE uint64_t next_random(struct worker *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random;
}

static ALWAYS_INLINE void pair(struct worker *w)
{
	uint64_t r = next_random(w);
	void **object = &w->objects[r % LIVE_OBJECTS];
	size_t size_bytes = SIZE_MIN + (r >> 16) % (SIZE_MAX_BYTES - SIZE_MIN + 1);

	free(*object);
	*object = malloc(size_bytes);
	if (!*object)
		abort();
	*(volatile char *)*object = 1;
	w->pairs_left--;
}

static ALWAYS_INLINE void call_level(struct worker *w, unsigned depth)
{
	unsigned kind = depth;

	if (depth > w->depth_low &&
	    (w->mode == MODE_WALKX || (w->mode == MODE_WALK && depth % FORK_EVERY == 0)))
		kind += (unsigned)(next_random(w) >> 40) % 4;
	levels[kind % LEVEL_KINDS](w, depth);
}

/* Pairs and moves of one frame of the walk, until it returns to its caller or the pairs are done.
 */
static ALWAYS_INLINE void walk(struct worker *w, unsigned depth)
{
	while (w->pairs_left > 0) {
		uint64_t r = next_random(w) >> 20;

		if (w->moves_left == 0) {
			pair(w);
			w->moves_left = 1 + (r >> 8) % 3;
			continue;
		}
		w->moves_left--;
		if (depth == w->depth_low || (depth < w->depth_high && (r & 1)))
			call_level(w, depth + 1);
		else
			return;
	}
}

static ALWAYS_INLINE void run_level(struct worker *w, unsigned depth)
{
	if (depth < w->depth_low)
		call_level(w, depth + 1);
	else if (w->mode == MODE_STEADY)
		while (w->pairs_left > 0)
			pair(w);
	else
		walk(w, depth);
}

/* Functions alike but for the size of their frames; the padding is used after the call, so it is no
 * tail call. */
#define LEVEL(name, padding)                                                         \
	static __attribute__((noinline)) void name(struct worker *w, unsigned depth) \
	{                                                                            \
		char pad[padding];                                                   \
                                                                                     \
		run_level(w, depth);                                                 \
		__asm__ volatile("" : : "r"(pad) : "memory");                        \
	}

LEVEL(level_a, 8)
LEVEL(level_b, 24)
LEVEL(level_c, 56)
LEVEL(level_d, 72)
LEVEL(level_e, 16)
LEVEL(level_f, 40)
LEVEL(level_g, 120)
LEVEL(level_h, 88)

static level_fn *const levels[LEVEL_KINDS] = {level_a, level_b, level_c, level_d,
					      level_e, level_f, level_g, level_h};

static __attribute__((noinline)) void run_thread(struct bench *b, unsigned index)
{
	unsigned levels_deep = b->depth - FRAMES_BELOW;
	unsigned spread = b->mode == MODE_STEADY ? 0 : levels_deep / 4 + 2;
	struct worker w = {
		.random = 0x9e3779b97f4a7c15u * (index + 1),
		.pairs_left = b->pairs / b->threads,
		.depth_low = levels_deep - spread,
		.depth_high = levels_deep + spread,
		.mode = b->mode,
	};

	pthread_barrier_wait(&b->start);
	call_level(&w, 1);
	for (unsigned i = 0; i < LIVE_OBJECTS; i++)
		free(w.objects[i]);
}

static void *thread_main(void *arg)
{
	struct worker_start *start = arg;

	run_thread(start->bench, start->index);
	return NULL;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t cpu_ns(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000u +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000u;
}

/* One thread runs in main itself: the allocator's single-threaded ways are part of what is
 * measured. */
static int run(struct bench *b)
{
	pthread_t threads[THREADS_MAX];
	struct worker_start starts[THREADS_MAX];
	unsigned extra = b->threads > 1 ? b->threads : 0;
	uint64_t pairs_done = b->pairs / b->threads * b->threads;
	uint64_t wall, cpu;

	pthread_barrier_init(&b->start, NULL, extra + 1);
	for (unsigned i = 0; i < extra; i++) {
		starts[i] = (struct worker_start){.bench = b, .index = i};
		int error = pthread_create(&threads[i], NULL, thread_main, &starts[i]);
		if (error) {
			fprintf(stderr, "micro: thread %u: %s\n", i, strerror(error));
			return 1;
		}
	}
	wall = now_ns();
	cpu = cpu_ns();
	if (extra == 0)
		run_thread(b, 0);
	else
		pthread_barrier_wait(&b->start);
	for (unsigned i = 0; i < extra; i++)
		pthread_join(threads[i], NULL);
	wall = now_ns() - wall;
	cpu = cpu_ns() - cpu;
	printf("mode=%s depth=%u threads=%u pairs=%llu wall_ns_per_pair=%.2f "
	       "cpu_ns_per_pair=%.2f\n",
	       mode_names[b->mode], b->depth, b->threads, (unsigned long long)pairs_done,
	       (double)wall / (double)pairs_done, (double)cpu / (double)pairs_done);
	return 0;
}

static int find_mode(const char *name)
{
	for (int i = 0; i < (int)(sizeof(mode_names) / sizeof(mode_names[0])); i++)
		if (strcmp(name, mode_names[i]) == 0)
			return i;
	return -1;
}

int main(int argc, char **argv)
{
	struct bench b = {0};
	int mode = argc == 5 ? find_mode(argv[1]) : -1;

	if (mode < 0) {
		fputs("usage: micro steady|walk|walkx DEPTH THREADS PAIRS\n", stderr);
		return 2;
	}
	b.mode = (enum mode)mode;
	b.depth = (unsigned)strtoul(argv[2], NULL, 10);
	b.threads = (unsigned)strtoul(argv[3], NULL, 10);
	b.pairs = strtoull(argv[4], NULL, 10);
	if (b.depth < DEPTH_MIN || b.depth > DEPTH_MAX || b.threads < 1 ||
	    b.threads > THREADS_MAX || b.pairs < b.threads) {
		fprintf(stderr,
			"micro: depth %d to %d, 1 to %d threads, at least one pair per thread\n",
			DEPTH_MIN, DEPTH_MAX, THREADS_MAX);
		return 2;
	}
	return run(&b);
}
