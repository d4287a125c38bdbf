/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Written with string instructions and with loops that a compiler cannot turn
 * back into calls of the very functions they implement.
 */
#include "agent/memory_ops.h"

#include <stdint.h>

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
	void *place = to;
	__asm__ volatile("rep movsb" : "+D"(place), "+S"(from), "+c"(bytes) : : "memory");
	return to;
}

void *memmove(void *to, const void *from, size_t bytes)
{
	if ((uintptr_t)to - (uintptr_t)from >= bytes)
		return memcpy(to, from, bytes);
	/* The kernel clears the direction flag for signal handlers. */
	uint8_t *place = (uint8_t *)to + bytes - 1;
	const uint8_t *source = (const uint8_t *)from + bytes - 1;
	__asm__ volatile("std\n\trep movsb\n\tcld"
			 : "+D"(place), "+S"(source), "+c"(bytes)
			 :
			 : "memory", "cc");
	return to;
}

void *memset(void *to, int value, size_t bytes)
{
	void *place = to;
	__asm__ volatile("rep stosb" : "+D"(place), "+c"(bytes) : "a"(value) : "memory");
	return to;
}

int memcmp(const void *a, const void *b, size_t bytes)
{
	const uint8_t *left = a;
	const uint8_t *right = b;

	for (size_t i = 0; i < bytes; i++) {
		if (left[i] != right[i])
			return left[i] - right[i];
		__asm__ volatile("");
	}
	return 0;
}

size_t strlen(const char *text)
{
	size_t bytes = 0;

	while (text[bytes]) {
		bytes++;
		__asm__ volatile("");
	}
	return bytes;
}
