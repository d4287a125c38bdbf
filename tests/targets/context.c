/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks that are not the thread's. Modes:
 *   swap    coroutines by swapcontext that allocate in turn
 *   fibers  the same on mapped stacks that are unmapped and mapped again, often
 *           at the same address, with another function on them
 *   small   stacks of 8 KiB between two pages that may not be touched
 *   deep    recursion on a mapped stack, deeper than what is kept; when that one is
 *           unmapped, again on a lower one
 *   moved   a coroutine that continues on another thread
 */
#define LEDGER_THREADS
#include "ledger.h"

#include <pthread.h>
#include <ucontext.h>

LEDGER_SITE(red_malloc);
LEDGER_SITE(blue_malloc);
LEDGER_SITE(main_malloc);

enum { FIBERS = 16, STEPS = 50, STACK_BYTES = 1 << 16 };
static ucontext_t home, fibers[FIBERS];
static volatile int running, steps_left[FIBERS];

SITE void *red_malloc(size_t n)
{
	return ledger_alloc(&red_malloc_site, malloc(n), n);
}

SITE void *blue_malloc(size_t n)
{
	return ledger_alloc(&blue_malloc_site, malloc(n), n);
}

SITE void *main_malloc(size_t n)
{
	return ledger_alloc(&main_malloc_site, malloc(n), n);
}

static void pair_of(void *(*make)(size_t), struct ledger_site *site, size_t n)
{
	void *kept = make(n);
	void *gone = make(n + 16);
	ledger_free(site, gone, n + 16);
	free(gone);
	KEEP(kept);
}

/* The recursion gives the stacks different depths at each yield. */
SITE void red_fiber(int depth)
{
	int me = running;
	pair_of(red_malloc, &red_malloc_site, (size_t)(depth + 1));
	if (depth > 0)
		red_fiber(depth - 1);
	else
		while (steps_left[me]-- > 0) {
			swapcontext(&fibers[me], &home);
			pair_of(red_malloc, &red_malloc_site, 40);
		}
	pair_of(red_malloc, &red_malloc_site, 8);
}

SITE void blue_fiber(int depth)
{
	int me = running;
	if (depth > 0)
		blue_fiber(depth - 1);
	else
		while (steps_left[me]-- > 0) {
			pair_of(blue_malloc, &blue_malloc_site, (size_t)me);
			swapcontext(&fibers[me], &home);
		}
	pair_of(blue_malloc, &blue_malloc_site, 9);
}

static void prepare_sized(int i, void *stack, size_t bytes, int red)
{
	check(getcontext(&fibers[i]) == 0, "getcontext failed");
	fibers[i].uc_stack.ss_sp = stack;
	fibers[i].uc_stack.ss_size = bytes;
	fibers[i].uc_link = &home;
	steps_left[i] = STEPS;
	makecontext(&fibers[i], (void (*)(void))(red ? red_fiber : blue_fiber), 1, i % 5);
}

static void prepare(int i, void *stack, int red)
{
	prepare_sized(i, stack, STACK_BYTES, red);
}

static void resume(int i)
{
	running = i;
	check(swapcontext(&home, &fibers[i]) == 0, "swapcontext failed");
}

static void mode_swap(void)
{
	static char stacks[FIBERS][STACK_BYTES] __attribute__((aligned(16)));
	for (int i = 0; i < FIBERS; i++)
		prepare(i, stacks[i], i % 2);
	for (int step = 0; step <= STEPS; step++)
		for (int i = 0; i < FIBERS; i++) {
			resume(i);
			pair_of(main_malloc, &main_malloc_site, 30);
		}
}

static void mode_fibers(void)
{
	for (int round = 0; round < 40; round++) {
		void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
		check(stack != MAP_FAILED, "mmap failed");
		prepare(round % FIBERS, stack, round % 2);
		for (int step = 0; step <= STEPS; step++)
			resume(round % FIBERS);
		munmap(stack, STACK_BYTES);
		pair_of(main_malloc, &main_malloc_site, 30);
	}
}

static void mode_small(void)
{
	enum { PAGE = 4096 };
	for (int round = 0; round < 40; round++) {
		char *at = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		check(at != MAP_FAILED && !mprotect(at + PAGE, 2 * PAGE, PROT_READ | PROT_WRITE),
		      "mmap failed");
		prepare_sized(round % FIBERS, at + PAGE, 2 * PAGE, round % 2);
		for (int step = 0; step <= STEPS; step++)
			resume(round % FIBERS);
		munmap(at, 4 * PAGE);
		pair_of(main_malloc, &main_malloc_site, 30);
	}
}

enum { DEEP_BYTES = 1 << 20, DEEP = 3000 };
static int on_the_way; /* allocate at each depth, not only at the end */

SITE void deep_fiber(int depth)
{
	if (on_the_way || !depth)
		pair_of(red_malloc, &red_malloc_site, 24);
	if (depth)
		deep_fiber(depth - 1);
	if (on_the_way || !depth)
		pair_of(blue_malloc, &blue_malloc_site, 24);
}

static void run_deep(char *stack)
{
	check(getcontext(&fibers[0]) == 0, "getcontext failed");
	fibers[0].uc_stack.ss_sp = stack;
	fibers[0].uc_stack.ss_size = DEEP_BYTES;
	fibers[0].uc_link = &home;
	makecontext(&fibers[0], (void (*)(void))deep_fiber, 1, DEEP);
	resume(0);
}

static void mode_deep(void)
{
	char *low = mmap(NULL, 2 * DEEP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	check(low != MAP_FAILED, "mmap failed");
	on_the_way = 1;
	run_deep(low + DEEP_BYTES);
	munmap(low + DEEP_BYTES, DEEP_BYTES);
	on_the_way = 0;
	run_deep(low);
}

static void *other_thread(void *arg)
{
	(void)arg;
	for (int step = 0; step < STEPS / 2; step++)
		resume(1);
	return NULL;
}

static void mode_moved(void)
{
	static char stack[STACK_BYTES] __attribute__((aligned(16)));
	pthread_t thread;
	prepare(1, stack, 0);
	resume(1);
	check(!pthread_create(&thread, NULL, other_thread, NULL), "no thread");
	pthread_join(thread, NULL);
	while (steps_left[1] >= 0)
		resume(1);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	ledger_open("");
	if (!strcmp(mode, "swap"))
		mode_swap();
	else if (!strcmp(mode, "fibers"))
		mode_fibers();
	else if (!strcmp(mode, "small"))
		mode_small();
	else if (!strcmp(mode, "deep"))
		mode_deep();
	else if (!strcmp(mode, "moved"))
		mode_moved();
	else
		check(0, "usage: context MODE");
	ledger_print(mode, strcmp(mode, "moved") ? LEDGER_EXACT : 0);
	return 0;
}
