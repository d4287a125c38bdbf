/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables for people: columns as wide as their cells, numbers at the right, and
 * the last column takes what is left of the line.
 *
 *	static const struct grid_column columns[] = {{"bytes", GRID_RIGHT}, {"name", GRID_NAME}};
 *	struct grid grid = {.columns = columns, .column_count = 2};
 *	grid_cell(&grid, "%s", units_bytes(n).text);
 *	grid_cell(&grid, "%s", name);
 *	grid_print(&grid, out, 2);
 *	grid_done(&grid);
 *
 * Want of memory shows in the text it is printed to.
 */
#pragma once

#include "cli/out.h"

enum grid_align {
	GRID_RIGHT,
	GRID_LEFT,
	GRID_NAME, /* the last: a function's name, cut in its middle to what is left; it
			may have branches of a tree before it, ended by a tab */
	GRID_TEXT, /* the last: cut at its end */
};

struct grid_column {
	const char *title; /* NULL = none */
	enum grid_align align;
	enum out_style style;
	unsigned screen; /* left out on terminals narrower than this; 0 = never */
};

struct grid {
	const struct grid_column *columns;
	size_t column_count;
	struct text cells; /* each ended by a NUL */
	size_t cell_count;
};

/* The next cell, from left to right, row by row: what printf makes of the rest. */
#define grid_cell(grid, ...) (text_print(&(grid)->cells, __VA_ARGS__), grid_end_cell(grid))
void grid_end_cell(struct grid *grid);
/* The titles, if there are any, and all rows. */
void grid_print(const struct grid *grid, struct out *out, unsigned indent);
void grid_done(struct grid *grid);
