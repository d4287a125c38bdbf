/* SPDX-License-Identifier: Apache-2.0 */
/* Every function, with what it allocated itself and what was allocated below it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "views/data.h"

static int by_inclusive(const void *left, const void *right)
{
	const struct view_row *a = left, *b = right;
	static const enum view_figure orders[] = {VIEW_PEAK_BYTES, VIEW_ALLOCATED_BYTES};
	for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
		uint64_t a_figure = a->inclusive.of[orders[i]],
			 b_figure = b->inclusive.of[orders[i]];
		if (a_figure != b_figure)
			return a_figure > b_figure ? -1 : 1;
	}
	int names = strcmp(a->function ? a->function : "", b->function ? b->function : "");
	return names ? names : strcmp(a->module, b->module);
}

/* seen[function] == stack number: a function that recurs on a stack counts once. */
static void add_stack(const struct view_data *data, const struct view_stack_row *stack,
		      struct view_row *rows, uint32_t *seen)
{
	const struct view_frame *frame;
	uint32_t cursor = stack->stack;
	if (cursor)
		view_figures_add(&rows[stack->site].self, &stack->figures);
	while ((frame = view_next_frame(data, &cursor))) {
		if (seen[frame->function_id] == stack->stack)
			continue;
		seen[frame->function_id] = stack->stack;
		view_figures_add(&rows[frame->function_id].inclusive, &stack->figures);
	}
}

static bool is_used(const struct view_row *row)
{
	return row->inclusive.of[VIEW_ALLOCATIONS] || row->inclusive.of[VIEW_FAILED];
}

int functions_fill(const struct view *view, const struct view_data *data,
		   struct view_rows *ret_rows, struct tm_error *err)
{
	(void)view;
	const struct names *names = &data->names;
	struct view_rows rows = {0};
	rows.rows = tm_alloc_array(names->function_count, sizeof *rows.rows);
	uint32_t *seen = tm_alloc_array(names->function_count, sizeof *seen);
	if (!rows.rows || !seen) {
		tm_free(seen);
		tm_free(rows.rows);
		return tm_fail(err, -ENOMEM, "out of memory");
	}
	for (size_t i = 0; i < names->function_count; i++) {
		rows.rows[i].function = names->functions[i].function;
		rows.rows[i].module = names->functions[i].module;
	}
	for (size_t i = 0; i < data->row_count; i++)
		add_stack(data, &data->rows[i], rows.rows, seen);
	for (size_t i = 0; i < names->function_count; i++)
		if (is_used(&rows.rows[i]))
			rows.rows[rows.count++] = rows.rows[i];
	tm_free(seen);
	qsort(rows.rows, rows.count, sizeof *rows.rows, by_inclusive);
	*ret_rows = rows;
	return 0;
}
