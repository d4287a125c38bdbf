/* SPDX-License-Identifier: Apache-2.0 */
#include "sql/slice_walk.h"

#include <errno.h>

#include "base/memory.h"

void slice_walk_init(struct slice_walk *slices, struct sql *sql, bool with_rows)
{
	*slices = (struct slice_walk){.sql = sql, .with_rows = with_rows};
}

void slice_walk_close(struct slice_walk *slices)
{
	tm_free(slices->rows);
	*slices = (struct slice_walk){0};
}

static struct slice_walk_row copy_row(const struct trace_slice_row *from)
{
	struct slice_walk_row row = {
		.stack_id = from->stack_id,
		.births = from->births,
		.birth_bytes = from->birth_bytes,
		.temporary = from->temporary,
	};
	for (uint32_t i = 0; i < from->death_count; i++) {
		row.deaths += from->deaths[i].count;
		row.death_bytes += from->deaths[i].bytes;
	}
	return row;
}

static int copy_slice(void *ctx, const struct trace_slice *slice)
{
	struct slice_walk *slices = ctx;
	slices->slice = *slice;
	slices->slice.rows = NULL;
	slices->row_count = 0;
	if (!slices->with_rows)
		return 0;
	if (slice->row_count > slices->row_room) {
		void *grown = tm_grow_array(slices->rows, slice->row_count, sizeof *slices->rows);
		if (!grown)
			return -ENOMEM;
		slices->rows = grown;
		slices->row_room = slice->row_count;
	}
	for (uint32_t i = 0; i < slice->row_count; i++)
		slices->rows[slices->row_count++] = copy_row(&slice->rows[i]);
	return 0;
}

int slice_walk_load(struct slice_walk *slices, bool *ret_loaded, struct tm_error *err)
{
	size_t count = trace_reader_slice_count(slices->sql->reader);
	*ret_loaded = false;
	if (slices->next >= count)
		return 0;
	int code = sql_tell(slices->sql, slices->next, count, err);
	if (!code)
		code = trace_reader_slice_range(slices->sql->reader, slices->next, 1, copy_slice,
						slices, err);
	slices->next++;
	*ret_loaded = code == 0;
	return code == -ENOMEM ? tm_fail(err, code, "out of memory") : code;
}
