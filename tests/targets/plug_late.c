/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that brings an allocator of its own along, and calls it by its own
 * names: a shared mimalloc; WITH_JEMALLOC one that is linked in under a prefix and
 * hidden; WITH_OWN a pool that nobody knows by name.
 */
#include <stddef.h>

#if defined WITH_JEMALLOC
void *je_malloc(size_t bytes);
void je_free(void *block);
#define TAKE je_malloc
#define GIVE je_free
#elif defined WITH_OWN
static _Alignas(16) char pool[1 << 20];
static size_t used, given;

__attribute__((noipa, visibility("hidden"))) void *own_take(size_t bytes)
{
	void *block = pool + used;
	used = (used + bytes + 15) / 16 * 16;
	return used <= sizeof pool ? block : NULL;
}

__attribute__((noipa, visibility("hidden"))) void own_give(void *block)
{
	given += block != NULL;
}
#define TAKE own_take
#define GIVE own_give
#else
#include <mimalloc.h>
#define TAKE mi_malloc
#define GIVE mi_free
#endif

__attribute__((noipa, visibility("default"))) void *late_malloc(size_t bytes)
{
	void *block = TAKE(bytes);
	__asm__ volatile("" : "+r"(block));
	return block;
}

__attribute__((visibility("default"))) void late_free(void *block)
{
	GIVE(block);
}
