/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How old the blocks are that an attached recording saw and nobody freed: what is
 * live at detach is mostly young, and what is old among it grows.
 */
#include "cli/grid.h"
#include "cli/report_put.h"
#include "cli/report_totals.h"

#define SECOND UINT64_C(1000000000)

static const struct {
	uint64_t below_ns;
	const char *words;
} ages[] = {
	{SECOND, "younger than 1 s"},     {10 * SECOND, "1 s to 10 s"},
	{60 * SECOND, "10 s to 1 min"},   {600 * SECOND, "1 min to 10 min"},
	{3600 * SECOND, "10 min to 1 h"}, {UINT64_MAX, "1 h and older"},
};
_Static_assert(sizeof ages / sizeof ages[0] == REPORT_AGES, "as many as the header says");

int report_ages(const struct report *report, struct report_age ret_ages[REPORT_AGES],
		struct tm_error *err)
{
	uint64_t end_ns = query_duration_ns(report->query);
	struct report_age before = {0};
	for (size_t i = 0; i < REPORT_AGES; i++) {
		/* Born after the moment that is so long ago: not the ones born at it. */
		bool all = ages[i].below_ns >= end_ns;
		struct query query = {
			.from_ns = all ? 0 : end_ns - ages[i].below_ns + 1000,
			.to_ns = end_ns,
			.want = QUERY_KEPT,
		};
		struct query_answer answer;
		int code = query_ask(report->query, &query, &answer, err);
		if (code)
			return code;
		ret_ages[i] = (struct report_age){
			.words = ages[i].words,
			.below_ns = ages[i].below_ns,
			.blocks = answer.totals.kept_blocks - before.blocks,
			.bytes = answer.totals.kept_bytes - before.bytes,
		};
		before.blocks = answer.totals.kept_blocks;
		before.bytes = answer.totals.kept_bytes;
		query_answer_done(&answer);
	}
	return 0;
}

int report_put_ages(const struct report *report, struct out *out, struct tm_error *err)
{
	struct report_age list[REPORT_AGES];
	if (!report_is_attached(report))
		return 0;
	int code = report_ages(report, list, err);
	if (code)
		return code;
	static const struct grid_column columns[] = {
		{NULL, GRID_LEFT, OUT_PLAIN, 0},
		{NULL, GRID_RIGHT, OUT_FIGURE, 0},
		{NULL, GRID_RIGHT, OUT_PLAIN, 0},
		{NULL, GRID_LEFT, OUT_PLAIN, 0},
	};
	struct grid grid = {.columns = columns, .column_count = 4};
	for (size_t i = 0; i < REPORT_AGES; i++) {
		if (!list[i].blocks)
			continue;
		grid_cell(&grid, "%s", list[i].words);
		grid_cell(&grid, "%s%s", out_bytes(out, list[i].bytes).text,
			  put_error(report, list[i].bytes, list[i].blocks).text);
		grid_cell(&grid, "%s", units_grouped(list[i].blocks).text);
		grid_cell(&grid, "block%s", put_plural(list[i].blocks));
	}
	grid_print(&grid, out, 13);
	grid_done(&grid);
	return 0;
}
