/* SPDX-License-Identifier: Apache-2.0 */
#include "views/views.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sort.h"
#include "views/data.h"

#define SITES(view_name, view_title, first, second)                                \
	{                                                                          \
		.name = view_name, .title = view_title, .order = first,            \
		.columns = {first, second}, .column_count = 2, .fill = sites_fill, \
	}
#define FLAT(view_name, view_title, by)                                              \
	{                                                                            \
		.name = view_name, .title = view_title, .order = VIEW_PEAK_BYTES,    \
		.columns = {VIEW_PEAK_BYTES, VIEW_ALLOCATED_BYTES, VIEW_ALLOCATIONS, \
			    VIEW_UNFREED_BYTES},                                     \
		.column_count = 4, .flat = true, .group = by, .fill = groups_fill,   \
	}

const struct view view_list[] = {
	SITES("peak", "Sites by their share of the peak", VIEW_PEAK_BYTES, VIEW_PEAK_BLOCKS),
	SITES("unfreed", "Sites by what they left unfreed", VIEW_UNFREED_BYTES,
	      VIEW_UNFREED_BLOCKS),
	SITES("allocations", "Sites by number of allocations", VIEW_ALLOCATIONS,
	      VIEW_ALLOCATED_BYTES),
	SITES("temporary", "Sites by temporary allocations", VIEW_TEMPORARY, VIEW_ALLOCATIONS),
	SITES("allocated", "Sites by allocated bytes", VIEW_ALLOCATED_BYTES, VIEW_ALLOCATIONS),
	SITES("freed", "Sites by freed bytes", VIEW_FREED_BYTES, VIEW_FREES),
	SITES("surviving", "Sites by what was allocated and survived", VIEW_SURVIVING_BYTES,
	      VIEW_SURVIVING_BLOCKS),
	FLAT("functions", "Functions", VIEW_GROUP_FUNCTION),
	FLAT("lines", "Source lines", VIEW_GROUP_LINE),
	FLAT("packages", "Packages", VIEW_GROUP_PACKAGE),
	FLAT("modules", "Modules", VIEW_GROUP_MODULE),
	FLAT("allocators", "Allocators", VIEW_GROUP_ALLOCATOR),
	FLAT("heaps", "Heaps", VIEW_GROUP_HEAP),
	FLAT("tags", "Tags", VIEW_GROUP_TAG),
	FLAT("processes", "Processes", VIEW_GROUP_PROCESS),
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

bool view_is_process(const struct view_frame *frame)
{
	return frame->module && !strcmp(frame->module, "[process]");
}

/* ---- order ---- */

static uint64_t sort_figure(const struct view *view, const struct view_row *row)
{
	const struct view_figures *figures = view->flat ? &row->inclusive : &row->self;
	switch (view->sort) {
	case VIEW_SORT_FIGURE:
		return figures->of[view->order];
	case VIEW_SORT_SELF:
		return row->self.of[view->order];
	case VIEW_SORT_AVERAGE:
		return view_average(figures, view->order);
	case VIEW_SORT_NAME:
		return 0;
	}
	return 0;
}

static int by_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

static int by_name(const struct view_row *a, const struct view_row *b)
{
	int order = by_text(a->package, b->package);
	if (!order)
		order = by_text(a->function, b->function);
	if (!order)
		order = by_text(a->module, b->module);
	if (!order)
		order = by_text(a->file, b->file);
	return order ? order : (a->line > b->line) - (a->line < b->line);
}

static int compare_rows(const void *left, const void *right, void *ctx)
{
	const struct view_row *a = left, *b = right;
	const struct view *view = ctx;
	uint64_t x = sort_figure(view, a), y = sort_figure(view, b);
	if (x == y && view->flat && view->sort != VIEW_SORT_NAME) {
		x = a->inclusive.of[VIEW_ALLOCATED_BYTES];
		y = b->inclusive.of[VIEW_ALLOCATED_BYTES];
	}
	return x != y ? (x > y ? -1 : 1) : by_name(a, b);
}

void view_rows_sort(struct view_rows *rows, const struct view *view)
{
	struct view by = *view;
	size_t first = view->sorted ? view->sorted : rows->count;
	if (rows->count > 1)
		sort_array_first(rows->rows, rows->count, first, sizeof *rows->rows, compare_rows,
				 &by);
}

void view_rows_done(struct view_rows *rows)
{
	tm_free(rows->rows);
	tm_free(rows->stacks);
	*rows = (struct view_rows){0};
}

/* What the row is called that has the stacks without any of the group. */
static const char *name_without(enum view_group group)
{
	switch (group) {
	case VIEW_GROUP_ALLOCATOR:
		return "[called directly]";
	case VIEW_GROUP_HEAP:
		return "[malloc and its kin]";
	case VIEW_GROUP_TAG:
		return "[no tag]";
	case VIEW_GROUP_FUNCTION:
	case VIEW_GROUP_LINE:
	case VIEW_GROUP_PACKAGE:
	case VIEW_GROUP_MODULE:
	case VIEW_GROUP_PROCESS:
		break;
	}
	return NULL;
}

void view_row_name(struct text *out, const struct view *view, const struct view_row *row)
{
	bool by_module = view->flat && view->group == VIEW_GROUP_MODULE;
	bool by_package = view->flat && view->group == VIEW_GROUP_PACKAGE;
	const char *without = view->flat ? name_without(view->group) : NULL;
	if (by_package)
		text_put(out, row->package && row->package[0] ? row->package : "[unknown]");
	else if (by_module)
		text_put(out, view_module_name(row->module));
	else if (row->function)
		text_put(out, row->function);
	else if (without)
		text_put(out, without);
	else if (!row->file)
		text_print(out, "[functions without a name in %s]", view_module_name(row->module));
	if (row->file)
		text_print(out, "%s%s:%" PRIu32, row->function ? " " : "",
			   view_module_name(row->file), row->line);
}
