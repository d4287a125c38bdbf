/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a stack, a function, a node: what they are called, and what belongs together. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum view_figure {
	VIEW_ALLOCATIONS,
	VIEW_ALLOCATED_BYTES,
	VIEW_FREES,
	VIEW_FREED_BYTES,
	VIEW_TEMPORARY,
	VIEW_FAILED,
	VIEW_PEAK_BLOCKS,
	VIEW_PEAK_BYTES,
	VIEW_UNFREED_BLOCKS, /* live at the end; of a range: at its end */
	VIEW_UNFREED_BYTES,
	VIEW_SURVIVING_BLOCKS, /* born in the range and live at its end */
	VIEW_SURVIVING_BYTES,
	VIEW_FIGURE_COUNT,
};
struct view_figures {
	uint64_t of[VIEW_FIGURE_COUNT];
};
enum view_unit { VIEW_UNIT_COUNT, VIEW_UNIT_BYTES };
struct view_column {
	const char *key;   /* in JSON and other exports */
	const char *title; /* for people, after a number */
	const char *one;   /* the same after a 1 */
	enum view_unit unit;
	enum view_figure partner; /* the bytes of these blocks, the blocks of these bytes; or
				     itself, if it has none */
};
/* By enum view_figure. */
extern const struct view_column view_columns[VIEW_FIGURE_COUNT];

/* Bytes per block of the pair that the figure belongs to, rounded; 0 without blocks. */
uint64_t view_average(const struct view_figures *figures, enum view_figure figure);

/* Which blocks of a range are looked at. */
struct view_mode {
	const char *name; /* "live", "allocated", "freed", "surviving", "peak" */
	const char *what; /* "what was live at the peak" */
	enum view_figure bytes, blocks;
};
extern const struct view_mode view_modes[];
extern const size_t view_mode_count;
/* NULL if there is none of that name. */
const struct view_mode *view_mode_find(const char *name);
