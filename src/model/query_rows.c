/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of an answer, by stack. */
#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "model/query_section.h"

enum { FIRST_ROWS = 256, FIGURES = sizeof(struct query_figures) / sizeof(uint64_t) };

int rows_init(struct answer_rows *rows, size_t stack_count)
{
	*rows = (struct answer_rows){.stack_count = stack_count};
	rows->row_of = tm_alloc_array(stack_count + 1, sizeof *rows->row_of);
	return rows->row_of ? 0 : -ENOMEM;
}

void rows_done(struct answer_rows *rows)
{
	tm_free(rows->rows);
	tm_free(rows->row_of);
	*rows = (struct answer_rows){0};
}

struct query_figures *rows_at(struct answer_rows *rows, uint32_t stack_id)
{
	if (stack_id >= rows->stack_count)
		stack_id = 0;
	if (rows->row_of[stack_id])
		return &rows->rows[rows->row_of[stack_id] - 1].figures;
	if (rows->count == rows->room) {
		size_t room = rows->room ? rows->room * 2 : FIRST_ROWS;
		void *grown = tm_grow_array(rows->rows, room, sizeof *rows->rows);
		if (!grown)
			return NULL;
		rows->rows = grown;
		rows->room = room;
	}
	rows->rows[rows->count] = (struct query_row){.stack_id = stack_id};
	rows->row_of[stack_id] = (uint32_t)++rows->count;
	return &rows->rows[rows->count - 1].figures;
}

static bool is_empty(const struct query_figures *figures)
{
	static const struct query_figures none;
	return !memcmp(figures, &none, sizeof none);
}

static void add_figures(struct query_figures *to, const struct query_figures *from)
{
	uint64_t sums[FIGURES], more[FIGURES];
	memcpy(sums, to, sizeof sums);
	memcpy(more, from, sizeof more);
	for (size_t i = 0; i < FIGURES; i++)
		sums[i] += more[i];
	memcpy(to, sums, sizeof sums);
}

/* Below zero where a range begins between the halves of a realloc that fails. */
static void settle_frees(struct query_figures *figures)
{
	if (figures->frees > UINT64_MAX / 2)
		figures->frees = 0;
	if (figures->freed_bytes > UINT64_MAX / 2)
		figures->freed_bytes = 0;
}

int answer_rows_finish(struct answer_rows *rows, struct query_answer *answer)
{
	struct query_row *sorted = tm_alloc_array(rows->count + 1, sizeof *sorted);
	if (!sorted)
		return -ENOMEM;
	size_t count = 0;
	answer->totals = (struct query_figures){0};
	for (size_t stack_id = 0; stack_id < rows->stack_count && rows->count; stack_id++) {
		if (!rows->row_of[stack_id])
			continue;
		struct query_row *row = &rows->rows[rows->row_of[stack_id] - 1];
		if (is_empty(&row->figures))
			continue;
		add_figures(&answer->totals, &row->figures);
		settle_frees(&row->figures);
		sorted[count++] = *row;
	}
	settle_frees(&answer->totals);
	answer->rows = sorted;
	answer->row_count = count;
	return 0;
}
