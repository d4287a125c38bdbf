/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices of a file that may not grow for ever get coarser with age: two that
 * follow each other become one when slices take too much room, those first
 * whose common span is short beside how long ago it was.
 *
 *   | 0 .. 63 | 64 .. 95 | 96 .. 111 | 112 .. 119 | ... | 126 | 127 |
 *
 * Only slices whose events are folded are merged. Sums that end within a merged
 * slice say nothing any more and are given back; so are curves, when a newer one
 * has all slices. Used by the writing thread alone.
 */
#pragma once

#include "base/error.h"
#include "trace/bytes.h"
#include "trace/format.h"
#include "trace/records.h"
#include "trace/room.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AGES_STEPS = 4 }; /* at most so many after each batch of blocks */

struct ages_slice {
	uint64_t offset, bytes;
	uint64_t raw_bytes;
	uint64_t number; /* over all sections, of the last that it stands for */
	uint32_t section, first;
	bool stuck;               /* cannot be read again */
	struct trace_slice facts; /* slice_id: the last that it stands for */
};

/* SUMS or CURVE */
struct ages_block {
	uint64_t offset, bytes, ordinal;
	uint32_t section;
	uint8_t type;
};

struct ages {
	struct ages_slice *slices; /* in order */
	size_t count, room;
	struct ages_block *blocks;
	size_t block_count, block_room;
	uint64_t slice_bytes, written; /* slices, ever */
	size_t chosen;                 /* and the one after it: what ages_merge() merged */
	struct trace_slice merged;     /* the facts of both */
	uint32_t stale_section;
	size_t stale; /* slices of it that no curve has */
	bool off;     /* no memory: all stays as it is */
};

void ages_done(struct ages *ages);
/* A block lies there now: slices, sums and curves are remembered. */
void ages_note(struct ages *ages, const struct format_block_header *header, const struct bytes *raw,
	       uint64_t offset, uint64_t bytes);

enum ages_step {
	AGES_NOTHING, /* all is well, or cannot be helped */
	AGES_FOLD,    /* older events must be folded before slices can be merged */
	AGES_MERGED,  /* *ret_header and *ret_raw are to be written */
};
enum ages_step ages_merge(struct ages *ages, struct room *room, uint64_t sealed_end,
			  struct format_block_header *ret_header, struct bytes *ret_raw);
/* A CURVE of all slices, where too many of them are in none (or any is: all). False: not now. */
bool ages_curve(struct ages *ages, bool all, struct format_block_header *ret_header,
		struct bytes *ret_raw);
/* What was merged, or the curve, lies there: gives back what it replaces. 0 or -errno. */
TM_MUST_CHECK int ages_replaced(struct ages *ages, struct room *room,
				const struct format_block_header *header, uint64_t offset,
				uint64_t bytes);
