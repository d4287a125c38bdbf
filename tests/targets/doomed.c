/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program to be killed, with its recorder or without. Like killed.c it keeps
 * its true count in the shared file named by LEDGER; and beside the count, the
 * times at which it had which count, at most one per millisecond:
 *
 *   4096 bytes   per thread a line of 64: allocations, frees, entries
 *   per thread   HISTORY entries of 24: CLOCK_MONOTONIC in ns, allocations, frees
 *
 * "doomed grow" also takes memory until the kernel kills it.
 */
#define LEDGER_THREADS
#include "ledger.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { THREADS = 2, KEPT = 64, HISTORY = 8192, EVERY = 64, PAGE = 4096, MIB = 1 << 20 };
struct entry {
	uint64_t time_ns, allocations, frees;
};
struct line {
	volatile uint64_t allocations, frees;
	_Atomic uint64_t entries;
	uint64_t unused[5];
};
static struct line *lines;
static struct entry *history;

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

SITE void *doomed_malloc_0(size_t n)
{
	void *block = malloc(n);
	lines[0].allocations++;
	return block;
}

SITE void *doomed_malloc_1(size_t n)
{
	void *block = malloc(n);
	lines[1].allocations++;
	return block;
}

/* What was counted before the time was asked for is older than it. */
static void note_count(uintptr_t me, uint64_t *last_ns)
{
	struct entry entry = {.allocations = lines[me].allocations, .frees = lines[me].frees};
	entry.time_ns = now_ns();
	uint64_t count = atomic_load_explicit(&lines[me].entries, memory_order_relaxed);
	if (entry.time_ns - *last_ns < 1000000 || count == HISTORY)
		return;
	*last_ns = entry.time_ns;
	history[me * HISTORY + count] = entry;
	atomic_store_explicit(&lines[me].entries, count + 1, memory_order_release);
}

static void *body(void *arg)
{
	uintptr_t me = (uintptr_t)arg;
	void *kept[KEPT] = {0};
	uint64_t last_ns = 0, dice = me + 1;
	for (uint64_t round = 1;; round++) {
		dice = dice * 6364136223846793005ull + 1442695040888963407ull;
		void **slot = &kept[dice >> 58];
		size_t bytes = (dice >> 40) % 500 + 1;
		if (*slot) {
			free(*slot);
			lines[me].frees++;
		}
		*slot = me ? doomed_malloc_1(bytes) : doomed_malloc_0(bytes);
		if (round % EVERY == 0)
			note_count(me, &last_ns);
	}
	return NULL;
}

static void *grow(void *arg)
{
	for (;;) {
		char *block = malloc(MIB);
		if (block)
			memset(block, 1, MIB);
		usleep(1000);
	}
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	ledger_open("");
	const char *path = getenv("LEDGER");
	int fd = path ? open(path, O_RDWR) : -1;
	size_t bytes = PAGE + THREADS * HISTORY * sizeof *history;
	check(fd >= 0 && !ftruncate(fd, (off_t)bytes), "LEDGER is not set");
	char *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	check(page != MAP_FAILED, "LEDGER cannot be mapped");
	lines = (struct line *)(void *)page;
	history = (struct entry *)(void *)(page + PAGE);
	check(!pthread_create(&thread, NULL, body, (void *)1), "no thread");
	if (argc > 1 && !strcmp(argv[1], "grow"))
		check(!pthread_create(&thread, NULL, grow, NULL), "no thread");
	say("ready\n");
	body((void *)0);
}
