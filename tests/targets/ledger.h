/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target program's own account of its heap. Each function that allocates is
 * a *site*; the program tells the ledger of every call, and at its end the
 * ledger writes one line of JSON: what a profiler must have seen.
 *
 *   LEDGER_SITE(grow);
 *   SITE void *grow(size_t n) { return ledger_alloc(&grow_site, malloc(n), n); }
 *   ledger_free(&grow_site, p, n); free(p);
 *   ledger_print("name", LEDGER_EXACT | LEDGER_PEAK);
 *
 * The ledger allocates nothing and uses no stdio (which would allocate). With
 * the environment variable LEDGER set it writes into a shared mapping of that
 * file, made by ledger_open(), so that printing needs no descriptor and no
 * system call; else it writes to standard output.
 *
 * Rules, as in docs/figures.md: a free is counted where the block was
 * allocated; a realloc is one allocation and one free, and not a free for
 * "temporary"; temporary = the thread's next event frees the block it just made.
 *
 * Define LEDGER_THREADS before including when several threads allocate: counts
 * stay right, per-site shares of the peak are then left out.
 */
#pragma once

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A function whose frame must be found on the stack under its own name. */
#if defined(__clang__)
#define SITE __attribute__((noinline, used))
#else
#define SITE __attribute__((noipa, used))
#endif

/* Keeps the compiler from optimising an allocation away or a call into a jump. */
#define KEEP(p) __asm__ volatile("" : : "r"(p) : "memory")

enum {
	LEDGER_EXACT = 1u << 0, /* nobody else allocates: the totals are the program's */
	LEDGER_PEAK = 1u << 1,  /* the peak is deterministic */
	LEDGER_FUZZY = 1u << 2, /* signals fall between calls: temporary is not known */
	LEDGER_FILE_BYTES = 1 << 18,
	LEDGER_EXTRAS = 16,
};

struct ledger_site {
	const char *name;
	uint64_t allocations, frees, allocated_bytes, freed_bytes, temporary, failed;
	uint64_t peak_bytes; /* live at the moment of the program's peak */
};

#define LEDGER_SITE(function)                                                         \
	static struct ledger_site function##_site = {#function, 0, 0, 0, 0, 0, 0, 0}; \
	__attribute__((section("ledger_sites"),                                       \
		       used)) static struct ledger_site *const function##_entry = &function##_site

__attribute__((weak, visibility("hidden"))) extern struct ledger_site *const __start_ledger_sites[];
__attribute__((weak, visibility("hidden"))) extern struct ledger_site *const __stop_ledger_sites[];

struct ledger_extra {
	const char *key;
	uint64_t value;
};

static struct {
	uint64_t live_bytes, peak_bytes;
	char *out; /* the shared mapping, or NULL */
	size_t used;
	unsigned extra_count;
	unsigned stack_count;
	struct ledger_extra extras[LEDGER_EXTRAS];
	struct ledger_extra stacks[LEDGER_EXTRAS];
	char buffer[1 << 14];
} ledger;

static __thread void *ledger_last;

static inline void ledger_add(uint64_t *counter, uint64_t value)
{
	__atomic_fetch_add(counter, value, __ATOMIC_RELAXED);
}

static inline void ledger_rise(uint64_t bytes)
{
	uint64_t live = __atomic_add_fetch(&ledger.live_bytes, bytes, __ATOMIC_RELAXED);
#ifndef LEDGER_THREADS
	if (live > ledger.peak_bytes) {
		ledger.peak_bytes = live;
		for (struct ledger_site *const *s = __start_ledger_sites; s < __stop_ledger_sites;
		     s++)
			(*s)->peak_bytes = (*s)->allocated_bytes - (*s)->freed_bytes;
	}
#else
	(void)live;
#endif
}

/* Call with the result of an allocation; gives it back. */
static inline void *ledger_alloc(struct ledger_site *site, void *block, size_t bytes)
{
	if (!block) {
		ledger_add(&site->failed, 1);
		return NULL;
	}
	ledger_add(&site->allocations, 1);
	ledger_add(&site->allocated_bytes, bytes);
	ledger_rise(bytes);
	ledger_last = block;
	return block;
}

/* Call before freeing a block that `site` made with `bytes`. */
static inline void ledger_free(struct ledger_site *site, void *block, size_t bytes)
{
	if (!block)
		return;
	ledger_add(&site->frees, 1);
	ledger_add(&site->freed_bytes, bytes);
	if (ledger_last == block)
		ledger_add(&site->temporary, 1);
	ledger_last = NULL;
	__atomic_fetch_sub(&ledger.live_bytes, bytes, __ATOMIC_RELAXED);
}

/*
 * Call after a realloc: `old` of `old_site` became `block`. The old block ends
 * before the new one begins, so the two are never live together.
 */
static inline void *ledger_realloc(struct ledger_site *old_site, size_t old_bytes,
				   struct ledger_site *site, void *block, size_t bytes)
{
	if (!block) {
		ledger_add(&site->failed, 1);
		return NULL;
	}
	ledger_add(&old_site->frees, 1);
	ledger_add(&old_site->freed_bytes, old_bytes);
	__atomic_fetch_sub(&ledger.live_bytes, old_bytes, __ATOMIC_RELAXED);
	return ledger_alloc(site, block, bytes);
}

/* A further figure of the report's top level that must be equal. */
static inline void ledger_expect(const char *key, uint64_t value)
{
	if (ledger.extra_count < LEDGER_EXTRAS) {
		ledger.extras[ledger.extra_count].key = key;
		ledger.extras[ledger.extra_count++].value = value;
	}
}

/*
 * A stack that must have made that many allocations: names from the leaf to the
 * root, parted by spaces; those of the C library above main() are left out.
 */
static inline void ledger_stack(const char *frames, uint64_t allocations)
{
	if (ledger.stack_count < LEDGER_EXTRAS) {
		ledger.stacks[ledger.stack_count].key = frames;
		ledger.stacks[ledger.stack_count++].value = allocations;
	}
}

/* "say" for programs whose output is compared: no stdio, no allocation. */
static inline void say(const char *text)
{
	if (write(1, text, strlen(text)) < 0)
		_exit(98);
}

/* Ends the program with a sentence: something in the target itself went wrong. */
static inline void check(int good, const char *sentence)
{
	if (good)
		return;
	if (write(2, sentence, strlen(sentence)) < 0 || write(2, "\n", 1) < 0)
		_exit(98);
	_exit(96);
}

#include "ledger_write.h"
