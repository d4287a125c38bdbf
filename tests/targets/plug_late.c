/* SPDX-License-Identifier: Apache-2.0 */
/* A library that brings an allocator of its own along, and calls it by its own names. */
#include <mimalloc.h>

__attribute__((noipa, visibility("default"))) void *late_malloc(size_t bytes)
{
	void *block = mi_malloc(bytes);
	__asm__ volatile("" : "+r"(block));
	return block;
}

__attribute__((visibility("default"))) void late_free(void *block)
{
	mi_free(block);
}
