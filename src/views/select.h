/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a part of the run: what a query answered becomes the figures of all views. */
#pragma once

#include "model/query.h"
#include "views/views.h"

/* As the views have them. */
struct view_figures view_figures_of(const struct query_figures *figures);

/*
 * Replaces the figures of all stacks by those of the answer; stacks that it does
 * not name are gone. Figures that were not asked for (the peak, what survives)
 * are 0. Before view_data_fold(). On failure the data is as it was. -ENOMEM.
 */
TM_MUST_CHECK int view_data_select(struct view_data *data, const struct query_answer *answer,
				   struct tm_error *err);
/*
 * The same stacks with figures of their own, none at first, for view_data_select(). Borrows the
 * names of `whole`, which must outlive it and must not be folded. O(1). -ENOMEM.
 */
TM_MUST_CHECK int view_data_share(const struct view_data *whole, struct view_data **ret_data,
				  struct tm_error *err);
