/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named heaps from several threads at once, from a library that comes late, and
 * from a program that waits to be attached to.
 *
 *   pools_busy threads       eight threads share a pool whose pieces move between them, and
 *                            have arenas of their own which they drop
 *   pools_busy plug LIBRARY  opens it, uses it
 *   pools_busy fork          ten pieces; the child gives five back, takes three, drops an arena
 *   pools_busy wait          says "ready"; when its input ends, 100 pieces
 */
#define LEDGER_THREADS
#include "ledger.h"

#include "tidemark.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

enum { THREADS = 8, ROUNDS = 2000, SHARED = 64, PIECES = 20, PIECE = 64 };

static struct tidemark_heap shared = TIDEMARK_HEAP("shared", NULL);
static struct tidemark_heap dropped = TIDEMARK_HEAP("dropped", NULL);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char shared_room[SHARED][PIECE];
static size_t shared_bytes[SHARED]; /* + 1; 0: free */

LEDGER_SITE(take_shared);
LEDGER_SITE(take_dropped);

SITE void take_shared(size_t slot, size_t bytes)
{
	tidemark_heap_alloc(&shared, shared_room[slot], bytes);
	ledger_alloc(&take_shared_site, shared_room[slot], bytes);
	shared_bytes[slot] = bytes + 1;
}

SITE void take_dropped(char *at, size_t bytes)
{
	tidemark_heap_alloc(&dropped, at, bytes);
	ledger_alloc(&take_dropped_site, at, bytes);
}

/* Whoever finds a piece gives it back, or takes one where there is none. */
static void touch(size_t slot, size_t bytes)
{
	pthread_mutex_lock(&lock);
	if (shared_bytes[slot]) {
		ledger_free(&take_shared_site, shared_room[slot], shared_bytes[slot] - 1);
		tidemark_heap_free(&shared, shared_room[slot]);
		shared_bytes[slot] = 0;
	} else {
		take_shared(slot, bytes);
	}
	pthread_mutex_unlock(&lock);
}

static void *work(void *argument)
{
	size_t number = (size_t)(uintptr_t)argument;
	static char rooms[THREADS][PIECES][PIECE];
	static const char *const names[] = {"even", "odd"};
	uint32_t random = (uint32_t)number + 1;
	for (int round = 0; round < ROUNDS; round++) {
		random = random * 1664525 + 1013904223;
		tidemark_tag("round", names[round & 1]);
		touch(random >> 26, random >> 20 & 31);
		for (int i = 0; i < PIECES; i++)
			take_dropped(rooms[number][i], 10);
		for (int i = 0; i < PIECES; i++)
			ledger_free(&take_dropped_site, rooms[number][i], 10);
		tidemark_heap_discard(&dropped, rooms[number], sizeof rooms[number]);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t list[THREADS];
	for (size_t i = 0; i < THREADS; i++)
		check(!pthread_create(&list[i], NULL, work, (void *)(uintptr_t)i), "no thread");
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(list[i], NULL);
	ledger_print("pools_busy", LEDGER_FUZZY);
}

static void plug(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	check(library != NULL, "no library");
	void (*use)(int);
	*(void **)&use = dlsym(library, "plug_use");
	check(use != NULL, "nothing to use in it");
	use(40);
}

static void fork_and_work(void)
{
	free(malloc(10));
	tidemark_heap_alloc(&dropped, shared_room[SHARED - 1], 5);
	for (size_t i = 0; i < 10; i++)
		tidemark_heap_alloc(&shared, shared_room[i], 10);
	pid_t child = fork();
	if (child == 0) {
		for (size_t i = 0; i < 5; i++)
			tidemark_heap_free(&shared, shared_room[i]);
		for (size_t i = 20; i < 23; i++)
			tidemark_heap_alloc(&shared, shared_room[i], 7);
		tidemark_heap_discard(&dropped, NULL, 0);
		_exit(0);
	}
	check(child > 0 && waitpid(child, NULL, 0) == child, "no child");
}

static void wait_and_work(void)
{
	char byte;
	say("ready\n");
	check(read(STDIN_FILENO, &byte, 1) >= 0, "no input");
	for (size_t i = 0; i < SHARED; i++)
		take_shared(i, 10);
	for (size_t i = 0; i < SHARED; i += 2) {
		ledger_free(&take_shared_site, shared_room[i], 10);
		tidemark_heap_free(&shared, shared_room[i]);
	}
	say("done\n");
	check(read(STDIN_FILENO, &byte, 1) >= 0, "no input");
	ledger_print("pools_busy", 0);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	ledger_open("");
	if (!strcmp(mode, "threads"))
		threads();
	else if (!strcmp(mode, "plug") && argc > 2)
		plug(argv[2]);
	else if (!strcmp(mode, "fork"))
		fork_and_work();
	else if (!strcmp(mode, "wait"))
		wait_and_work();
	else
		return 2;
	return 0;
}
