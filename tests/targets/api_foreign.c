/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The own entry points of jemalloc, mimalloc and tcmalloc from their shared
 * libraries. Built three times, with -DWITH_JEMALLOC and so on. Each plain
 * malloc of such a library is there too: one allocation, never two.
 */
#include "ledger.h"

LEDGER_SITE(by_malloc);

SITE void *by_malloc(size_t n)
{
	return ledger_alloc(&by_malloc_site, malloc(n), n);
}

enum { ROUNDS = 50 };

#ifdef WITH_JEMALLOC
#include <jemalloc/jemalloc.h>
LEDGER_SITE(by_mallocx);
LEDGER_SITE(by_rallocx);

SITE void *by_mallocx(size_t n)
{
	return ledger_alloc(&by_mallocx_site, mallocx(n, MALLOCX_ALIGN(64)), n);
}

SITE void *by_rallocx(struct ledger_site *from, void *old, size_t old_bytes, size_t n)
{
	return ledger_realloc(from, old_bytes, &by_rallocx_site, rallocx(old, n, 0), n);
}

/* xallocx resizes in place and gives the real size; the figures stay as asked. */
static void own_api(size_t i)
{
	void *a = by_mallocx(i * 16);
	void *b = by_mallocx(i * 32);
	ledger_free(&by_mallocx_site, b, i * 32);
	dallocx(b, 0);
	a = by_rallocx(&by_mallocx_site, a, i * 16, i * 64);
	void *c = by_mallocx(i * 8);
	ledger_free(&by_mallocx_site, c, i * 8);
	sdallocx(c, i * 8, MALLOCX_ALIGN(64));
	if (i % 2)
		return;
	ledger_free(&by_rallocx_site, a, i * 64);
	dallocx(a, 0);
}
#endif

#ifdef WITH_MIMALLOC
#include <mimalloc.h>
LEDGER_SITE(by_mi_malloc);
LEDGER_SITE(by_mi_zalloc);
LEDGER_SITE(by_mi_aligned);
LEDGER_SITE(by_mi_realloc);

SITE void *by_mi_malloc(size_t n)
{
	return ledger_alloc(&by_mi_malloc_site, mi_malloc(n), n);
}

SITE void *by_mi_zalloc(size_t n)
{
	return ledger_alloc(&by_mi_zalloc_site, mi_zalloc(n), n);
}

SITE void *by_mi_aligned(size_t n)
{
	return ledger_alloc(&by_mi_aligned_site, mi_malloc_aligned(n, 256), n);
}

SITE void *by_mi_realloc(struct ledger_site *from, void *old, size_t old_bytes, size_t n)
{
	return ledger_realloc(from, old_bytes, &by_mi_realloc_site, mi_realloc(old, n), n);
}

static void own_api(size_t i)
{
	void *a = by_mi_malloc(i * 16);
	void *b = by_mi_zalloc(i * 32);
	ledger_free(&by_mi_zalloc_site, b, i * 32);
	mi_free(b);
	a = by_mi_realloc(&by_mi_malloc_site, a, i * 16, i * 64);
	void *c = by_mi_aligned(i * 8);
	ledger_free(&by_mi_aligned_site, c, i * 8);
	mi_free_size(c, i * 8);
	if (i % 2)
		return;
	ledger_free(&by_mi_realloc_site, a, i * 64);
	mi_free(a);
}
#endif

#ifdef WITH_TCMALLOC
#include <gperftools/tcmalloc.h>
LEDGER_SITE(by_tc_malloc);
LEDGER_SITE(by_tc_calloc);
LEDGER_SITE(by_tc_memalign);
LEDGER_SITE(by_tc_realloc);

SITE void *by_tc_malloc(size_t n)
{
	return ledger_alloc(&by_tc_malloc_site, tc_malloc(n), n);
}

SITE void *by_tc_calloc(size_t n)
{
	return ledger_alloc(&by_tc_calloc_site, tc_calloc(2, n), 2 * n);
}

SITE void *by_tc_memalign(size_t n)
{
	return ledger_alloc(&by_tc_memalign_site, tc_memalign(256, n), n);
}

SITE void *by_tc_realloc(struct ledger_site *from, void *old, size_t old_bytes, size_t n)
{
	return ledger_realloc(from, old_bytes, &by_tc_realloc_site, tc_realloc(old, n), n);
}

static void own_api(size_t i)
{
	void *a = by_tc_malloc(i * 16);
	void *b = by_tc_calloc(i * 16);
	ledger_free(&by_tc_calloc_site, b, i * 32);
	tc_free(b);
	a = by_tc_realloc(&by_tc_malloc_site, a, i * 16, i * 64);
	void *c = by_tc_memalign(i * 8);
	ledger_free(&by_tc_memalign_site, c, i * 8);
	tc_free(c);
	if (i % 2)
		return;
	ledger_free(&by_tc_realloc_site, a, i * 64);
	tc_free(a);
}
#endif

int main(void)
{
	ledger_open("");
	for (size_t i = 1; i <= ROUNDS; i++) {
		own_api(i);
		void *kept = by_malloc(i);
		void *gone = by_malloc(i + 7);
		ledger_free(&by_malloc_site, gone, i + 7);
		free(gone);
		KEEP(kept);
	}
	ledger_print("foreign", 0);
	return 0;
}
