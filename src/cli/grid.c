/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/grid.h"

#include <string.h>

#include "base/utf8.h"

enum { COLUMNS_MAX = 16, GAP = 2, NAME_MIN = 16 };

void grid_end_cell(struct grid *grid)
{
	text_put_bytes(&grid->cells, "", 1);
	grid->cell_count++;
}

static bool is_shown(const struct grid_column *column, const struct out *out)
{
	return !column->screen || !out->width || out->width >= column->screen;
}

static bool has_titles(const struct grid *grid)
{
	for (size_t i = 0; i < grid->column_count; i++)
		if (grid->columns[i].title)
			return true;
	return false;
}

static void measure(const struct grid *grid, unsigned *widths)
{
	for (size_t i = 0; i < grid->column_count; i++) {
		const char *title = grid->columns[i].title;
		widths[i] = title ? (unsigned)utf8_count(title, strlen(title)) : 0;
	}
	const char *cell = text_string(&grid->cells);
	for (size_t i = 0; grid->column_count && i < grid->cell_count; i++) {
		size_t bytes = strlen(cell), column = i % grid->column_count;
		unsigned wide = (unsigned)utf8_count(cell, bytes);
		if (wide > widths[column])
			widths[column] = wide;
		cell += bytes + 1;
	}
}

/* What stands before a tab is never cut. */
static void put_name(struct out *out, const char *cell, unsigned room)
{
	const char *tab = strchr(cell, '\t');
	if (!tab) {
		out_function(out, cell, room);
		return;
	}
	unsigned before = (unsigned)utf8_count(cell, (size_t)(tab - cell));
	text_put_bytes(&out->text, cell, (size_t)(tab - cell));
	out_function(out, tab + 1, !room ? 0 : room > before + NAME_MIN ? room - before : NAME_MIN);
}

static void put_cell(struct out *out, const struct grid_column *column, const char *cell,
		     unsigned width, unsigned room, bool is_title)
{
	unsigned wide = (unsigned)utf8_count(cell, strlen(cell));
	unsigned pad = width > wide ? width - wide : 0;
	if (column->align == GRID_RIGHT)
		text_put_repeated(&out->text, ' ', pad);
	enum out_style style = !cell[0] ? OUT_PLAIN : is_title ? OUT_DIM : column->style;
	if (style != OUT_PLAIN)
		out_style(out, style);
	if (column->align == GRID_NAME)
		put_name(out, cell, room);
	else if (column->align == GRID_TEXT)
		out_start(out, cell, room);
	else
		out_name(out, cell, 0);
	if (style != OUT_PLAIN)
		out_style(out, OUT_PLAIN);
	if (column->align == GRID_LEFT)
		text_put_repeated(&out->text, ' ', pad);
}

struct layout {
	unsigned widths[COLUMNS_MAX];
	unsigned indent, room;
};

static void put_row(const struct grid *grid, struct out *out, const struct layout *layout,
		    const char *const *cells, bool is_title)
{
	unsigned gap = 0;
	text_put_repeated(&out->text, ' ', layout->indent);
	for (size_t i = 0; i < grid->column_count; i++) {
		if (!is_shown(&grid->columns[i], out))
			continue;
		text_put_repeated(&out->text, ' ', gap);
		put_cell(out, &grid->columns[i], cells[i], layout->widths[i], layout->room,
			 is_title);
		gap = GAP;
	}
	/* Blanks at the end would only wrap. */
	while (out->text.length && out->text.data[out->text.length - 1] == ' ')
		out->text.data[--out->text.length] = '\0';
	text_put_char(&out->text, '\n');
}

void grid_print(const struct grid *grid, struct out *out, unsigned indent)
{
	struct layout layout = {.indent = indent};
	const char *cells[COLUMNS_MAX];
	if (grid->cells.error && !out->text.error)
		out->text.error = grid->cells.error;
	if (out->text.error || !grid->column_count || grid->column_count > COLUMNS_MAX)
		return;
	measure(grid, layout.widths);
	unsigned used = indent;
	for (size_t i = 0; i + 1 < grid->column_count; i++)
		used += is_shown(&grid->columns[i], out) ? layout.widths[i] + GAP : 0;
	if (out->width)
		layout.room = out->width > used + NAME_MIN ? out->width - used : NAME_MIN;
	for (size_t i = 0; i < grid->column_count; i++)
		cells[i] = grid->columns[i].title ? grid->columns[i].title : "";
	if (has_titles(grid))
		put_row(grid, out, &layout, cells, true);
	const char *cell = text_string(&grid->cells);
	for (size_t i = 0; i < grid->cell_count; i++) {
		cells[i % grid->column_count] = cell;
		cell += strlen(cell) + 1;
		if ((i + 1) % grid->column_count == 0)
			put_row(grid, out, &layout, cells, false);
	}
}

void grid_done(struct grid *grid)
{
	text_done(&grid->cells);
	grid->cell_count = 0;
}
