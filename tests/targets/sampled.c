/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A heap for sampling: twenty sites with sizes of their own, of which the odd
 * ones free all that they got and the even ones keep a part. Always the same.
 *
 *   sampled ROUNDS THREADS [wait|busy [exec|fork]]
 *
 * Blocks of odd sites are freed by another thread than that which allocated them
 * where there are several, or go through realloc first. With "wait" it does a third
 * of its rounds, says "ready", reads a byte, and so on twice. With "busy" it does its
 * rounds again and again, without a pause, until there is a byte to read. Before each
 * "ready" and at the end it prints for each site: name, allocations, bytes, blocks that
 * it kept and their bytes, of all so far. After that it executes itself without further
 * words, or forks a child that does all rounds once more, frees and keeps as it does,
 * and prints its sums, which go on from those of its parent.
 */
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SITES = 20, HELD = 512 };

struct sum {
	uint64_t count, bytes, kept, kept_bytes;
};

struct worker {
	uint64_t random, rounds;
	struct sum sums[SITES];
	void *held[HELD]; /* to be freed by the next who comes by */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *passed_on[HELD];

static uint64_t next_random(struct worker *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random;
}

#define SITE(number)                                                                \
	__attribute__((noinline, noclone)) static void *site_##number(size_t bytes) \
	{                                                                           \
		void *block = number % 5 == 4 ? calloc(1, bytes) : malloc(bytes);   \
		__asm__ volatile("" : "+r"(block));                                 \
		return block;                                                       \
	}
#define ALL(X) \
	X(0)   \
	X(1)   \
	X(2)   \
	X(3)   \
	X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19)
ALL(SITE)
#define NAME(number) site_##number,
static void *(*const sites[SITES])(size_t) = {ALL(NAME)};

__attribute__((noinline)) static void *grow(void *block, size_t bytes)
{
	return realloc(block, bytes);
}

static void count(struct sum *sum, size_t bytes)
{
	sum->count++;
	sum->bytes += bytes;
}

/* Whoever comes by frees what the one before left. */
static void pass_on(void *block, uint64_t place)
{
	pthread_mutex_lock(&lock);
	void *old = passed_on[place % HELD];
	passed_on[place % HELD] = block;
	pthread_mutex_unlock(&lock);
	free(old);
}

static struct sum grown;

static void one(struct worker *w)
{
	uint64_t random = next_random(w);
	unsigned site = (unsigned)(random % SITES);
	size_t bytes = (size_t)(random >> 32 & 0xff) + ((size_t)16 << site % 10);
	void *block = sites[site](bytes);
	count(&w->sums[site], bytes);
	if (site % 2 == 0 && random >> 60 == 0) {
		w->sums[site].kept++;
		w->sums[site].kept_bytes += bytes;
		return;
	}
	if (site == 7) {
		block = grow(block, bytes * 3);
		__atomic_fetch_add(&grown.count, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&grown.bytes, bytes * 3, __ATOMIC_RELAXED);
	}
	if (site % 2)
		pass_on(block, random >> 8);
	else
		free(block);
}

static void *run(void *argument)
{
	struct worker *w = argument;
	for (uint64_t i = 0; i < w->rounds; i++)
		one(w);
	return NULL;
}

static void phase(struct worker *workers, size_t threads, uint64_t rounds)
{
	pthread_t ids[16];
	for (size_t i = 0; i < threads; i++)
		workers[i].rounds = rounds / threads;
	for (size_t i = 1; i < threads; i++)
		if (pthread_create(&ids[i], NULL, run, &workers[i]))
			abort();
	run(&workers[0]);
	for (size_t i = 1; i < threads; i++)
		pthread_join(ids[i], NULL);
	for (size_t i = 0; i < HELD; i++) {
		free(passed_on[i]);
		passed_on[i] = NULL;
	}
}

/* Nobody has told us to end. */
static int goes_on(void)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};
	return poll(&input, 1, 0) == 0;
}

static void print_sums(const struct worker *workers, size_t threads)
{
	for (size_t i = 0; i < SITES; i++) {
		struct sum sum = {0};
		for (size_t k = 0; k < threads; k++) {
			sum.count += workers[k].sums[i].count;
			sum.bytes += workers[k].sums[i].bytes;
			sum.kept += workers[k].sums[i].kept;
			sum.kept_bytes += workers[k].sums[i].kept_bytes;
		}
		printf("site_%zu %llu %llu %llu %llu\n", i, (unsigned long long)sum.count,
		       (unsigned long long)sum.bytes, (unsigned long long)sum.kept,
		       (unsigned long long)sum.kept_bytes);
	}
	printf("grow %llu %llu 0 0\n", (unsigned long long)grown.count,
	       (unsigned long long)grown.bytes);
	fflush(stdout);
}

static void phases(struct worker *workers, size_t threads, uint64_t rounds, const char *how)
{
	char letter;
	int count = strcmp(how, "wait") ? 1 : 3;
	for (int i = 0; i < count; i++) {
		do
			phase(workers, threads, rounds / (uint64_t)count);
		while (!strcmp(how, "busy") && goes_on());
		if (count > 1)
			print_sums(workers, threads);
		if (count > 1 && (write(1, "ready\n", 6) != 6 || read(0, &letter, 1) < 0))
			exit(1);
	}
}

int main(int argc, char **argv)
{
	static struct worker workers[16];
	static char output[1 << 16];
	setvbuf(stdout, output, _IOFBF, sizeof output); /* no block of its own */
	uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
	size_t threads = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
	if (threads < 1 || threads > 16)
		return 2;
	for (size_t i = 0; i < threads; i++)
		workers[i].random = 0x9e3779b97f4a7c15ull * (i + 1);
	phases(workers, threads, rounds, argc > 3 ? argv[3] : "");
	print_sums(workers, threads);
	if (argc > 4 && !strcmp(argv[4], "exec")) {
		argv[3] = NULL;
		execv(argv[0], argv);
		return 1;
	}
	if (argc > 4 && fork() == 0) {
		phases(workers, threads, rounds, "");
		print_sums(workers, threads);
	} else if (argc > 4) {
		wait(NULL);
	}
	return 0;
}
