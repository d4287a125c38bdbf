/* SPDX-License-Identifier: Apache-2.0 */
#include "views/views.h"

#include <string.h>

#include "base/memory.h"
#include "views/data.h"

const struct view_column view_columns[VIEW_FIGURE_COUNT] = {
	[VIEW_ALLOCATIONS] = {"allocations", "allocations", "allocation", VIEW_UNIT_COUNT},
	[VIEW_ALLOCATED_BYTES] = {"allocated_bytes", "allocated", "allocated", VIEW_UNIT_BYTES},
	[VIEW_FREES] = {"frees", "frees", "free", VIEW_UNIT_COUNT},
	[VIEW_FREED_BYTES] = {"freed_bytes", "freed", "freed", VIEW_UNIT_BYTES},
	[VIEW_TEMPORARY] = {"temporary_allocations", "temporary", "temporary", VIEW_UNIT_COUNT},
	[VIEW_FAILED] = {"failed_allocations", "failed", "failed", VIEW_UNIT_COUNT},
	[VIEW_PEAK_BLOCKS] = {"peak_allocations", "blocks at the peak", "block at the peak",
			      VIEW_UNIT_COUNT},
	[VIEW_PEAK_BYTES] = {"peak_bytes", "at the peak", "at the peak", VIEW_UNIT_BYTES},
	[VIEW_UNFREED_BLOCKS] = {"unfreed_allocations", "unfreed blocks", "unfreed block",
				 VIEW_UNIT_COUNT},
	[VIEW_UNFREED_BYTES] = {"unfreed_bytes", "unfreed", "unfreed", VIEW_UNIT_BYTES},
};

const struct view view_list[] = {
	{
		.name = "peak",
		.title = "Sites by their share of the peak",
		.order = VIEW_PEAK_BYTES,
		.columns = {VIEW_PEAK_BYTES, VIEW_PEAK_BLOCKS},
		.column_count = 2,
		.fill = sites_fill,
	},
	{
		.name = "unfreed",
		.title = "Sites by what they left unfreed",
		.order = VIEW_UNFREED_BYTES,
		.columns = {VIEW_UNFREED_BYTES, VIEW_UNFREED_BLOCKS},
		.column_count = 2,
		.fill = sites_fill,
	},
	{
		.name = "allocations",
		.title = "Sites by number of allocations",
		.order = VIEW_ALLOCATIONS,
		.columns = {VIEW_ALLOCATIONS, VIEW_ALLOCATED_BYTES},
		.column_count = 2,
		.fill = sites_fill,
	},
	{
		.name = "temporary",
		.title = "Sites by temporary allocations",
		.order = VIEW_TEMPORARY,
		.columns = {VIEW_TEMPORARY, VIEW_ALLOCATIONS},
		.column_count = 2,
		.fill = sites_fill,
	},
	{
		.name = "functions",
		.title = "Functions by what was live at the peak below them",
		.order = VIEW_PEAK_BYTES,
		.columns = {VIEW_PEAK_BYTES, VIEW_ALLOCATED_BYTES, VIEW_ALLOCATIONS,
			    VIEW_UNFREED_BYTES},
		.column_count = 4,
		.fill = functions_fill,
	},
};
const size_t view_count = sizeof view_list / sizeof view_list[0];

const struct view *view_find(const char *name)
{
	for (size_t i = 0; i < view_count; i++)
		if (!strcmp(view_list[i].name, name))
			return &view_list[i];
	return NULL;
}

int view_fill(const struct view *view, const struct view_data *data, struct view_rows *ret_rows,
	      struct tm_error *err)
{
	return view->fill(view, data, ret_rows, err);
}

void view_rows_done(struct view_rows *rows)
{
	tm_free(rows->rows);
	tm_free(rows->stacks);
	*rows = (struct view_rows){0};
}
