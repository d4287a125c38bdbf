/* SPDX-License-Identifier: Apache-2.0 */
/* Which modules lack names or lines, how much that matters, and what would help. */
#pragma once

#include "symbols/cure.h"
#include "views/views.h"

struct view_missing_row {
	const char *module;        /* path, "[anonymous]"; borrowed */
	const uint8_t *build_id;   /* borrowed */
	uint32_t build_id_bytes;   /* 0 = it has none */
	uint64_t unnamed_bytes;    /* allocated by stacks with a frame of it that has no name */
	uint64_t unlined_bytes;    /* with a frame that has no line */
	uint64_t unnamed, unlined; /* frames, each once */
	enum cure cure;
};

struct view_missing {
	struct view_missing_row *rows; /* those without names first, the largest first */
	size_t count;
	uint64_t bytes;         /* allocated in all */
	uint64_t unnamed_bytes; /* by stacks with any frame without a name */
	uint64_t unlined_bytes; /* or without a line */
};

/*
 * Frames of allocators, and start-up code outside of main, do not count. O(nodes and
 * stacks). -ENOMEM.
 */
TM_MUST_CHECK int view_missing(const struct view_data *data, const struct view_input *input,
			       struct view_missing *ret_missing, struct tm_error *err);
void view_missing_done(struct view_missing *missing);
