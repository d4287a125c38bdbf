/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose executable defines malloc itself: a preloaded library never
 * sees a call. Its functions are patched instead, among them one of a single byte.
 */
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define CALLED __attribute__((noipa))

static char pool[1 << 24] __attribute__((aligned(16)));
static size_t used;

CALLED void *malloc(size_t bytes)
{
	size_t at = used;
	used += (bytes + 15) & ~(size_t)15;
	return used <= sizeof pool ? pool + at : NULL;
}

CALLED void free(void *block)
{
	(void)block;
}

CALLED void *calloc(size_t count, size_t bytes)
{
	return malloc(count * bytes);
}

CALLED void *realloc(void *block, size_t bytes)
{
	void *moved = malloc(bytes);
	if (block && moved)
		memmove(moved, block, bytes);
	return moved;
}

int main(void)
{
	for (int i = 0; i < 1000; i++) {
		void *block = malloc(100);
		__asm__ volatile("" : : "r"(block) : "memory");
		free(block);
	}
	return write(1, "own malloc\n", 11) == 11 ? 0 : 1;
}
