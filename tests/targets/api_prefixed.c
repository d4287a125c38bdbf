/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc under a prefix (-DPREFIX=_rjem_), as crates and packages link it:
 * every public function, beside the C library's malloc, which stays another
 * allocator. nallocx and sallocx give no block: they must leave no trace.
 */
#include "ledger.h"

#define JOIN_AGAIN(a, b) a##b
#define JOIN(a, b)       JOIN_AGAIN(a, b)
#define JE(name)         JOIN(PREFIX, name)

enum { ROUNDS = 40, ALIGN_64 = 6, ZEROED = 0x40, NO_CACHE = 0x100 };

void *JE(malloc)(size_t bytes);
void *JE(calloc)(size_t count, size_t bytes);
void *JE(realloc)(void *block, size_t bytes);
int JE(posix_memalign)(void **ret_block, size_t alignment, size_t bytes);
void *JE(aligned_alloc)(size_t alignment, size_t bytes);
void JE(free)(void *block);
void *JE(mallocx)(size_t bytes, int flags);
void *JE(rallocx)(void *block, size_t bytes, int flags);
size_t JE(xallocx)(void *block, size_t bytes, size_t extra, int flags);
void JE(dallocx)(void *block, int flags);
void JE(sdallocx)(void *block, size_t bytes, int flags);
size_t JE(nallocx)(size_t bytes, int flags);
size_t JE(sallocx)(void *block, int flags);

LEDGER_SITE(by_malloc);
LEDGER_SITE(by_je_malloc);
LEDGER_SITE(by_je_calloc);
LEDGER_SITE(by_je_realloc);
LEDGER_SITE(by_je_posix_memalign);
LEDGER_SITE(by_je_aligned_alloc);
LEDGER_SITE(by_mallocx);
LEDGER_SITE(by_rallocx);
LEDGER_SITE(by_xallocx);

SITE void *by_malloc(size_t n)
{
	return ledger_alloc(&by_malloc_site, malloc(n), n);
}

SITE void *by_je_malloc(size_t n)
{
	return ledger_alloc(&by_je_malloc_site, JE(malloc)(n), n);
}

SITE void *by_je_calloc(size_t n)
{
	return ledger_alloc(&by_je_calloc_site, JE(calloc)(3, n), 3 * n);
}

SITE void *by_je_realloc(struct ledger_site *from, void *old, size_t old_bytes, size_t n)
{
	return ledger_realloc(from, old_bytes, &by_je_realloc_site, JE(realloc)(old, n), n);
}

SITE void *by_je_posix_memalign(size_t n)
{
	void *block = NULL;
	check(!JE(posix_memalign)(&block, 512, n), "posix_memalign failed");
	return ledger_alloc(&by_je_posix_memalign_site, block, n);
}

SITE void *by_je_aligned_alloc(size_t n)
{
	return ledger_alloc(&by_je_aligned_alloc_site, JE(aligned_alloc)(64, n), n);
}

SITE void *by_mallocx(size_t n, int flags)
{
	return ledger_alloc(&by_mallocx_site, JE(mallocx)(n, flags), n);
}

SITE void *by_rallocx(struct ledger_site *from, void *old, size_t old_bytes, size_t n)
{
	return ledger_realloc(from, old_bytes, &by_rallocx_site, JE(rallocx)(old, n, ALIGN_64), n);
}

/* In place: to a size that the block has room for, and to one that it has not. */
SITE void by_xallocx(struct ledger_site *from, void *block, size_t old_bytes)
{
	size_t room = JE(sallocx)(block, 0);
	check(JE(xallocx)(block, room, 0, 0) >= room, "xallocx did not give what is there");
	ledger_realloc(from, old_bytes, &by_xallocx_site, block, room);
	check(JE(xallocx)(block, (size_t)1 << 40, 0, 0) < (size_t)1 << 40, "xallocx gave too much");
	ledger_free(&by_xallocx_site, block, room);
	JE(sdallocx)(block, room, 0);
}

static void drop(struct ledger_site *site, void *block, size_t bytes)
{
	ledger_free(site, block, bytes);
	JE(free)(block);
}

static void round_of(size_t i)
{
	drop(&by_je_malloc_site, by_je_malloc(i * 10), i * 10);
	void *a = by_je_calloc(i);
	a = by_je_realloc(&by_je_calloc_site, a, 3 * i, 100 * i);
	void *b = by_je_posix_memalign(i * 7), *c = by_je_aligned_alloc(i * 64);
	drop(&by_je_posix_memalign_site, b, i * 7);
	if (i % 2)
		drop(&by_je_realloc_site, a, 100 * i);
	void *d = by_mallocx(i * 20, ALIGN_64 | ZEROED | NO_CACHE);
	check(((uintptr_t)d & 63) == 0 && !*(char *)d, "mallocx ignored its flags");
	check(JE(nallocx)(i * 20, 0) >= i * 20, "nallocx is wrong");
	d = by_rallocx(&by_mallocx_site, d, i * 20, i * 333);
	ledger_free(&by_rallocx_site, d, i * 333);
	JE(dallocx)(d, 0);
	by_xallocx(&by_mallocx_site, by_mallocx(i * 5, 0), i * 5);
	KEEP(c);
	void *plain = by_malloc(i + 1);
	if (i % 3) {
		ledger_free(&by_malloc_site, plain, i + 1);
		free(plain);
	}
}

int main(void)
{
	ledger_open("");
	JE(free)(NULL);
	for (size_t i = 1; i <= ROUNDS; i++)
		round_of(i);
	ledger_print("prefixed", LEDGER_EXACT | LEDGER_PEAK);
	return 0;
}
