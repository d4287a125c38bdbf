/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of a section as a trace of its own: the events from from_ns to to_ns,
 * both included. Blocks that live when the part begins come first, as
 * allocations at time 0 with their stack, size, thread and address; the part's
 * own time begins at TRIM_START_NS, so that the range from there on has exactly
 * the figures that the same range has in the whole trace.
 *
 *   time 0               TRIM_START_NS                                end
 *   | inherited blocks   | events from from_ns on ...      to_ns      |
 *   | slice 0            | slices 1, 2, ...                           |
 *
 * Known limits: an inherited block's age counts from time 0, so its lifetime is
 * a lower bound. A thread whose only inherited block is not what it allocated
 * last, and which frees it first of all, gets one free of an older block at
 * time 0, or that block would seem temporary.
 */
#pragma once

#include "model/model.h"
#include "trace/trace.h"

enum { TRIM_START_NS = 1000 };

struct trim_options {
	uint64_t from_ns, to_ns;
	/* Now and then; may be NULL. Events. Not 0 stops, with that value. */
	int (*progress)(void *ctx, uint64_t done, uint64_t all);
	void *ctx;
};

struct trim_result {
	uint64_t events; /* of the part */
	uint64_t inherited_blocks, inherited_bytes;
};

/*
 * Reads the selected section, writes the writer's next. -ENODATA if events that
 * it needs are damaged or not stored; -EINVAL for a part outside the run.
 * O(events up to to_ns); memory of the live blocks.
 */
TM_MUST_CHECK int trim_section(struct trace_reader *r, struct trace_writer *w,
			       const struct trim_options *options, struct trim_result *ret,
			       struct tm_error *err);
