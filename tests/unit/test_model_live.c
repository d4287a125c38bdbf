/* SPDX-License-Identifier: Apache-2.0 */
/* The table of live blocks where it is hard: full lines, full pages, keys that collide. */
#include "base/memory.h"
#include "harness/tap.h"
#include "model/live_hot.h"
#include "model/sort.h"

#include <errno.h>
#include <stdlib.h>

static struct live_block *add(struct live_table *table, uint64_t mixed)
{
	REQUIRE(live_reserve_blocks(table, 1) == 0);
	REQUIRE(live_split_page(table, mixed) == 0);
	return live_add(table, live_page_of(table, mixed), mixed);
}

static struct live_block *find(const struct live_table *table, uint64_t mixed)
{
	return live_find(table, live_page_of(table, mixed), mixed).block;
}

static void drop(struct live_table *table, uint64_t mixed)
{
	struct live_page *page = live_page_of(table, mixed);
	struct live_place place = live_find(table, page, mixed);
	REQUIRE(place.block);
	live_remove(table, page, mixed, place);
}

static void mixing_is_one_to_one(void)
{
	struct live_table table;
	REQUIRE(live_init(&table) == 0);
	for (uint64_t i = 0; i < 100000; i++) {
		uint64_t key = i * 0x9e3779b97f4a7c15ull ^ i << 40;
		CHECK_EQ_U64(live_unmix(&table, live_mix(&table, key)), key);
	}
	CHECK_EQ_U64(live_unmix(&table, live_mix(&table, UINT64_MAX)), UINT64_MAX);
	live_done(&table);
}

/* 100 keys of the last line of a page: they go on into the first ones. */
static void lines_overflow(void)
{
	enum { COUNT = 100 };
	struct live_table table;
	REQUIRE(live_init(&table) == 0);
	uint64_t home = (uint64_t)LIVE_LINE_MASK << 32;
	for (uint32_t i = 0; i < COUNT; i++)
		add(&table, home | i)->slot = i;
	CHECK_EQ_U64(live_count(&table), COUNT);
	for (uint32_t i = 0; i < COUNT; i++) {
		REQUIRE(find(&table, home | i));
		CHECK_EQ_U64(find(&table, home | i)->slot, i);
	}
	CHECK(!find(&table, home | COUNT));
	for (uint32_t i = 0; i < COUNT; i += 2)
		drop(&table, home | i);
	for (uint32_t i = 0; i < COUNT; i++)
		CHECK((find(&table, home | i) != NULL) == (i % 2 == 1));
	for (uint32_t i = 1; i < COUNT; i += 2)
		drop(&table, home | i);
	CHECK_EQ_U64(live_count(&table), 0);
	const struct live_page *page = table.directory[0];
	for (size_t i = 0; i < LIVE_PAGE_LINES; i++) {
		CHECK_EQ_U64(page->lines[i].passed, 0); /* or every search would go on for ever */
		CHECK_EQ_U64(page->lines[i].used, 0);
	}
	live_done(&table);
}

/* Keys that agree in all bits that choose a page cannot be parted: an error, not a hang. */
static void keys_that_collide(void)
{
	struct live_table table;
	uint64_t count = 0;
	REQUIRE(live_init(&table) == 0);
	int rc = 0;
	for (; count < 100000; count++) {
		uint64_t mixed = 0xabcd000000000000ull | count << 22;
		if (live_reserve_blocks(&table, 1) || (rc = live_split_page(&table, mixed)))
			break;
		live_add(&table, live_page_of(&table, mixed), mixed)->slot = (uint32_t)count;
	}
	CHECK_EQ_I64(rc, -EOVERFLOW);
	CHECK(count > 7000);
	for (uint64_t i = 0; i < count; i++) {
		struct live_block *block = find(&table, 0xabcd000000000000ull | i << 22);
		REQUIRE(block);
		CHECK_EQ_U64(block->slot, i);
	}
	uint64_t other = 0x1234000000000000ull; /* the rest of the table works as before */
	add(&table, other)->slot = 9;
	CHECK_EQ_U64(find(&table, other)->slot, 9);
	live_done(&table);
}

static int count_visit(void *ctx, uint64_t key, const struct live_block *block)
{
	uint8_t *seen = ctx;
	REQUIRE(key < 300000);
	CHECK_EQ_U64(block->slot, key);
	seen[key]++;
	return 0;
}

/* Random births and deaths of 300,000 keys against an array that says which live. */
static void random_keys(void)
{
	enum { KEYS = 300000 };
	uint8_t *live = calloc(KEYS, 1), *seen = calloc(KEYS, 1);
	struct live_table table;
	uint64_t state = 5, wrong = 0;
	REQUIRE(live && seen && live_init(&table) == 0);
	for (int i = 0; i < 2000000; i++) {
		state = state * 6364136223846793005ull + 1442695040888963407ull;
		uint64_t key = (state >> 33) % KEYS, mixed = live_mix(&table, key);
		struct live_block *block = find(&table, mixed);
		wrong += (block != NULL) != live[key];
		if (block)
			drop(&table, mixed);
		else
			add(&table, mixed)->slot = (uint32_t)key;
		live[key] ^= 1;
	}
	CHECK_EQ_U64(wrong, 0);
	CHECK_EQ_I64(live_each(&table, count_visit, seen), 0);
	CHECK_MEM(seen, live, KEYS);
	live_done(&table);
	free(live);
	free(seen);
}

/* Memory that fails while a page is split leaves the table as it was. */
static void no_memory(void)
{
	for (long n = 0; n < 3; n++) {
		struct live_table table;
		REQUIRE(live_init(&table) == 0);
		uint64_t failed = 0;
		for (uint64_t key = 0; key < 20000; key++) {
			uint64_t mixed = live_mix(&table, key);
			REQUIRE(live_reserve_blocks(&table, 1) == 0);
			tm_alloc_fail_at(n);
			int rc = live_split_page(&table, mixed);
			tm_alloc_fail_at(-1);
			failed += rc != 0;
			add(&table, mixed)->slot = (uint32_t)key;
		}
		for (uint64_t key = 0; key < 20000; key++) {
			struct live_block *block = find(&table, live_mix(&table, key));
			REQUIRE(block);
			CHECK_EQ_U64(block->slot, key);
		}
		CHECK(n > 0 || failed > 0);
		live_done(&table);
	}
}

static void sorting(void)
{
	uint64_t keys[1000], other[1000], state = 3;
	for (size_t count = 0; count <= 1000; count += 37) {
		for (size_t i = 0; i < count; i++) {
			state = state * 6364136223846793005ull + 1442695040888963407ull;
			keys[i] = state >> 34 << (state >> 60) << 32 | i;
		}
		uint64_t *sorted = sort_by_upper(keys, other, count);
		for (size_t i = 1; i < count; i++) {
			uint64_t before = sorted[i - 1], after = sorted[i];
			CHECK(before >> 32 < after >> 32 ||
			      (before >> 32 == after >> 32 && (uint32_t)before < (uint32_t)after));
		}
	}
}

static const struct tap_case cases[] = {
	{.name = "an address can be told from its place in the table", .run = mixing_is_one_to_one},
	{.name = "blocks whose places are taken are found elsewhere", .run = lines_overflow},
	{.name = "a hostile choice of addresses ends in an error, not in a hang",
	 .run = keys_that_collide},
	{.name = "no block is lost or found twice", .run = random_keys},
	{.name = "lack of memory loses no block", .run = no_memory},
	{.name = "rows of a slice come in order", .run = sorting},
};
TAP_MAIN(cases)
