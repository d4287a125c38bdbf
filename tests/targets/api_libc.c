/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One mode per function of the C library that allocates or frees. Every mode
 * keeps, frees and makes temporary blocks, so that no figure is zero by luck.
 */
#include "ledger.h"

#include <errno.h>
#include <malloc.h>

extern void *pvalloc(size_t bytes) __attribute__((weak));
extern void cfree(void *block) __attribute__((weak));
extern void free_sized(void *block, size_t bytes) __attribute__((weak));
extern void free_aligned_sized(void *block, size_t alignment, size_t bytes) __attribute__((weak));

enum { ROUNDS = 60 };
static volatile size_t huge = (size_t)1 << 62; /* volatile: no warning, no folding */

LEDGER_SITE(by_malloc);
LEDGER_SITE(by_calloc);
LEDGER_SITE(by_realloc);
LEDGER_SITE(by_reallocarray);
LEDGER_SITE(by_posix_memalign);
LEDGER_SITE(by_aligned_alloc);
LEDGER_SITE(by_memalign);
LEDGER_SITE(by_valloc);
LEDGER_SITE(by_pvalloc);

SITE void *by_malloc(size_t n)
{
	return ledger_alloc(&by_malloc_site, malloc(n), n);
}

SITE void *by_calloc(size_t n)
{
	return ledger_alloc(&by_calloc_site, calloc(3, n), 3 * n);
}

SITE void *by_realloc(struct ledger_site *from, void *old, size_t old_bytes, size_t n)
{
	void *block = realloc(old, n);
	if (!old)
		return ledger_alloc(&by_realloc_site, block, n);
	return ledger_realloc(from, old_bytes, &by_realloc_site, block, n);
}

SITE void *by_reallocarray(struct ledger_site *from, void *old, size_t old_bytes, size_t n)
{
	void *block = reallocarray(old, 5, n);
	if (!old)
		return ledger_alloc(&by_reallocarray_site, block, 5 * n);
	return ledger_realloc(from, old_bytes, &by_reallocarray_site, block, 5 * n);
}

SITE void *by_posix_memalign(size_t n)
{
	void *block = NULL;
	int error = posix_memalign(&block, 256, n);
	check(error == 0 || error == ENOMEM, "posix_memalign: odd result");
	check(((uintptr_t)block & 255) == 0, "posix_memalign: not aligned");
	return ledger_alloc(&by_posix_memalign_site, error ? NULL : block, n);
}

SITE void *by_aligned_alloc(size_t n)
{
	return ledger_alloc(&by_aligned_alloc_site, aligned_alloc(64, n), n);
}

SITE void *by_memalign(size_t n)
{
	return ledger_alloc(&by_memalign_site, memalign(128, n), n);
}

SITE void *by_valloc(size_t n)
{
	return ledger_alloc(&by_valloc_site, valloc(n), n);
}

SITE void *by_pvalloc(size_t n)
{
	return ledger_alloc(&by_pvalloc_site, pvalloc(n), n);
}

typedef void *(*make_fn)(size_t n);
typedef void (*drop_fn)(void *block, size_t bytes);

static void plain_free(void *block, size_t bytes)
{
	(void)bytes;
	free(block);
}

/* Two made, one freed at once (temporary), one freed later, every third kept. */
static void mix(make_fn make, struct ledger_site *site, size_t times, drop_fn drop)
{
	for (size_t i = 1; i <= ROUNDS; i++) {
		void *a = make(i * 24);
		void *b = make(i * 40);
		check(a && b, "out of memory");
		memset(a, 1, i * 24);
		check(malloc_usable_size(b) >= i * 40 * times, "usable size too small");
		ledger_free(site, b, i * 40 * times);
		drop(b, i * 40 * times);
		if (i % 3 == 0)
			continue;
		ledger_free(site, a, i * 24 * times);
		drop(a, i * 24 * times);
	}
}

static void mode_malloc(void)
{
	mix(by_malloc, &by_malloc_site, 1, plain_free);
	check(!by_malloc(huge), "a huge malloc worked");
	check(errno == ENOMEM, "errno of a failed malloc");
	void *nothing = by_malloc(0); /* a block of size 0 */
	free(NULL);
	KEEP(nothing);
}

static void mode_calloc(void)
{
	mix(by_calloc, &by_calloc_site, 3, plain_free);
	check(!by_calloc(huge), "an overflowing calloc worked");
	char *zeros = by_calloc(1000);
	for (int i = 0; i < 3000; i++)
		check(zeros[i] == 0, "calloc: not zero");
}

static void mode_realloc(void)
{
	for (size_t i = 1; i <= ROUNDS; i++) {
		void *p = by_realloc(NULL, NULL, 0, i);               /* as malloc */
		p = by_realloc(&by_realloc_site, p, i, i * 100);      /* moves or grows */
		p = by_realloc(&by_realloc_site, p, i * 100, i * 10); /* shrinks */
		void *q = by_malloc(i);
		q = by_realloc(&by_malloc_site, q, i, i + 1); /* crosses functions */
		check(!by_realloc(&by_realloc_site, q, i + 1, huge), "a huge realloc worked");
		memset(q, 2, i + 1); /* the old block lives on */
		if (i % 2)
			continue;
		ledger_free(&by_realloc_site, p, i * 10);
		free(p);
	}
}

/* realloc(p, 0) frees in the GNU library. Another event stands between, so that
 * "temporary" does not depend on whether it counts as a free there. */
static void mode_realloc_zero(void)
{
	for (size_t i = 1; i <= ROUNDS; i++) {
		void *p = by_malloc(i);
		void *between = by_malloc(8);
		ledger_free(&by_malloc_site, p, i);
		void *none = realloc(p, 0);
		check(!none, "realloc(p, 0) gave a block");
		KEEP(between);
	}
}

static void mode_reallocarray(void)
{
	for (size_t i = 1; i <= ROUNDS; i++) {
		void *p = by_reallocarray(NULL, NULL, 0, i);
		p = by_reallocarray(&by_reallocarray_site, p, i * 5, i * 30);
		check(!by_reallocarray(&by_reallocarray_site, p, 0, huge), "overflow worked");
		if (i % 2)
			continue;
		ledger_free(&by_reallocarray_site, p, i * 150);
		free(p);
	}
}

static void mode_posix_memalign(void)
{
	mix(by_posix_memalign, &by_posix_memalign_site, 1, plain_free);
	check(!by_posix_memalign(huge), "a huge posix_memalign worked");
}

static void mode_aligned_alloc(void)
{
	mix(by_aligned_alloc, &by_aligned_alloc_site, 1, plain_free);
}

static void mode_memalign(void)
{
	mix(by_memalign, &by_memalign_site, 1, plain_free);
}

static void mode_valloc(void)
{
	mix(by_valloc, &by_valloc_site, 1, plain_free);
}

static void mode_pvalloc(void)
{
	if (!pvalloc)
		_exit(77);
	mix(by_pvalloc, &by_pvalloc_site, 1, plain_free);
}

static void drop_cfree(void *block, size_t bytes)
{
	(void)bytes;
	cfree(block);
}

static void drop_sized(void *block, size_t bytes)
{
	free_sized(block, bytes);
}

static void drop_aligned_sized(void *block, size_t bytes)
{
	free_aligned_sized(block, 128, bytes);
}

/* Exit status 77: this C library does not have the function. */
static void mode_cfree(void)
{
	if (!cfree)
		_exit(77);
	mix(by_malloc, &by_malloc_site, 1, drop_cfree);
}

static void mode_free_sized(void)
{
	if (!free_sized)
		_exit(77);
	mix(by_malloc, &by_malloc_site, 1, drop_sized);
}

static void mode_free_aligned_sized(void)
{
	if (!free_aligned_sized)
		_exit(77);
	mix(by_memalign, &by_memalign_site, 1, drop_aligned_sized);
}

/* Sizes that need more than 32 bits. */
static void mode_large(void)
{
	size_t gib = (size_t)1 << 30;
	for (size_t i = 4; i <= 6; i++) {
		void *block = by_malloc(i * gib + 5);
		void *more = by_realloc(&by_malloc_site, block, i * gib + 5, i * gib + 4096);
		check(block && more, "out of memory");
		ledger_free(&by_realloc_site, more, i * gib + 4096);
		free(more);
	}
	void *kept = by_malloc(4 * gib);
	KEEP(kept);
}

/* Neither a call that works nor a free may change errno, waits included. */
static void mode_errno(void)
{
	for (size_t i = 0; i < 400000; i++) {
		errno = 1234;
		void *block = by_malloc(i % 100);
		check(errno == 1234, "malloc changed errno");
		ledger_free(&by_malloc_site, block, i % 100);
		free(block);
		check(errno == 1234, "free changed errno");
	}
	errno = 0;
	check(!by_malloc(huge) && errno == ENOMEM, "a failed malloc must set errno");
}

static const struct mode {
	const char *name;
	void (*run)(void);
} modes[] = {
	{"malloc", mode_malloc},
	{"calloc", mode_calloc},
	{"realloc", mode_realloc},
	{"realloc_zero", mode_realloc_zero},
	{"reallocarray", mode_reallocarray},
	{"posix_memalign", mode_posix_memalign},
	{"aligned_alloc", mode_aligned_alloc},
	{"memalign", mode_memalign},
	{"valloc", mode_valloc},
	{"pvalloc", mode_pvalloc},
	{"large", mode_large},
	{"errno", mode_errno},
	{"cfree", mode_cfree},
	{"free_sized", mode_free_sized},
	{"free_aligned_sized", mode_free_aligned_sized},
};

int main(int argc, char **argv)
{
	ledger_open("");
	for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++) {
		if (strcmp(argv[1], modes[i].name) != 0)
			continue;
		modes[i].run();
		ledger_print(argv[1], LEDGER_EXACT | LEDGER_PEAK);
		return 0;
	}
	check(0, "usage: api_libc MODE");
}
