/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of old times in a file that may not grow for ever (room.h). Samples of
 * the program's memory get sparser with age: of two that follow each other the one
 * with the larger resident set stays. Calls that mapped memory are restated: what
 * they left behind, and what was there at the peaks, as few rows that lead to the
 * same (trace_restate_fn), and how many there were.
 *
 *   | 0 .. 999 | 1000 .. 1999 | 2000 .. 2999 |      three blocks of rows
 *   | 0 .. 1999, merged       | 2000 .. 2999 |      the first two are one, of fewer rows
 *
 * A merged block says which ordinals it stands for. Used by the writing thread
 * alone.
 */
#pragma once

#include "base/error.h"
#include "trace/bounds.h"
#include "trace/bytes.h"
#include "trace/format.h"
#include "trace/room.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct old_block {
	uint64_t offset, bytes;
	uint64_t first, end; /* ordinals that it stands for */
	uint64_t start_ns, end_ns;
	uint32_t section;
	uint8_t type;
	bool merged;
	bool stuck; /* cannot be read again */
};

struct old_rows {
	struct old_block *blocks; /* of each type and section in order */
	size_t count, room;
	uint64_t maps_bytes, samples_bytes;
	uint64_t vain_bytes; /* of maps, when restating them was of no use: not before twice that */
	size_t chosen, chosen_count; /* what old_rows_merge() merged; of one type and section */
	trace_restate_fn restate;    /* NULL: maps stay as they are */
	bool off;                    /* no memory: all stays as it is */
};

void old_rows_done(struct old_rows *old);
/* A block lies there now: those of rows are remembered. */
void old_rows_note(struct old_rows *old, const struct format_block_header *header, uint64_t offset,
		   uint64_t bytes);
/* Some blocks as one that is smaller, where they take too much room. False: nothing is to be done.
 */
bool old_rows_merge(struct old_rows *old, const struct room *room,
		    struct format_block_header *ret_header, struct bytes *ret_raw);
/* It lies there: gives back what it replaces. 0 or -errno. */
TM_MUST_CHECK int old_rows_replaced(struct old_rows *old, struct room *room,
				    const struct format_block_header *header, uint64_t offset,
				    uint64_t bytes);
