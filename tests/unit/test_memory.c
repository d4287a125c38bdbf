/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "harness/tap.h"

#include <stdint.h>

static void memory_is_zeroed(void)
{
	unsigned char *block = tm_alloc(1000);
	REQUIRE(block);
	unsigned sum = 0;
	for (size_t i = 0; i < 1000; i++)
		sum += block[i];
	CHECK_EQ_U64(sum, 0);
	CHECK(tm_free(block) == NULL);
	CHECK(tm_free(NULL) == NULL);
}

static void overflow_is_a_failure(void)
{
	/* Hidden from the compiler, which would warn about the very thing tested. */
	volatile size_t huge = SIZE_MAX / 4;
	void *array = tm_alloc_array(huge, 8);
	CHECK(!array);
	tm_free(array);
	void *grown = tm_grow_array(NULL, huge, 8);
	CHECK(!grown);
	tm_free(grown);
}

static void nothing_is_not_null(void)
{
	void *none = tm_alloc_array(0, 8);
	CHECK(none != NULL);
	tm_free(none);
	void *empty = tm_grow_array(NULL, 0, 8);
	CHECK(empty != NULL);
	tm_free(empty);
}

static void the_chosen_allocation_fails(void)
{
	tm_alloc_fail_at(1);
	char *first = tm_strdup("a");
	char *second = tm_strdup("b");
	char *third = tm_strdup("c");
	CHECK_STR(first, "a");
	CHECK(!second);
	CHECK_STR(third, "c");
	tm_alloc_fail_at(-1);
	tm_free(first);
	tm_free(second);
	tm_free(third);
}

static const struct tap_case cases[] = {
	{.name = "fresh memory shows no stale figures", .run = memory_is_zeroed},
	{.name = "a damaged count asks for no impossible memory", .run = overflow_is_a_failure},
	{.name = "an empty table is not taken for a lack of memory", .run = nothing_is_not_null},
	{.name = "tests can make any allocation fail", .run = the_chosen_allocation_fails},
};
TAP_MAIN(cases)
