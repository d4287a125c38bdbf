/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program to be killed at any moment. Each of its threads keeps its true count
 * in the shared file named by LEDGER (one 64-byte line of four numbers per
 * thread: allocations, frees, live bytes, unused), raised after each call has
 * returned. So a trace that lost nothing has, per thread, that count or one more.
 */
#define LEDGER_THREADS
#include "ledger.h"

#include <pthread.h>

enum { THREADS = 3, KEPT = 64 };
struct line {
	volatile uint64_t allocations, frees, bytes, unused[5];
};
static struct line *lines;

#define KILLED(number)                              \
	SITE void *killed_malloc_##number(size_t n) \
	{                                           \
		void *block = malloc(n);            \
		lines[number].allocations++;        \
		lines[number].bytes += n;           \
		return block;                       \
	}
KILLED(0)
KILLED(1)
KILLED(2)
static void *(*const makers[THREADS])(size_t) = {
	killed_malloc_0,
	killed_malloc_1,
	killed_malloc_2,
};

static void *body(void *arg)
{
	uintptr_t me = (uintptr_t)arg;
	void *kept[KEPT] = {0};
	for (uint64_t dice = me + 1;;
	     dice = dice * 6364136223846793005ull + 1442695040888963407ull) {
		void **slot = &kept[dice >> 58];
		if (*slot) {
			free(*slot);
			lines[me].frees++;
		}
		*slot = makers[me]((dice >> 40) % 500 + 1);
	}
	return NULL;
}

int main(void)
{
	pthread_t thread;
	ledger_open("");
	check(ledger.out != NULL, "LEDGER is not set");
	lines = (struct line *)(void *)ledger.out;
	for (uintptr_t i = 1; i < THREADS; i++)
		check(!pthread_create(&thread, NULL, body, (void *)i), "no thread");
	say("ready\n");
	body((void *)0);
}
