/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps its memory from being swapped out, as programs with deadlines do. Modes:
 *   once      mlockall, then says how much the kernel counts as locked
 *   threads   again and again, while four threads come by ever new stacks
 */
#define LEDGER_THREADS
#include "ledger.h"

#include <pthread.h>
#include <sys/mman.h>

enum { THREADS = 4, DEPTH = 16, PATHS = 1 << 14, TIMES = 20 };

LEDGER_SITE(turn);

SITE void *turn(size_t n)
{
	return ledger_alloc(&turn_site, malloc(n), n);
}

void go_left(unsigned path, unsigned depth);
void go_right(unsigned path, unsigned depth);

static void go(unsigned path, unsigned depth)
{
	if (!depth) {
		void *block = turn(path % 100);
		ledger_free(&turn_site, block, path % 100);
		free(block);
	} else if (path >> (depth - 1) & 1) {
		go_left(path, depth - 1);
	} else {
		go_right(path, depth - 1);
	}
	KEEP(&path);
}

SITE void go_left(unsigned path, unsigned depth)
{
	go(path, depth);
	KEEP(&path);
}

SITE void go_right(unsigned path, unsigned depth)
{
	go(path, depth);
	KEEP(&path);
}

static void *walk(void *argument)
{
	unsigned own = (unsigned)(size_t)argument;
	for (unsigned i = 0; i < PATHS; i++)
		go(own * PATHS + i, DEPTH);
	return NULL;
}

static void lock(void)
{
	if (!mlockall(MCL_CURRENT | MCL_FUTURE))
		return;
	say("may not lock\n");
	_exit(77);
}

static void mode_once(void)
{
	static char text[4096];
	lock();
	int fd = open("/proc/self/status", O_RDONLY);
	check(fd >= 0 && read(fd, text, sizeof text - 1) > 0, "no status");
	char *line = strstr(text, "VmLck:");
	check(line && strchr(line, '\n'), "no VmLck");
	*strchr(line, '\n') = '\0';
	say(line);
	walk(NULL);
}

static void mode_threads(void)
{
	pthread_t threads[THREADS];
	for (size_t i = 0; i < THREADS; i++)
		check(!pthread_create(&threads[i], NULL, walk, (void *)i), "no thread");
	for (int i = 0; i < TIMES; i++) {
		lock();
		munlockall();
	}
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	check(argc == 2, "usage: locked MODE");
	ledger_open("");
	if (!strcmp(argv[1], "once"))
		mode_once();
	else
		mode_threads();
	ledger_print("locked", argv[1][0] == 'o' ? LEDGER_EXACT : 0);
	return 0;
}
