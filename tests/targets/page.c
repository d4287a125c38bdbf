/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A heap with a shape, for looking at: it grows, churns, and shrinks. A second
 * thread frees what the first allocated. One function's name is markup, as a
 * hostile binary could have it.
 */
#include "ledger.h"

#include <pthread.h>
#include <time.h>

enum { CACHED = 400, CACHED_BYTES = 4096, ROUNDS = 3000, MARKED = 50 };

static void *cached[CACHED];

SITE void *cache_insert(size_t i)
{
	return cached[i] = malloc(CACHED_BYTES);
}

SITE void parse_line(size_t i)
{
	void *text = malloc(64 + i % 64);
	KEEP(text);
	free(text);
}

/* No name that C could write; debug information would have the plain one, so it is apart. */
void *marked(size_t bytes) __asm__("\"<img src=x onerror=alert(1)>\"");

static void pause_a_moment(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
}

SITE void *drop_half(void *arg)
{
	for (size_t i = 0; i < CACHED; i += 2)
		free(cached[i]);
	return arg;
}

int main(void)
{
	pthread_t thread;
	for (size_t i = 0; i < CACHED; i++) {
		KEEP(cache_insert(i));
		if (i % 4 == 0)
			pause_a_moment();
	}
	for (size_t i = 0; i < ROUNDS; i++) {
		parse_line(i);
		if (i % 30 == 0)
			pause_a_moment();
	}
	for (size_t i = 0; i < MARKED; i++)
		KEEP(marked(100));
	pthread_create(&thread, NULL, drop_half, NULL);
	pthread_join(thread, NULL);
	return 0;
}
