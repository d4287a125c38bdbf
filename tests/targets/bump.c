/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator that a signal handler may call at any moment: an atomic bump
 * pointer, nothing is ever reused. Linked as a shared library behind programs
 * whose handlers allocate in the middle of an allocation.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { POOL_BYTES = 1 << 30, HEAD_BYTES = 16 };
static char pool[POOL_BYTES] __attribute__((aligned(16)));
static size_t used;

/* Called in the middle of a call that fails, if somebody has set it. */
__attribute__((visibility("default"))) void (*bump_failing)(void);

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
	size_t need = ((bytes + 15) & ~(size_t)15) + HEAD_BYTES;
	if (bytes > POOL_BYTES / 2)
		goto fail;
	size_t at = __atomic_fetch_add(&used, need, __ATOMIC_RELAXED);
	if (at + need > POOL_BYTES)
		goto fail;
	memcpy(pool + at, &bytes, sizeof bytes);
	return pool + at + HEAD_BYTES;
fail:
	if (bump_failing)
		bump_failing();
	errno = ENOMEM;
	return NULL;
}

__attribute__((visibility("default"))) void free(void *block)
{
	(void)block;
}

/* The pool is zero and nothing is reused, so calloc need not clear. */
__attribute__((visibility("default"))) void *calloc(size_t count, size_t bytes)
{
	size_t total = 0;
	if (__builtin_mul_overflow(count, bytes, &total))
		return NULL;
	return malloc(total);
}

__attribute__((visibility("default"))) void *realloc(void *block, size_t bytes)
{
	size_t old = 0;
	void *moved = malloc(bytes);
	if (!block || !moved)
		return moved;
	memcpy(&old, (char *)block - HEAD_BYTES, sizeof old);
	return memcpy(moved, block, old < bytes ? old : bytes);
}

__attribute__((visibility("default"))) void *memalign(size_t alignment, size_t bytes)
{
	char *block = malloc(bytes + alignment);
	return block ? (void *)(((uintptr_t)block + alignment - 1) & ~(alignment - 1)) : NULL;
}

__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t bytes)
{
	return memalign(alignment, bytes);
}

__attribute__((visibility("default"))) int posix_memalign(void **block, size_t alignment,
							  size_t bytes)
{
	*block = memalign(alignment, bytes);
	return *block ? 0 : ENOMEM;
}

__attribute__((visibility("default"))) size_t malloc_usable_size(void *block)
{
	size_t bytes = 0;
	if (block)
		memcpy(&bytes, (char *)block - HEAD_BYTES, sizeof bytes);
	return bytes;
}
