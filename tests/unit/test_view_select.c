/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of a part of the run, and histograms, on the stacks of shop_heap.h. */
#include "base/memory.h"
#include "harness/tap.h"
#include "shop_heap.h"
#include "views/buckets.h"
#include "views/select.h"

#include <errno.h>
#include <string.h>

static void select_part(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	struct query_row rows[] = {
		{.stack_id = 3,
		 .figures = {.allocations = 2, .allocated_bytes = 30, .kept_blocks = 1}},
		{.stack_id = 5,
		 .figures = {.allocations = 1, .allocated_bytes = 5, .peak_bytes = 7}},
		{.stack_id = 9, .figures = {.end_blocks = 4, .end_bytes = 40}},
		{.stack_id = 999, .figures = {.failed = 1}}, /* not in the trace: without a stack */
	};
	const struct query_answer answer = {.rows = rows, .row_count = 4};
	REQUIRE(view_data_select(data, &answer, NULL) == 0);
	struct view_rows sites;
	REQUIRE(view_fill(view_find("allocations"), data, &sites, NULL) == 0);
	/* Stacks 3 and 5 read alike and are one. */
	CHECK_EQ_U64(sites.count, 1);
	CHECK_STR(sites.rows[0].function, "cart_add");
	CHECK_EQ_U64(sites.rows[0].stack_count, 1);
	CHECK_EQ_U64(sites.rows[0].self.of[VIEW_ALLOCATIONS], 3);
	CHECK_EQ_U64(sites.rows[0].self.of[VIEW_ALLOCATED_BYTES], 35);
	CHECK_EQ_U64(sites.rows[0].self.of[VIEW_SURVIVING_BLOCKS], 1);
	CHECK_EQ_U64(sites.rows[0].self.of[VIEW_PEAK_BYTES], 7);
	view_rows_done(&sites);
	REQUIRE(view_fill(view_find("unfreed"), data, &sites, NULL) == 0);
	CHECK_EQ_U64(sites.count, 1);
	CHECK_STR(sites.rows[0].function, "walk");
	CHECK_EQ_U64(sites.rows[0].self.of[VIEW_UNFREED_BYTES], 40);
	view_rows_done(&sites);
	shop_unload(&shop, data);
}

static void buckets(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	const struct query_bucket sizes[] = {
		{.stack_id = 3, .bucket = 4, .count = 5}, /* cart_add: 8 to 15 bytes */
		{.stack_id = 3, .bucket = 6, .count = 1},
		{.stack_id = 5, .bucket = 4, .count = 2},  /* cart_add as well */
		{.stack_id = 6, .bucket = 4, .count = 3},  /* draw */
		{.stack_id = 9, .bucket = 4, .count = 1},  /* walk */
		{.stack_id = 10, .bucket = 4, .count = 2}, /* no name */
		{.stack_id = 3, .bucket = 77, .count = 9}, /* there is no such bucket */
	};
	struct view_buckets made;
	REQUIRE(view_buckets_new(data, sizes, 7, &made, NULL) == 0);
	CHECK_EQ_U64(made.count, 3);
	CHECK_EQ_U64(made.total, 14);
	CHECK_EQ_U64(made.list[0].from, 8);
	CHECK_EQ_U64(made.list[0].to, 15);
	CHECK_EQ_U64(made.list[0].count, 13);
	REQUIRE(made.list[0].top_count == 3);
	CHECK_STR(made.list[0].tops[0].function, "cart_add");
	CHECK_EQ_U64(made.list[0].tops[0].count, 7);
	CHECK_STR(made.list[0].tops[1].function, "draw");
	CHECK_EQ_U64(made.list[0].tops[2].count, 2);
	CHECK_EQ_U64(made.list[1].count, 0); /* 16 to 31: empty, but not left out */
	CHECK_EQ_U64(made.list[2].count, 1);
	view_buckets_done(&made);
	REQUIRE(view_buckets_new(data, NULL, 0, &made, NULL) == 0);
	CHECK_EQ_U64(made.count, 0);
	view_buckets_done(&made);
	const struct query_bucket ends[] = {{.bucket = 0, .count = 1}, {.bucket = 47, .count = 1}};
	REQUIRE(view_buckets_new(data, ends, 2, &made, NULL) == 0);
	CHECK_EQ_U64(made.count, 48);
	CHECK_EQ_U64(made.list[0].to, 0);
	CHECK_EQ_U64(made.list[47].to, UINT64_MAX);
	view_buckets_done(&made);
	shop_unload(&shop, data);
}

static void memory_runs_out(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	struct query_row row = {.stack_id = 3, .figures = {.allocations = 2}};
	const struct query_answer answer = {.rows = &row, .row_count = 1};
	const struct query_bucket size = {.stack_id = 3, .bucket = 4, .count = 5};
	size_t before, after;
	view_stacks(data, &before);
	int code = -1;
	for (long n = 0; n < 20 && code; n++) {
		struct view_buckets made = {0};
		tm_alloc_fail_at(n);
		code = view_buckets_new(data, &size, 1, &made, NULL);
		if (!code)
			code = view_data_select(data, &answer, NULL);
		tm_alloc_fail_at(-1);
		view_buckets_done(&made);
		CHECK(code == 0 || code == -ENOMEM);
		view_stacks(data, &after);
		CHECK_EQ_U64(after, code ? before : 1);
	}
	CHECK_EQ_I64(code, 0);
	shop_unload(&shop, data);
}

static const struct tap_case cases[] = {
	{.name = "figures of a range replace those of the run", .run = select_part},
	{.name = "histograms are exact and name the right functions", .run = buckets},
	{.name = "running out of memory is an error, not a crash", .run = memory_runs_out},
};
TAP_MAIN(cases)
