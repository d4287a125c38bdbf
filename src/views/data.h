/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share of a loaded section. */
#pragma once

#include "views/names.h"
#include "views/views.h"

struct view_data {
	struct view_input input;
	struct names names;
	struct view_stack_row *rows; /* in order of appearance; stack = node */
	size_t row_count;
	bool borrows_names; /* frames and functions are another's */
	bool borrows_nodes; /* and so are the stacks, until they are folded */
};

static inline void view_figures_add(struct view_figures *sum, const struct view_figures *more)
{
	for (size_t i = 0; i < VIEW_FIGURE_COUNT; i++)
		sum->of[i] += more->of[i];
}

/*
 * Rows of figures by stack_id, added up where stacks are one node. Takes the
 * data's rows over when all were added.
 */
struct rows_builder {
	struct view_data *data;
	struct view_stack_row *rows;
	uint32_t *row_of; /* by node, plus 1; 0 = none yet */
	size_t count, room;
};
TM_MUST_CHECK int data_rows_begin(struct rows_builder *builder, struct view_data *data);
TM_MUST_CHECK int data_rows_add(struct rows_builder *builder, uint32_t node,
				const struct view_figures *figures);
/* Into the data, in place of its rows; or, after a failure, away with them. */
void data_rows_finish(struct rows_builder *builder, bool ok);

/* Fill functions of the views. */
int sites_fill(const struct view *view, const struct view_data *data, struct view_rows *ret_rows,
	       struct tm_error *err);
int groups_fill(const struct view *view, const struct view_data *data, struct view_rows *ret_rows,
		struct tm_error *err);
