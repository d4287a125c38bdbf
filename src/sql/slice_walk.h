/* SPDX-License-Identifier: Apache-2.0 */
/* One slice of the recording after the other, its rows copied so that a scan can pause. */
#pragma once

#include "sql/state.h"

struct slice_walk_row {
	uint32_t stack_id;
	uint64_t births, birth_bytes, deaths, death_bytes, temporary;
};

struct slice_walk {
	struct sql *sql;
	size_t next;
	struct trace_slice slice; /* without rows */
	struct slice_walk_row *rows;
	size_t row_count, row_room;
	bool with_rows;
};

void slice_walk_init(struct slice_walk *slices, struct sql *sql, bool with_rows);
void slice_walk_close(struct slice_walk *slices);
/* *ret_loaded false: there is no more. */
TM_MUST_CHECK int slice_walk_load(struct slice_walk *slices, bool *ret_loaded,
				  struct tm_error *err);
