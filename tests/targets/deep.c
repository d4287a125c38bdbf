/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of known shape. Modes:
 *   chain      every function's name says its place: the stack is compared name by name
 *   walk       the depth goes up and down; each level allocates on both ways
 *   recursion  100,000 frames deep, allocating at each level and on the way back
 *   alloca     frames of varying size on the way
 *   realign    frames that align themselves to 64 bytes for vector locals
 *   threads    the chain in four threads at once
 */
#define LEDGER_THREADS
#include "ledger.h"

#include <alloca.h>
#include <pthread.h>

LEDGER_SITE(chain_0);
LEDGER_SITE(walk_down);
LEDGER_SITE(walk_up);
LEDGER_SITE(dive_down);
LEDGER_SITE(dive_up);
LEDGER_SITE(alloca_malloc);
LEDGER_SITE(realign_malloc);

enum { DEEP = 100000, TIMES = 10 };

SITE void chain_0(size_t n)
{
	void *block = ledger_alloc(&chain_0_site, malloc(n), n);
	KEEP(block);
}

#define LINK(upper, lower)                \
	SITE void chain_##upper(size_t n) \
	{                                 \
		chain_##lower(n + upper); \
		KEEP(n);                  \
	}
LINK(1, 0)
LINK(2, 1)
LINK(3, 2)
LINK(4, 3)
LINK(5, 4)
LINK(6, 5)
LINK(7, 6)
LINK(8, 7)
LINK(9, 8)
LINK(10, 9)
LINK(11, 10)
LINK(12, 11)

SITE void mode_chain(void)
{
	for (size_t i = 0; i < TIMES; i++) {
		chain_12(i);
		chain_5(i);
		chain_5(i + 1);
		chain_0(i);
	}
	ledger_stack("chain_0 chain_1 chain_2 chain_3 chain_4 chain_5 chain_6 chain_7 chain_8 "
		     "chain_9 chain_10 chain_11 chain_12 mode_chain main",
		     TIMES);
	ledger_stack("chain_0 chain_1 chain_2 chain_3 chain_4 chain_5 mode_chain main", 2 * TIMES);
	ledger_stack("chain_0 mode_chain main", TIMES);
}

SITE void *walk_down(size_t n)
{
	return ledger_alloc(&walk_down_site, malloc(n), n);
}

SITE void *walk_up(size_t n)
{
	return ledger_alloc(&walk_up_site, malloc(n), n);
}

SITE void walk_even(int depth);
SITE void walk_odd(int depth)
{
	void *block = walk_down((size_t)depth);
	if (depth > 0)
		walk_even(depth - 1);
	ledger_free(&walk_down_site, block, (size_t)depth);
	free(block);
	block = walk_up((size_t)depth);
	KEEP(block);
}

SITE void walk_even(int depth)
{
	void *block = walk_down((size_t)depth * 2);
	if (depth > 0)
		walk_odd(depth - 1);
	ledger_free(&walk_down_site, block, (size_t)depth * 2);
	free(block);
	block = walk_up((size_t)depth * 2);
	KEEP(block);
}

SITE void mode_walk(void)
{
	for (int i = 0; i < 200; i++)
		walk_even(i % 60);
	ledger_stack("walk_down walk_even mode_walk main", 200);
	ledger_stack("walk_up walk_odd walk_even walk_odd walk_even mode_walk main", 188);
}

SITE void *dive_down(size_t n)
{
	return ledger_alloc(&dive_down_site, malloc(n), n);
}

SITE void *dive_up(size_t n)
{
	return ledger_alloc(&dive_up_site, malloc(n), n);
}

SITE void dive(int depth)
{
	void *block = dive_down(32);
	if (depth > 0)
		dive(depth - 1);
	ledger_free(&dive_down_site, block, 32);
	free(block);
	if (depth % 10 == 0)
		KEEP(dive_up(16));
}

static void *dive_thread(void *arg)
{
	dive(DEEP);
	dive(100);
	return arg;
}

static void mode_recursion(void)
{
	pthread_t thread;
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 256 << 20);
	check(!pthread_create(&thread, &attributes, dive_thread, NULL), "no thread");
	pthread_join(thread, NULL);
}

SITE void *alloca_malloc(size_t n)
{
	return ledger_alloc(&alloca_malloc_site, malloc(n), n);
}

SITE void alloca_low(size_t n)
{
	char *room = alloca(n * 3 + 1);
	room[0] = 1;
	void *block = alloca_malloc(n);
	KEEP(room);
	KEEP(block);
}

SITE void alloca_high(size_t n)
{
	char *room = alloca(n * 17 + 5);
	room[0] = 1;
	alloca_low(n);
	KEEP(room);
}

SITE void mode_alloca(void)
{
	for (size_t i = 0; i < 500; i++)
		alloca_high(i % 37);
	ledger_stack("alloca_malloc alloca_low alloca_high mode_alloca main", 500);
}

SITE void *realign_malloc(size_t n)
{
	return ledger_alloc(&realign_malloc_site, malloc(n), n);
}

/* 64-byte alignment makes the compiler realign the frame; alloca beside it makes
 * it reach the arguments through a saved pointer to the old frame. */
SITE void realign_low(size_t n, int a, int b, int c, int d, int e, int on_stack)
{
	char vector[64] __attribute__((aligned(64)));
	char *room = alloca(n + 1);
	check(((uintptr_t)vector & 63) == 0, "not aligned");
	room[0] = (char)(a + b + c + d + e + on_stack);
	void *block = realign_malloc(n);
	KEEP(vector);
	KEEP(room);
	KEEP(block);
}

SITE void realign_high(size_t n)
{
	char vector[128] __attribute__((aligned(128)));
	check(((uintptr_t)vector & 127) == 0, "not aligned");
	KEEP(vector);
	realign_low(n, 1, 2, 3, 4, 5, 6);
	KEEP(vector);
}

SITE void mode_realign(void)
{
	for (size_t i = 0; i < 500; i++)
		realign_high(i % 41);
	ledger_stack("realign_malloc realign_low realign_high mode_realign main", 500);
}

SITE void *chain_thread(void *arg)
{
	for (size_t i = 0; i < 2000; i++) {
		chain_12(i);
		chain_3(i);
	}
	return arg;
}

static void mode_threads(void)
{
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		check(!pthread_create(&threads[i], NULL, chain_thread, NULL), "no thread");
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	ledger_stack("chain_0 chain_1 chain_2 chain_3 chain_thread", 8000);
	ledger_stack("chain_0 chain_1 chain_2 chain_3 chain_4 chain_5 chain_6 chain_7 chain_8 "
		     "chain_9 chain_10 chain_11 chain_12 chain_thread",
		     8000);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	ledger_open("");
	if (!strcmp(mode, "chain"))
		mode_chain();
	else if (!strcmp(mode, "walk"))
		mode_walk();
	else if (!strcmp(mode, "recursion"))
		mode_recursion();
	else if (!strcmp(mode, "alloca"))
		mode_alloca();
	else if (!strcmp(mode, "realign"))
		mode_realign();
	else if (!strcmp(mode, "threads"))
		mode_threads();
	else
		check(0, "usage: deep MODE");
	ledger_print(mode, strcmp(mode, "recursion") && strcmp(mode, "threads") ? LEDGER_EXACT : 0);
	return 0;
}
