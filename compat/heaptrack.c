/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libheaptrack_preload.so and libheaptrack_inject.so as stubs: programs that were
 * made to speak to heaptrack open one of them by name and end if there is none.
 * With these on the loader's path they start anywhere; what they say is heard when
 * Tidemark is attached, and costs a load and a branch until then. (Run by Tidemark
 * they get its agent instead, and need none of this.)
 *
 * No libc, no imports: one file serves every C library.
 */
#include "tidemark.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void heaptrack_malloc(void *block, size_t bytes);
EXPORT void heaptrack_free(void *block);
EXPORT void heaptrack_realloc(void *old, size_t bytes, void *block);
EXPORT void heaptrack_realloc2(uintptr_t old, size_t bytes, uintptr_t block);

static struct tidemark_heap heap = TIDEMARK_HEAP("heaptrack", NULL);

void heaptrack_malloc(void *block, size_t bytes)
{
	if (block)
		tidemark_heap_alloc(&heap, block, bytes);
}

void heaptrack_free(void *block)
{
	tidemark_heap_free(&heap, block);
}

void heaptrack_realloc(void *old, size_t bytes, void *block)
{
	if (block)
		tidemark_heap_realloc(&heap, old, block, bytes);
}

void heaptrack_realloc2(uintptr_t old, size_t bytes, uintptr_t block)
{
	heaptrack_realloc((void *)old, bytes, (void *)block);
}
