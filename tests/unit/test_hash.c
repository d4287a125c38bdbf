/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"
#include "harness/tap.h"

#include <string.h>

static unsigned bits_moved(uint64_t a, uint64_t b)
{
	return (unsigned)__builtin_popcountll(hash_u64(a) ^ hash_u64(b));
}

static void every_bit_counts(void)
{
	/* Mean over many inputs; half of 64 bits is 32, and a weak mix is far below. */
	enum { INPUTS = 256 };
	for (unsigned bit = 0; bit < 64; bit++) {
		unsigned moved = 0;
		for (uint64_t i = 0; i < INPUTS; i++)
			moved += bits_moved(i << 4, (i << 4) ^ (1ull << bit));
		if (!CHECK(moved > 28 * INPUTS && moved < 36 * INPUTS))
			tap_note("bit %u moves %u / %u bits", bit, moved, INPUTS);
	}
}

static void aligned_addresses_spread(void)
{
	/* 16 bytes apart, as malloc returns them, into 4,096 slots by the low bits. */
	static unsigned char used[4096];
	unsigned distinct = 0;
	for (uint64_t i = 0; i < 4096; i++) {
		unsigned char *slot = &used[hash_u64(0x7f0000000000 + 16 * i) & 4095];
		distinct += !*slot;
		*slot = 1;
	}
	/* Random throws fill 1 - 1/e = 63 % of the slots. */
	CHECK(distinct > 2400);
}

static void order_and_length_count(void)
{
	CHECK(hash_pair(1, 2) != hash_pair(2, 1));
	CHECK(hash_pair(0, 0) != 0);
	CHECK(hash_bytes("abc", 3) != hash_bytes("abd", 3));
	CHECK(hash_bytes("abc\0", 4) != hash_bytes("abc", 3));
	CHECK(hash_bytes("12345678a", 9) != hash_bytes("12345678b", 9));
	CHECK_EQ_U64(hash_bytes("libc.so.6", 9), hash_bytes("libc.so.6", 9));
}

static const struct tap_case cases[] = {
	{.name = "no kind of address makes lookups slow", .run = every_bit_counts},
	{.name = "neighbouring blocks do not share a slot", .run = aligned_addresses_spread},
	{.name = "different names and pairs are kept apart", .run = order_and_length_count},
};
TAP_MAIN(cases)
