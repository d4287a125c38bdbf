/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Four threads share one small heap: what one of them frees or moves, another gets at
 * once. At its end all is freed.
 *
 *   crowd ROUNDS [wait]
 *
 * With "wait" a tenth of the rounds comes first, then it says "ready" and reads a byte.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 4, HELD = 16384, LOCKS = 16 };

static pthread_mutex_t locks[LOCKS];
static void *held[HELD];
static unsigned long rounds;

/* Puts a block there and takes what was there. */
static void *swap(void *block, size_t place)
{
	pthread_mutex_lock(&locks[place % LOCKS]);
	void *old = held[place];
	held[place] = block;
	pthread_mutex_unlock(&locks[place % LOCKS]);
	return old;
}

static void *run(void *number)
{
	uint64_t random = ((uintptr_t)number + 1) * 0x9e3779b97f4a7c15ull | 1;
	for (unsigned long i = 0; i < rounds; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		size_t bytes = 24 + (random >> 32 & 31);
		void *old = swap(malloc(bytes), random >> 8 & (HELD - 1));
		if (old && random >> 30 & 1)
			old = realloc(old, bytes * 3);
		free(old);
	}
	return NULL;
}

static void run_all(void)
{
	pthread_t threads[THREADS];
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)i))
			abort();
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	char letter;
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MXFAST, 0);
	unsigned long all = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
	for (size_t i = 0; i < LOCKS; i++)
		pthread_mutex_init(&locks[i], NULL);
	if (argc > 2) {
		rounds = all / 10;
		run_all();
		if (write(1, "ready\n", 6) != 6 || read(0, &letter, 1) < 0)
			return 1;
	}
	rounds = all;
	run_all();
	for (size_t i = 0; i < HELD; i++)
		free(held[i]);
	return 0;
}
