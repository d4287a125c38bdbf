/* SPDX-License-Identifier: Apache-2.0 */
/* Sites: all stacks of one allocating function together, with its largest stacks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sort.h"
#include "views/data.h"

/* Equal figures fall back to the stack's number, so that two runs print alike. */
static int by_size(const void *left, const void *right, void *ctx)
{
	const struct view_stack_row *a = left, *b = right;
	enum view_figure order = *(const enum view_figure *)ctx;
	if (a->figures.of[order] != b->figures.of[order])
		return a->figures.of[order] > b->figures.of[order] ? -1 : 1;
	return (a->stack > b->stack) - (a->stack < b->stack);
}

/*
 * Stacks that count for this view, by site, each site's by size. `place` has a number for each
 * site and two more, all 0. Returns how many.
 */
static size_t select_stacks(const struct view_data *data, enum view_figure order, uint32_t *place,
			    struct view_stack_row *stacks)
{
	size_t sites = data->names.function_count + 1;
	for (size_t i = 0; i < data->row_count; i++)
		place[data->rows[i].site + 1] += data->rows[i].figures.of[order] > 0;
	for (size_t i = 0; i < sites; i++)
		place[i + 1] += place[i];
	size_t count = place[sites];
	for (size_t i = 0; i < data->row_count; i++)
		if (data->rows[i].figures.of[order])
			stacks[place[data->rows[i].site]++] = data->rows[i];
	/* Now each place is the end of its site. */
	for (size_t i = 0, begin = 0; i < sites; begin = place[i++])
		sort_array(stacks + begin, place[i] - begin, sizeof *stacks, by_size, &order);
	return count;
}

static size_t count_sites(const struct view_stack_row *stacks, size_t count)
{
	size_t sites = 0;
	for (size_t i = 0; i < count; i++)
		sites += i == 0 || stacks[i].site != stacks[i - 1].site;
	return sites;
}

static const char no_frames[] = "[no stack]";

static struct view_row site_row(const struct view_data *data, const struct view_stack_row *stack)
{
	if (!stack->stack)
		return (struct view_row){.function = no_frames, .module = "[mark]"};
	const struct names_function *function = &data->names.functions[stack->site];
	return (struct view_row){.function = function->function, .module = function->module};
}

/*
 * A site's figures are those of all its stacks, also of stacks that have none of
 * the figure that the view is about.
 */
static void add_figures(const struct view_data *data, struct view_rows *rows, uint32_t *row_of_site)
{
	for (size_t i = 0; i < rows->count; i++)
		row_of_site[rows->rows[i].stacks->site] = (uint32_t)i + 1;
	for (size_t i = 0; i < data->row_count; i++) {
		uint32_t row = row_of_site[data->rows[i].site];
		if (row)
			view_figures_add(&rows->rows[row - 1].self, &data->rows[i].figures);
	}
}

int sites_fill(const struct view *view, const struct view_data *data, struct view_rows *ret_rows,
	       struct tm_error *err)
{
	struct view_rows rows = {0};
	rows.stacks = tm_alloc_array(data->row_count, sizeof *rows.stacks);
	uint32_t *place = tm_alloc_array(data->names.function_count + 2, sizeof *place);
	bool ok = rows.stacks && place;
	size_t stack_count = ok ? select_stacks(data, view->order, place, rows.stacks) : 0;
	tm_free(place);
	rows.rows = tm_alloc_array(count_sites(rows.stacks, stack_count), sizeof *rows.rows);
	uint32_t *row_of_site = tm_alloc_array(data->names.function_count + 1, sizeof(uint32_t));
	if (!ok || !rows.rows || !row_of_site) {
		tm_free(row_of_site);
		view_rows_done(&rows);
		return tm_fail(err, -ENOMEM, "out of memory");
	}
	for (size_t i = 0; i < stack_count; i++) {
		if (i == 0 || rows.stacks[i].site != rows.stacks[i - 1].site) {
			rows.rows[rows.count] = site_row(data, &rows.stacks[i]);
			rows.rows[rows.count++].stacks = &rows.stacks[i];
		}
		rows.rows[rows.count - 1].stack_count++;
	}
	add_figures(data, &rows, row_of_site);
	tm_free(row_of_site);
	view_rows_sort(&rows, view);
	*ret_rows = rows;
	return 0;
}
