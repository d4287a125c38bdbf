/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs of threads, one after the other, so that the second has the stack and the
 * thread pointer of the first, which is gone before anybody has looked: each
 * allocates so many bytes as its id is. Between the pairs a thread stays that
 * takes their stack. Prints the ids.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PAIRS = 100 };
static pid_t ids[2 * PAIRS];
static void *volatile kept;

static void *body(void *number)
{
	pid_t id = ids[(size_t)number] = gettid();
	kept = malloc((size_t)id);
	return NULL;
}

static void *stay(void *none)
{
	for (;;)
		pause();
	return none;
}

int main(void)
{
	pthread_t thread;
	for (size_t i = 0; i < 2 * PAIRS; i++) {
		if (pthread_create(&thread, NULL, body, (void *)i) || pthread_join(thread, NULL))
			return 1;
		if (i % 2 && pthread_create(&thread, NULL, stay, NULL))
			return 1;
	}
	for (size_t i = 0; i < 2 * PAIRS; i++)
		printf("%d\n", (int)ids[i]);
	return 0;
}
