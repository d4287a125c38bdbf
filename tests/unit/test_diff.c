/* SPDX-License-Identifier: Apache-2.0 */
/* What two builds have in common: names without what the compiler appends; states and order. */
#include "base/memory.h"
#include "harness/tap.h"
#include "views/diff.h"
#include "views/diff_names.h"

#include <string.h>

static void names(void)
{
	static const struct {
		const char *name, *want;
	} pairs[] = {
		{"parse", "parse"},
		{"parse.part.0", "parse"},
		{"parse.constprop.12", "parse"},
		{"parse.isra.0.cold", "parse"},
		{"parse.cold", "parse"},
		{"parse.lto_priv.3", "parse"},
		{"parse.llvm.1234567890", "parse"},
		{"parse.cold.part", "parse"},
		{"file.cold.c", "file.cold.c"},
		{"version.2", "version.2"},
		{"a.b", "a.b"},
		{".cold", ".cold"},
		{"", ""},
	};
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
		if (!CHECK_EQ_U64(diff_names_bytes(pairs[i].name), strlen(pairs[i].want)))
			tap_note("%s", pairs[i].name);
	struct diff_names all = {0};
	uint32_t one, two, module, same, plain;
	REQUIRE(diff_names_frame(&all, "parse.part.0", "/a/libx.so", &one) == 0);
	REQUIRE(diff_names_frame(&all, "parse", "/b/liby.so", &two) == 0);
	CHECK_EQ_U64(one, two);
	REQUIRE(diff_names_frame(&all, NULL, "/a/libx.so", &module) == 0);
	REQUIRE(diff_names_frame(&all, NULL, "/elsewhere/libx.so", &same) == 0);
	CHECK_EQ_U64(module, same);
	CHECK_STR(all.texts[module], "[libx.so]");
	REQUIRE(diff_names_frame(&all, NULL, "[vdso]", &plain) == 0);
	CHECK_STR(all.texts[plain], "[vdso]");
	diff_names_done(&all);
}

static void states(void)
{
	static const struct {
		uint64_t before, after;
		enum diff_state want;
	} rows[] = {
		{0, 0, DIFF_SAME}, {5, 5, DIFF_SAME},  {0, 5, DIFF_NEW},
		{5, 0, DIFF_GONE}, {5, 6, DIFF_GROWN}, {6, 5, DIFF_SHRUNK},
	};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct diff_row row = {.name = ""};
		row.before.of[VIEW_PEAK_BYTES] = rows[i].before;
		row.after.of[VIEW_PEAK_BYTES] = rows[i].after;
		CHECK_EQ_U64(diff_state(&row, VIEW_PEAK_BYTES), rows[i].want);
	}
}

static void orders(void)
{
	struct diff_row rows[4] = {{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}};
	static const uint64_t values[4][2] = {{100, 110}, {50, 0}, {0, 7}, {3, 3}};
	static const struct {
		enum diff_sort sort;
		const char *want;
	} sorts[] = {
		{DIFF_SORT_CHANGE, "bacd"},   {DIFF_SORT_GROWTH, "acdb"},
		{DIFF_SORT_RELATIVE, "cbad"}, {DIFF_SORT_BEFORE, "abdc"},
		{DIFF_SORT_AFTER, "acdb"},    {DIFF_SORT_NAME, "abcd"},
	};
	for (size_t i = 0; i < 4; i++) {
		rows[i].before.of[VIEW_ALLOCATIONS] = values[i][0];
		rows[i].after.of[VIEW_ALLOCATIONS] = values[i][1];
	}
	for (size_t i = 0; i < sizeof sorts / sizeof sorts[0]; i++) {
		struct diff_row copy[4];
		memcpy(copy, rows, sizeof copy);
		struct diff diff = {.sites = {.rows = copy, .count = 4}};
		struct diff_order order = {.figure = VIEW_ALLOCATIONS, .sort = sorts[i].sort};
		diff_sort(&diff, &order);
		char got[5] = {copy[0].name[0], copy[1].name[0], copy[2].name[0], copy[3].name[0]};
		CHECK_STR(got, sorts[i].want);
	}
}

static void memory_runs_out(void)
{
	for (long n = 0; n < 8; n++) {
		struct diff_names all = {0};
		uint32_t id;
		tm_alloc_fail_at(n);
		(void)!diff_names_frame(&all, "parse", "x", &id);
		(void)!diff_names_frame(&all, NULL, "/a/x", &id);
		tm_alloc_fail_at(-1);
		diff_names_done(&all);
	}
	CHECK(true);
}

static const struct tap_case cases[] = {
	{.name = "the same function of two builds is taken for two", .run = names},
	{.name = "what is new is called grown", .run = states},
	{.name = "the largest change is not first", .run = orders},
	{.name = "no memory for names crashes the diff", .run = memory_runs_out},
};

TAP_MAIN(cases)
