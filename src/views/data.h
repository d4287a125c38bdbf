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
};

static inline void view_figures_add(struct view_figures *sum, const struct view_figures *more)
{
	for (size_t i = 0; i < VIEW_FIGURE_COUNT; i++)
		sum->of[i] += more->of[i];
}

/* Fill functions of the views. */
int sites_fill(const struct view *view, const struct view_data *data, struct view_rows *ret_rows,
	       struct tm_error *err);
int functions_fill(const struct view *view, const struct view_data *data,
		   struct view_rows *ret_rows, struct tm_error *err);
