/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's memcpy and friends take the place of the C library's in this
 * program; every length and alignment is compared with plain loops.
 */
#include "agent/memory_ops.h"

#include <stdint.h>

#include "harness/tap.h"

enum { ROOM = 400, LENGTH_MAX = 130, PLACES = 17 };

static void fill(uint8_t *bytes, unsigned seed)
{
	for (unsigned i = 0; i < ROOM; i++)
		bytes[i] = (uint8_t)(i * 7 + seed);
}

/* Does every byte of got[] stem from where it should? Outside of the copy nothing changes. */
static bool copied(const uint8_t *got, unsigned to, unsigned from, unsigned length,
		   unsigned seed_to, unsigned seed_from)
{
	for (unsigned i = 0; i < ROOM; i++) {
		bool inside = i >= to && i < to + length;
		unsigned want = inside ? (i - to + from) * 7 + seed_from : i * 7 + seed_to;
		if (got[i] != (uint8_t)want)
			return false;
	}
	return true;
}

static void copies(void)
{
	uint8_t source[ROOM];
	uint8_t target[ROOM];

	fill(source, 100);
	for (unsigned length = 0; length < LENGTH_MAX; length++) {
		for (unsigned to = 0; to < PLACES; to++) {
			fill(target, 3);
			CHECK(memcpy(target + to, source + 5, length) == target + to);
			CHECK(copied(target, to, 5, length, 3, 100));
		}
	}
}

static void moves(void)
{
	uint8_t bytes[ROOM];

	for (unsigned length = 0; length < LENGTH_MAX; length++) {
		for (unsigned to = 0; to < 2 * PLACES; to++) {
			fill(bytes, 9);
			CHECK(memmove(bytes + to, bytes + PLACES, length) == bytes + to);
			CHECK(copied(bytes, to, PLACES, length, 9, 9));
		}
	}
}

static void fills(void)
{
	uint8_t bytes[ROOM];

	for (unsigned length = 0; length < LENGTH_MAX; length++) {
		fill(bytes, 1);
		CHECK(memset(bytes + 3, 0x1a5, length) == bytes + 3);
		for (unsigned i = 0; i < ROOM; i++) {
			uint8_t want = i >= 3 && i < 3 + length ? 0xa5 : (uint8_t)(i * 7 + 1);
			if (bytes[i] != want)
				CHECK(!"only the range is filled");
		}
	}
}

static void compares(void)
{
	CHECK(memcmp("abc", "abd", 2) == 0);
	CHECK(memcmp("abc", "abd", 3) < 0);
	CHECK(memcmp("abd", "abc", 3) > 0);
	CHECK(memcmp("\xff", "\x01", 1) > 0);
	CHECK(memcmp("a", "b", 0) == 0);
	CHECK_EQ_U64(strlen(""), 0);
	CHECK_EQ_U64(strlen("tide"), 4);
}

static const struct tap_case cases[] = {
	{.name = "copies are whole and touch nothing else", .run = copies},
	{.name = "overlapping moves keep their bytes", .run = moves},
	{.name = "fills are whole and touch nothing else", .run = fills},
	{.name = "comparisons have the right sign", .run = compares},
};
TAP_MAIN(cases)
