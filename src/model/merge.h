/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several sections as one.
 *
 *   pieces of one recording      | piece 1 | piece 2 | piece 3 |     one stream:
 *   (trace_meta.series_id)                                           the same as never cut
 *
 *   several processes            | A ------------------- |           a frame "process 17 sh"
 *                                      | B ------- |                 outside of all others
 *                                           | C ------------- |      says whose a stack is
 *
 * Streams are put beside each other by the wall clock, so that live memory and
 * the peak are those of all together, or all from time 0. A process that ends
 * gives its memory back: what it left is ended then by a thread "[exit]" of its
 * own, unless it is asked to stay.
 *
 * Known limits: of several processes addresses are left out (they are not unique
 * any more), and so are pauses and what brk did. Events that are damaged or not
 * stored are an error: sums would be wrong.
 */
#pragma once

#include "base/error.h"
#include "trace/trace.h"

enum merge_align { MERGE_ALIGN_AUTO, MERGE_ALIGN_WALL, MERGE_ALIGN_START };
enum merge_unfreed { MERGE_UNFREED_AUTO, MERGE_UNFREED_RELEASE, MERGE_UNFREED_KEEP };

struct merge_options {
	enum merge_align align;     /* AUTO: wall clock if they ran on one host, close together */
	enum merge_unfreed unfreed; /* AUTO: released by the wall clock, kept from the start */
	/* Now and then, events; may be NULL. Not 0 stops, with that value. */
	int (*progress)(void *ctx, uint64_t done, uint64_t all);
	void *ctx;
};

struct merge_result {
	size_t processes, pieces;
	uint64_t events;
	uint64_t joined_blocks;   /* live at a border between pieces, and matched */
	uint64_t released_blocks; /* left by processes that ended */
	bool by_wall_clock;
};

/* Whether the merged section can have addresses: all are pieces of one recording that has them. */
bool merge_keeps_addresses(struct trace_reader *const *readers, size_t count);

/*
 * Each reader has its section selected; a file with several needs a reader for each. Writes the
 * writer's next section. -ENODATA if events are missing, a piece is missing or does not fit to the
 * one before; -EINVAL for pieces given twice. O(events); memory of the live blocks and of a block
 * of events per process that runs.
 */
TM_MUST_CHECK int merge_sections(struct trace_reader *const *readers, size_t count,
				 struct trace_writer *w, const struct merge_options *options,
				 struct merge_result *ret, struct tm_error *err);
