/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sound section from a damaged or unfinished one. Whole blocks are kept with
 * all they hold; what cannot be read is left out and counted.
 *
 * Slices are made anew from the events, cut where the old ones were. Only where
 * events are missing that the old slices count, and these are sound, the old
 * slices are kept as they are: their figures are exact, and new ones would not be.
 */
#pragma once

#include "model/model.h"
#include "trace/trace.h"

struct repair_options {
	/* Now and then; may be NULL. Not 0 stops, with that value. */
	int (*progress)(void *ctx, uint64_t done, uint64_t all);
	void *ctx;
};

struct repair_result {
	uint64_t events;      /* in the new section */
	uint64_t unread;      /* events of blocks that cannot be read or are missing */
	uint64_t not_stored;  /* of these: still in the figures */
	uint64_t ends_lost;   /* ends of blocks whose birth is lost: now frees of older blocks */
	bool kept_slices;     /* the old figures stand */
	bool no_meta, no_end; /* these were missing or damaged */
};

/*
 * Reads the selected section, writes it as the writer's next. -errno if it
 * cannot be read or written, or what progress() returned. O(events), twice;
 * memory of the live blocks.
 */
TM_MUST_CHECK int repair_section(struct trace_reader *r, struct trace_writer *w,
				 const struct repair_options *options, struct repair_result *ret,
				 struct tm_error *err);
