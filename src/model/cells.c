/* SPDX-License-Identifier: Apache-2.0 */
#include "model/cells.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"

enum { FIRST_ROOM = 1024 };

void cells_done(struct cell_table *table)
{
	tm_free(table->cells);
	*table = (struct cell_table){0};
}

int cells_reserve(struct cell_table *table, size_t more)
{
	if (table->count + more <= table->room / 4 * 3)
		return 0;
	struct cell_table wider = {.room = table->room ? table->room : FIRST_ROOM};
	while (table->count + more > wider.room / 4 * 3)
		wider.room *= 2;
	wider.cells = tm_alloc_array(wider.room, sizeof *wider.cells);
	if (!wider.cells)
		return -ENOMEM;
	for (size_t i = 0; i < table->room; i++) {
		const struct cell *cell = &table->cells[i];
		if (cell->key)
			cells_add(&wider, cell->key - 1, cell->count, cell->bytes);
	}
	tm_free(table->cells);
	*table = wider;
	return 0;
}

void cells_clear(struct cell_table *table)
{
	if (table->count)
		memset(table->cells, 0, table->room * sizeof *table->cells);
	table->count = 0;
}
