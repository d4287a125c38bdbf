/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sort.h"
#include "harness/tap.h"

#include <stdlib.h>
#include <string.h>

struct wide { /* larger than the piece that is swapped at once */
	char pad[100];
	unsigned key;
	char tail[29];
};

static int by_key(const void *left, const void *right, void *ctx)
{
	const struct wide *a = left, *b = right;
	int sign = *(const int *)ctx;
	return sign * (a->key < b->key ? -1 : a->key > b->key);
}

static void sorts_any_number(void)
{
	struct wide rows[300];
	unsigned random = 7;
	for (int sign = -1; sign <= 1; sign += 2) {
		for (size_t count = 0; count < 300; count++) {
			unsigned long before = 0, after = 0;
			for (size_t i = 0; i < count; i++) {
				random = random * 1664525u + 1013904223u;
				rows[i].key = random >> 24; /* many are equal */
				memset(rows[i].pad, (int)(rows[i].key & 0x7f), sizeof rows[i].pad);
				before += rows[i].key;
			}
			sort_array(rows, count, sizeof rows[0], by_key, &sign);
			for (size_t i = 0; i < count; i++) {
				after += rows[i].key;
				CHECK((unsigned char)rows[i].pad[99] == (rows[i].key & 0x7f));
				if (i)
					CHECK(by_key(&rows[i - 1], &rows[i], &sign) <= 0);
			}
			CHECK_EQ_U64(after, before);
		}
	}
}

static void sorts_the_first(void)
{
	struct wide rows[200], all[200];
	int sign = 1;
	unsigned random = 11;
	memset(rows, 0, sizeof rows); /* what lies between the fields is compared, too */
	for (size_t first = 0; first <= 220; first += 7) {
		for (size_t i = 0; i < 200; i++) {
			random = random * 1664525u + 1013904223u;
			rows[i].key = random >> 22;
			memset(rows[i].pad, (int)(rows[i].key & 0x7f), sizeof rows[i].pad);
		}
		memcpy(all, rows, sizeof all);
		sort_array(all, 200, sizeof all[0], by_key, &sign);
		sort_array_first(rows, 200, first, sizeof rows[0], by_key, &sign);
		for (size_t i = 0; i < 200 && i < first; i++)
			CHECK_EQ_U64(rows[i].key, all[i].key);
		sort_array(rows, 200, sizeof rows[0], by_key, &sign);
		CHECK(!memcmp(rows, all, sizeof all)); /* none is lost */
	}
}

struct numbered {
	uint64_t number;
	unsigned place; /* in the array before */
};

/* Numbers as addresses are: alike in most bytes, or in none. */
static uint64_t number_like(unsigned kind, uint64_t *random)
{
	*random = *random * 6364136223846793005u + 1442695040888963407u;
	switch (kind) {
	case 0:
		return *random >> 60;
	case 1:
		return 0x7f0000400000u + (*random >> 44);
	case 2:
		return *random;
	default:
		return 42;
	}
}

static void sorts_by_number(void)
{
	struct numbered rows[1000], room[1000];
	uint64_t random = 1;
	for (unsigned kind = 0; kind < 4; kind++)
		for (size_t count = 0; count <= 1000; count += count < 5 ? 1 : 199) {
			uint64_t before = 0, after = 0;
			for (size_t i = 0; i < count; i++) {
				rows[i] =
					(struct numbered){number_like(kind, &random), (unsigned)i};
				before += rows[i].number ^ i << 50;
			}
			sort_by_number(rows, count, sizeof rows[0], room);
			for (size_t i = 0; i < count; i++) {
				after += rows[i].number ^ (uint64_t)rows[i].place << 50;
				if (!i)
					continue;
				CHECK(rows[i - 1].number <= rows[i].number);
				if (rows[i - 1].number == rows[i].number)
					CHECK(rows[i - 1].place < rows[i].place);
			}
			CHECK_EQ_U64(after, before);
		}
}

static const struct tap_case cases[] = {
	{.name = "any number of elements, both ways", .run = sorts_any_number},
	{.name = "the first of many, none lost", .run = sorts_the_first},
	{.name = "by number, equal ones in order, none lost", .run = sorts_by_number},
};
TAP_MAIN(cases)
