/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a line on its standard input one thread allocates, while another waits
 * for a descriptor that is not its own, closes it, and opens a file at that
 * number, as who closes all descriptors does. Says whether the file is still
 * open in the end, or that there was no such descriptor.
 */
#define LEDGER_THREADS
#include "ledger.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>

enum { LOOKS = 3000 };

static atomic_int begun;
static int number;

static bool is_open(struct stat *ret)
{
	return fstat(number, ret) == 0;
}

static void *take(void *argument)
{
	bool *taken = argument;
	struct stat other;
	while (!atomic_load(&begun))
		poll(NULL, 0, 1);
	for (int i = 0; i < LOOKS && !is_open(&other); i++)
		poll(NULL, 0, 1);
	poll(NULL, 0, 200); /* who has opened it waits by now */
	*taken = close(number) == 0;
	check(open("/dev/null", O_RDONLY) == number, "another number");
	return NULL;
}

int main(void)
{
	pthread_t thread;
	struct stat ours = {0};
	bool taken = false;
	char line[8];
	number = open("/dev/null", O_RDONLY);
	check(number >= 0 && close(number) == 0, "no number");
	check(!pthread_create(&thread, NULL, take, &taken), "no thread");
	say("ready\n");
	check(read(0, line, sizeof line) > 0, "no line");
	atomic_store(&begun, 1);
	void *block = malloc(100);
	KEEP(block);
	free(block);
	check(!pthread_join(thread, NULL), "no end");
	say(!taken ? "none\n" : is_open(&ours) && S_ISCHR(ours.st_mode) ? "kept\n" : "lost\n");
	return 0;
}
