/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of a range in order, as moves of blocks: each begins, and ends with
 * the stack and size it began with. For formats that tell a history. Only blocks
 * that begin in the range are told of; older ones are not.
 *
 * Memory: a few decoded blocks of events; where a filter looks at more than stacks
 * a bit per block that begins in the range.
 */
#pragma once

#include "export/export.h"

enum move_kind {
	MOVE_BEGIN,
	MOVE_END,
	MOVE_RETURN, /* a realloc failed: the block that it had ended lives on */
};

struct move {
	enum move_kind kind;
	uint64_t time_ns, block_id;
	uint64_t count, size_bytes; /* what it stands for: 1 and its size, unless it is sampled */
	uint32_t stack_id;          /* of the allocation */
	uint32_t thread_id;         /* that did it */
};

/* Not 0 stops with that value. */
typedef int (*move_fn)(void *ctx, const struct move *move);

/* -ENODATA: an imported file has no events. -EINVAL: the filter looks at what is known only when a
 * block has ended. */
TM_MUST_CHECK int moves_run(const struct export_input *input, move_fn fn, void *ctx,
			    struct tm_error *err);
