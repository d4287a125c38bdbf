/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose allocator is in the same file as its callers: compilers
 * then keep values in registers that a call may change, where they see that this
 * call does not (-fipa-ra). A hook that does not keep them all makes it count
 * wrongly, or hang. Says "ready", works until its input ends, prints "bad=N".
 */
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

static char room[1 << 20];
static size_t used;

__attribute__((noinline)) void *malloc(size_t bytes)
{
	bytes = (bytes + 15) & ~(size_t)15;
	if (used + bytes > sizeof room)
		used = 0;
	void *block = room + used;
	used += bytes;
	return block;
}

__attribute__((noinline)) void free(void *block)
{
	__asm__ volatile("" ::"r"(block) : "memory");
}

/* Many values live across calls: more than there are registers that every call keeps. */
__attribute__((noinline)) static uint64_t mix(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
					      uint64_t e, uint64_t f)
{
	uint64_t sum = 0;
	for (int i = 0; i < 1000; i++) {
		free(malloc(16 + (size_t)(i & 63)));
		sum += a ^ (b + c) ^ (d * e) ^ f ^ (uint64_t)i;
		a += b;
		b ^= c;
		c += d;
		d ^= e;
		e += f;
		f ^= a;
	}
	return sum;
}

int main(void)
{
	uint64_t expected = mix(1, 2, 3, 4, 5, 6);
	unsigned long bad = 0, rounds = 0;
	struct pollfd input = {.fd = 0, .events = POLLIN};
	dprintf(1, "ready\n");
	while (poll(&input, 1, 0) == 0) {
		for (int i = 0; i < 50; i++, rounds++)
			bad += mix(1, 2, 3, 4, 5, 6) != expected;
	}
	dprintf(1, "bad=%lu rounds=%lu\n", bad, rounds);
	return bad ? 1 : 0;
}
