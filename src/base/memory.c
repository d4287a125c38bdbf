/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

/* The one mutable global of the tools: a test's countdown, -1 when off. */
static atomic_long fail_countdown = -1;

static bool must_fail(void)
{
	if (atomic_load_explicit(&fail_countdown, memory_order_relaxed) < 0)
		return false;
	return atomic_fetch_sub_explicit(&fail_countdown, 1, memory_order_relaxed) == 0;
}

void tm_alloc_fail_at(long n)
{
	atomic_store(&fail_countdown, n);
}

void tm_map_large_blocks(int bytes)
{
#if defined(__GLIBC__)
	(void)mallopt(M_MMAP_THRESHOLD, bytes);
#else
	(void)bytes;
#endif
}

void *tm_alloc(size_t bytes)
{
	return must_fail() ? NULL : calloc(1, bytes ? bytes : 1);
}

void *tm_alloc_array(size_t count, size_t bytes)
{
	return must_fail() ? NULL : calloc(count ? count : 1, bytes ? bytes : 1);
}

void *tm_grow_array(void *old, size_t count, size_t bytes)
{
	size_t total;
	if (__builtin_mul_overflow(count, bytes, &total) || must_fail())
		return NULL;
	return realloc(old, total ? total : 1);
}

char *tm_strdup(const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *copy = must_fail() ? NULL : malloc(bytes);
	return copy ? memcpy(copy, text, bytes) : NULL;
}

void *tm_free(void *memory)
{
	free(memory);
	return NULL;
}
