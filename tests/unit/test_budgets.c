/* SPDX-License-Identifier: Apache-2.0 */
/* Budgets as text, and which functions a pattern means. */
#include "base/memory.h"
#include "cli/budgets.h"
#include "harness/tap.h"

#include <stdint.h>

static void parses(void)
{
	static const struct {
		const char *text, *function;
		enum budget_figure figure;
		uint64_t limit;
	} good[] = {
		{"peak<=64K", NULL, BUDGET_PEAK, 65536},
		{"peak < 100", NULL, BUDGET_PEAK, 99},
		{"allocations<=2.5k", NULL, BUDGET_ALLOCATIONS, 2500},
		{"parse_*:allocations<=1000", "parse_*", BUDGET_ALLOCATIONS, 1000},
		{" a b : temporary <= 3 ", "a b", BUDGET_TEMPORARY, 3},
		{"ns::f(int):unfreed<=0", "ns::f(int)", BUDGET_UNFREED, 0},
		{"std::vector<int>::push_back:allocated<=1M", "std::vector<int>::push_back",
		 BUDGET_ALLOCATED, 1048576},
		{"rss<=1G", NULL, BUDGET_RSS, 1073741824},
	};
	struct budgets budgets = {0};
	struct tm_error err = {0};
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		if (!CHECK_EQ_I64(budgets_add(&budgets, good[i].text, "here", &err), 0)) {
			tap_note("%s: %s", good[i].text, err.text);
			continue;
		}
		const struct budget *got = &budgets.list[budgets.count - 1];
		CHECK_EQ_U64(got->figure, good[i].figure);
		CHECK_EQ_U64(got->limit, good[i].limit);
		CHECK((got->function == NULL) == (good[i].function == NULL));
		if (got->function && good[i].function)
			CHECK_STR(got->function, good[i].function);
	}
	budgets_done(&budgets);
}

static void refuses(void)
{
	static const char *const bad[] = {
		"",         "peak",   "peak=3",   "speed<=3",   ":peak<=3",   "f:rss<=3",
		"peak<0",   "peak<=", "peak<=-1", "peak<=0x10", "f:peak<=1z", "allocations<=1e99",
		"f:peak<=="};
	struct budgets budgets = {0};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct tm_error err = {0};
		if (!CHECK(budgets_add(&budgets, bad[i], "here", &err) < 0))
			tap_note("%s was taken", bad[i]);
		CHECK_HAS(err.text, "here: ");
	}
	CHECK_EQ_U64(budgets.count, 0);
	budgets_done(&budgets);
}

static void matches(void)
{
	static const struct {
		const char *pattern, *function;
		bool want;
	} pairs[] = {
		{"parse_*", "parse_line", true},
		{"parse_*", "reparse_line", false},
		{"parse_*", "parse_", true},
		{"*line", "parse_line", true},
		{"p*_*e", "parse_line", true},
		{"p?rse_line", "parse_line", true},
		{"parse", "parse_line", false},
		{"ns::parse", "ns::parse(int, char*)", true},
		{"ns::parse(int)", "ns::parse(int)", true},
		{"ns::pars", "ns::parse(int)", false},
		{"*::operator()", "f::operator()(int)", true},
		{"(anonymous namespace)::f", "(anonymous namespace)::f(int)", true},
		{"*", "x", true},
		{"", "x", false},
		{"a*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
	};
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
		if (!CHECK(budget_matches(pairs[i].pattern, pairs[i].function) == pairs[i].want))
			tap_note("%s and %s", pairs[i].pattern, pairs[i].function);
	CHECK(!budget_matches("*", NULL));
}

static void memory_runs_out(void)
{
	for (long n = 0; n < 6; n++) {
		struct budgets budgets = {0};
		struct tm_error err = {0};
		tm_alloc_fail_at(n);
		int code = budgets_add(&budgets, "f:peak<=3", "here", &err);
		tm_alloc_fail_at(-1);
		CHECK(code == 0 || budgets.count == 0);
		budgets_done(&budgets);
	}
}

static const struct tap_case cases[] = {
	{.name = "a budget is read as another one", .run = parses},
	{.name = "a mistyped budget is taken for one that is kept", .run = refuses},
	{.name = "a budget is held against other functions than it names", .run = matches},
	{.name = "no memory for a budget crashes the check", .run = memory_runs_out},
};

TAP_MAIN(cases)
