/* SPDX-License-Identifier: Apache-2.0 */
/* The small lists that DWARF is found by: ranges of code, and names that were read once. */
#include "base/memory.h"
#include "harness/tap.h"
#include "symbols/namemap.h"
#include "symbols/rangelist.h"

#include <errno.h>

static void overlapping(void)
{
	struct rangelist ranges = {0};
	uint32_t owners[4];
	CHECK_EQ_U64(rangelist_find(&ranges, 5, owners, 4), 0);
	/* A unit around others, two side by side, one inside. */
	REQUIRE(!rangelist_add(&ranges, 100, 200, 1) && !rangelist_add(&ranges, 0x10, 1000, 2) &&
		!rangelist_add(&ranges, 200, 300, 3) && !rangelist_add(&ranges, 150, 160, 4));
	rangelist_sort(&ranges);
	REQUIRE(rangelist_find(&ranges, 155, owners, 4) == 3);
	CHECK_EQ_U64(owners[0], 4);
	CHECK_EQ_U64(owners[1], 1);
	CHECK_EQ_U64(owners[2], 2);
	REQUIRE(rangelist_find(&ranges, 200, owners, 4) == 2);
	CHECK_EQ_U64(owners[0], 3);
	CHECK_EQ_U64(rangelist_find(&ranges, 155, owners, 1), 1);
	REQUIRE(rangelist_find(&ranges, 999, owners, 4) == 1);
	CHECK_EQ_U64(owners[0], 2);
	CHECK_EQ_U64(rangelist_find(&ranges, 1000, owners, 4), 0);
	CHECK_EQ_U64(rangelist_find(&ranges, 0xf, owners, 4), 0);
	rangelist_done(&ranges);
	tm_alloc_fail_at(0);
	CHECK_EQ_I64(rangelist_add(&ranges, 1, 2, 3), -ENOMEM);
	tm_alloc_fail_at(-1);
}

/* More than are kept: those that are there are right, none is mixed up. */
static void names(void)
{
	enum { COUNT = 1 << 20 };
	static const char texts[] = "abcdefghijklmnopqrstuvwxyz";
	struct namemap map = {0};
	uint64_t found = 0;
	CHECK(!namemap_find(&map, 1));
	for (uint64_t i = 0; i < COUNT; i++)
		namemap_put(&map, (struct namemap_entry){
					  .key = i * 24, .name = &texts[i % 26], .flag = i % 2});
	for (uint64_t i = 0; i < COUNT; i++) {
		const struct namemap_entry *entry = namemap_find(&map, i * 24);
		found += entry != NULL;
		if (entry && (entry->name != &texts[i % 26] || entry->flag != i % 2))
			CHECK(!"the name of another");
	}
	CHECK(found > 0);
	CHECK(!namemap_find(&map, 23));
	namemap_done(&map);
	tm_alloc_fail_at(0);
	namemap_put(&map, (struct namemap_entry){.key = 1, .name = "a"});
	tm_alloc_fail_at(-1);
	CHECK(!namemap_find(&map, 1));
	namemap_done(&map);
}

static const struct tap_case cases[] = {
	{.name = "units that overlap are all found, the nearest first", .run = overlapping},
	{.name = "a full cache of names forgets, and never mixes up", .run = names},
};
TAP_MAIN(cases)
