/* SPDX-License-Identifier: Apache-2.0 */
/* How names, figures, tables and curves look on a terminal. */
#include "cli/grid.h"
#include "cli/out.h"
#include "cli/plot.h"
#include "harness/tap.h"

#include <string.h>

static void check_name(const char *name, unsigned columns, const char *wanted)
{
	struct out out = {0};
	out_function(&out, name, columns);
	CHECK_STR(text_string(&out.text), wanted);
	text_done(&out.text);
}

static void names(void)
{
	static const char push[] = "void std::vector<int, std::allocator<int> >::push_back(int&&)";
	check_name("main", 20, "main");
	check_name(push, 0, "void std::vector<…>::push_back(int&&)");
	check_name(push, 60, "void std::vector<…>::push_back(int&&)");
	check_name(push, 36, "std::vector<…>::push_back(…)");
	check_name(push, 20, "std::vect…sh_back(…)");
	/* What looks like brackets, or like a type, and is none. */
	check_name("std::ostream& operator<<(std::ostream&, Thing const&)", 20, "operator<<(…)");
	check_name("(anonymous namespace)::Cache::operator()(int, int, int) const", 50,
		   "(anonymous namespace)::Cache::operator()(…) const");
	check_name("operator new(unsigned long, std::nothrow_t const&)", 20, "operator new(…)");
	check_name("Iterator<Item, Other>::operator->() const", 31,
		   "Iterator<…>::operator->() const");
	check_name("<alloc::vec::Vec<T> as core::clone::Clone>::clone", 20, "<…>::clone");
	check_name("[frames missing: the stack is too deep]", 20, "[frames m… too deep]");
}

static void full_names(void)
{
	static const char push[] = "void std::vector<int, std::allocator<int> >::push_back(int&&)";
	struct out out = {.full_names = true};
	out_function(&out, push, 20);
	CHECK_STR(text_string(&out.text), push);
	text_done(&out.text);
}

static void figures(void)
{
	struct out out = {0}, exact = {.exact = true};
	CHECK_STR(out_bytes(&out, 1234567).text, "1.23 MB");
	CHECK_STR(out_bytes(&exact, 1234567).text, "1,234,567 B");
	CHECK_STR(out_duration(&exact, 1234567890).text, "1.234567 s");
	CHECK_STR(out_duration(&out, 1230000000).text, "1.23 s");
	/* Beyond what has room for commas and a unit the digits stay. */
	CHECK_STR(out_bytes(&exact, UINT64_MAX).text, "18446744073709551615 B");
}

static void fill(struct grid *grid)
{
	grid_cell(grid, "%s", "1.00 kB");
	grid_cell(grid, "%d", 5);
	grid_cell(grid, "%s", "short");
	grid_cell(grid, "%s", "10 B");
	grid_cell(grid, "%d", 12345);
	grid_cell(grid, "│ \t%s", "a_function_with_a_rather_long_name");
}

static void tables(void)
{
	static const struct grid_column columns[] = {
		{"bytes", GRID_RIGHT, OUT_FIGURE, 0},
		{"blocks", GRID_RIGHT, OUT_PLAIN, 60},
		{"name", GRID_NAME, OUT_PLAIN, 0},
	};
	struct grid grid = {.columns = columns, .column_count = 3};
	fill(&grid);
	struct out out = {0};
	grid_print(&grid, &out, 1);
	CHECK_STR(text_string(&out.text),
		  "   bytes  blocks  name\n"
		  " 1.00 kB       5  short\n"
		  "    10 B   12345  │ a_function_with_a_rather_long_name\n");
	text_done(&out.text);
	/* Narrow: a column goes, and the name is cut but not its branch. */
	out = (struct out){.width = 30};
	grid_print(&grid, &out, 1);
	CHECK_STR(text_string(&out.text), "   bytes  name\n"
					  " 1.00 kB  short\n"
					  "    10 B  │ a_functi…long_name\n");
	text_done(&out.text);
	out = (struct out){.color = true};
	grid_print(&grid, &out, 0);
	CHECK_HAS(text_string(&out.text), "\033[36m1.00 kB\033[0m");
	text_done(&out.text);
	grid_done(&grid);
}

static void bars(void)
{
	CHECK_STR(plot_bar(0, 10, 4).text, "");
	CHECK_STR(plot_bar(10, 10, 4).text, "████");
	CHECK_STR(plot_bar(5, 10, 4).text, "██");
	CHECK_STR(plot_bar(1, 1000000, 4).text, "▏");
	CHECK_STR(plot_bar(1, 0, 4).text, "");
	CHECK_EQ_U64(strlen(plot_bar(UINT64_MAX, 1, 1000).text), PLOT_BAR_MAX * 3);
}

static void spark(void)
{
	static const uint64_t values[] = {0, 1, 500, 1000}, none[] = {0, 0};
	struct text text = {0};
	plot_spark(&text, values, 4);
	plot_spark(&text, none, 2);
	CHECK_STR(text_string(&text), " ▁▄█  ");
	text_done(&text);
}

static void curve(void)
{
	static const uint64_t values[] = {0, 1, 50, 100};
	struct out out = {0};
	plot_print(&(struct plot){.title = "Live",
				  .values = values,
				  .columns = 4,
				  .rows = 2,
				  .label = out_bytes,
				  .end_ns = 2000000000,
				  .mark = "100 B",
				  .mark_column = 3},
		   &out);
	/* Half of 100 fills the lower of two rows; 1 of 100 is still seen. */
	CHECK_STR(text_string(&out.text), "  Live\n"
					  "             ▼ 100 B\n"
					  "    100 B┤   █\n"
					  "     50 B┤ ▁██\n"
					  "        0└────\n"
					  "          0 ns\n");
	text_done(&out.text);
}

static const struct tap_case cases[] = {
	{.name = "long names stay recognisable when they are cut", .run = names},
	{.name = "full names are never cut", .run = full_names},
	{.name = "figures have units, or all their digits", .run = figures},
	{.name = "tables are aligned and fit the terminal", .run = tables},
	{.name = "bars are in proportion, and small ones are seen", .run = bars},
	{.name = "a curve of one line is in proportion", .run = spark},
	{.name = "curves are in proportion, with units on their axes", .run = curve},
};
TAP_MAIN(cases)
