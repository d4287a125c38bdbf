/* SPDX-License-Identifier: Apache-2.0 */
#include "views/figures.h"

#include <stdbool.h>
#include <string.h>

#define COUNT(figure, key, title, one, partner) \
	[figure] = {key, title, one, VIEW_UNIT_COUNT, partner}
#define BYTES(figure, key, title, partner) [figure] = {key, title, title, VIEW_UNIT_BYTES, partner}

const struct view_column view_columns[VIEW_FIGURE_COUNT] = {
	COUNT(VIEW_ALLOCATIONS, "allocations", "allocations", "allocation", VIEW_ALLOCATED_BYTES),
	BYTES(VIEW_ALLOCATED_BYTES, "allocated_bytes", "allocated", VIEW_ALLOCATIONS),
	COUNT(VIEW_FREES, "frees", "frees", "free", VIEW_FREED_BYTES),
	BYTES(VIEW_FREED_BYTES, "freed_bytes", "freed", VIEW_FREES),
	COUNT(VIEW_TEMPORARY, "temporary_allocations", "temporary", "temporary", VIEW_TEMPORARY),
	COUNT(VIEW_FAILED, "failed_allocations", "failed", "failed", VIEW_FAILED),
	COUNT(VIEW_PEAK_BLOCKS, "peak_allocations", "blocks at the peak", "block at the peak",
	      VIEW_PEAK_BYTES),
	BYTES(VIEW_PEAK_BYTES, "peak_bytes", "at the peak", VIEW_PEAK_BLOCKS),
	COUNT(VIEW_UNFREED_BLOCKS, "unfreed_allocations", "unfreed blocks", "unfreed block",
	      VIEW_UNFREED_BYTES),
	BYTES(VIEW_UNFREED_BYTES, "unfreed_bytes", "unfreed", VIEW_UNFREED_BLOCKS),
	COUNT(VIEW_SURVIVING_BLOCKS, "surviving_allocations", "surviving blocks", "surviving block",
	      VIEW_SURVIVING_BYTES),
	BYTES(VIEW_SURVIVING_BYTES, "surviving_bytes", "surviving", VIEW_SURVIVING_BLOCKS),
};

const struct view_mode view_modes[] = {
	{"live", "what was live at the end", VIEW_UNFREED_BYTES, VIEW_UNFREED_BLOCKS},
	{"allocated", "what was allocated", VIEW_ALLOCATED_BYTES, VIEW_ALLOCATIONS},
	{"freed", "what was freed", VIEW_FREED_BYTES, VIEW_FREES},
	{"surviving", "what was allocated and survived", VIEW_SURVIVING_BYTES,
	 VIEW_SURVIVING_BLOCKS},
	{"peak", "what was live at the peak", VIEW_PEAK_BYTES, VIEW_PEAK_BLOCKS},
};
const size_t view_mode_count = sizeof view_modes / sizeof view_modes[0];

uint64_t view_average(const struct view_figures *figures, enum view_figure figure)
{
	enum view_figure partner = view_columns[figure].partner;
	bool counts = view_columns[figure].unit == VIEW_UNIT_COUNT;
	uint64_t blocks = figures->of[counts ? figure : partner];
	uint64_t bytes = figures->of[counts ? partner : figure];
	if (partner == figure || !blocks)
		return 0;
	return bytes / blocks + (bytes % blocks >= blocks - bytes % blocks);
}

const struct view_mode *view_mode_find(const char *name)
{
	for (size_t i = 0; i < view_mode_count; i++)
		if (!strcmp(view_modes[i].name, name))
			return &view_modes[i];
	return NULL;
}
