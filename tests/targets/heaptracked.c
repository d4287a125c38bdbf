/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that was made to speak to heaptrack: its pool reports through
 * heaptrack's functions, found in the library of the given bare name, as programs
 * made by Nim's -d:heaptracker do; without the library it ends with status 1.
 *
 *   heaptracked NAME [wait]   "weak": by weak symbols, as heaptrack_api.h does
 *                             wait: says "ready", goes on when its input ends
 */
#include "ledger.h"

#include <dlfcn.h>
#include <stdio.h>

enum { PIECES = 1000 };

__attribute__((weak)) void heaptrack_malloc(void *block, size_t bytes);
__attribute__((weak)) void heaptrack_realloc(void *old, size_t bytes, void *block);
__attribute__((weak)) void heaptrack_free(void *block);

static void (*tell_malloc)(void *, size_t);
static void (*tell_realloc)(void *, size_t, void *);
static void (*tell_free)(void *);

LEDGER_SITE(pool_take);
LEDGER_SITE(pool_grow);

SITE void *pool_take(char *at, size_t bytes)
{
	tell_malloc(at, bytes);
	KEEP(at);
	return ledger_alloc(&pool_take_site, at, bytes);
}

SITE void pool_grow(char *old, size_t old_bytes, char *at, size_t bytes)
{
	ledger_realloc(&pool_take_site, old_bytes, &pool_grow_site, at, bytes);
	tell_realloc(old, bytes, at);
	KEEP(at);
}

/* By its bare name, and without a word to stdout if it is there. */
static void open_library(const char *name)
{
	void *library = dlopen(name, RTLD_NOW);
	if (!library) {
		fprintf(stderr, "could not load: %s\n", name);
		exit(1);
	}
	*(void **)&tell_malloc = dlsym(library, "heaptrack_malloc");
	*(void **)&tell_realloc = dlsym(library, "heaptrack_realloc");
	*(void **)&tell_free = dlsym(library, "heaptrack_free");
	if (!tell_malloc || !tell_realloc || !tell_free)
		exit(1);
}

static void use_weak(void)
{
	if (!heaptrack_malloc)
		exit(1);
	tell_malloc = heaptrack_malloc;
	tell_realloc = heaptrack_realloc;
	tell_free = heaptrack_free;
}

static void work(void)
{
	static char room[PIECES][64];
	for (int i = 0; i < PIECES; i++)
		pool_take(room[i], (size_t)i % 60);
	for (int i = 0; i < PIECES; i += 2) {
		ledger_free(&pool_take_site, room[i], (size_t)i % 60);
		tell_free(room[i]);
	}
	pool_grow(room[1], 1, room[0], 64);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	ledger_open("");
	if (!strcmp(argv[1], "weak"))
		use_weak();
	else
		open_library(argv[1]);
	if (argc > 2) {
		char byte;
		if (write(STDOUT_FILENO, "ready\n", 6) != 6 || read(STDIN_FILENO, &byte, 1) < 0)
			return 2;
	}
	work();
	ledger_print("heaptracked", 0);
	return 0;
}
