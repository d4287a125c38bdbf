/* SPDX-License-Identifier: Apache-2.0 */
#include "views/select.h"

#include <errno.h>

#include "base/memory.h"
#include "views/data.h"

struct view_figures view_figures_of(const struct query_figures *figures)
{
	return (struct view_figures){{
		[VIEW_ALLOCATIONS] = figures->allocations,
		[VIEW_ALLOCATED_BYTES] = figures->allocated_bytes,
		[VIEW_FREES] = figures->frees,
		[VIEW_FREED_BYTES] = figures->freed_bytes,
		[VIEW_TEMPORARY] = figures->temporary,
		[VIEW_FAILED] = figures->failed,
		[VIEW_PEAK_BLOCKS] = figures->peak_blocks,
		[VIEW_PEAK_BYTES] = figures->peak_bytes,
		[VIEW_UNFREED_BLOCKS] = figures->end_blocks,
		[VIEW_UNFREED_BYTES] = figures->end_bytes,
		[VIEW_SURVIVING_BLOCKS] = figures->kept_blocks,
		[VIEW_SURVIVING_BYTES] = figures->kept_bytes,
	}};
}

int view_data_select(struct view_data *data, const struct query_answer *answer,
		     struct tm_error *err)
{
	struct rows_builder builder;
	int code = data_rows_begin(&builder, data);
	for (size_t i = 0; !code && i < answer->row_count; i++) {
		uint32_t stack_id = answer->rows[i].stack_id;
		bool known = stack_id < data->input.stack_count;
		struct view_figures figures = view_figures_of(&answer->rows[i].figures);
		code = data_rows_add(&builder, known ? data->names.node_of[stack_id] : 0, &figures);
	}
	data_rows_finish(&builder, !code);
	return code ? tm_fail(err, code, "out of memory") : 0;
}

int view_data_share(const struct view_data *whole, struct view_data **ret_data,
		    struct tm_error *err)
{
	struct view_data *data = tm_alloc(sizeof *data);
	if (!data)
		return tm_fail(err, -ENOMEM, "out of memory");
	data->input = whole->input;
	data->names = whole->names;
	data->borrows_names = data->borrows_nodes = true;
	*ret_data = data;
	return 0;
}
