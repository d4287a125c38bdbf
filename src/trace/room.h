/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room in a file that may not grow for ever. Blocks of events that are older
 * than wanted, or more than fit, are given back: a GAP block takes their place,
 * and later blocks are written into it.
 *
 *   | BEGIN | STACKS | EVENTS | GAP ........ | SLICE | EVENTS | EVENTS |   hole   | journal |
 *                              ^ folded events       ^ the oldest that is left
 *
 * Events are given back only when a slice has them: the figures lose nothing.
 * At any moment a reader that hops from header to header meets only whole
 * blocks: a gap is split before its begin is used, and the header of a block
 * that goes into it is written last. Used by the writing thread alone.
 */
#pragma once

#include "base/error.h"
#include "trace/bytes.h"
#include "trace/format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct room_gap {
	uint64_t offset, bytes;
};

/* A block of events, or what belongs to one. */
struct room_block {
	uint64_t offset, bytes;
	uint64_t time_ns;                          /* of its last event, over all sections */
	uint64_t start_ns, first_event, end_event; /* in its section */
	uint32_t section, events;                  /* 0: it only belongs to one */
};

struct room {
	int fd;
	uint64_t file_id;
	bool active;
	bool no_growth; /* the disk is nearly full: only what must be is added at the end */
	uint64_t keep_ns, limit_bytes; /* 0: no such bound */
	struct room_gap *gaps;         /* by offset */
	size_t gap_count, gap_room;
	uint64_t gap_bytes;
	struct room_block *blocks; /* from `first` on, oldest first */
	size_t first, count, block_room;
	uint64_t block_total;      /* blocks that are there: the index will need room for them */
	uint64_t event_bytes;      /* of these, in `blocks` */
	uint64_t now_ns;           /* of the newest event, over all sections */
	uint64_t base_ns, last_ns; /* start of the open section there; its newest event */
	uint32_t section;
	uint64_t stored;  /* one past the last event of the open section that was written */
	uint64_t covered; /* events of the open section that slices have */
	uint64_t uncovered_bytes;
	uint64_t folded; /* events of the open section that were given back */
};

/* Gives everything back that was allocated. */
void room_done(struct room *room);
/* Of the limit, what is left for blocks beside the index at the end. */
uint64_t room_usable(const struct room *room);
/*
 * Where a block of so many bytes goes: *ret_offset is in a gap, or the end. False: it
 * does not fit within the limit (never said of what must be kept).
 */
bool room_place(struct room *room, uint64_t bytes, bool must_keep, uint64_t sealed_end,
		uint64_t *ret_offset);
/* Puts a packed block there; 0 or -errno. */
TM_MUST_CHECK int room_write(struct room *room, uint64_t offset, const uint8_t *block,
			     uint64_t bytes, bool at_end);
/* A block lies there now. -ENOMEM. */
TM_MUST_CHECK int room_note(struct room *room, const struct format_block_header *header,
			    uint64_t offset, uint64_t bytes);
/* Slices have the events of the open section up to here. */
void room_cover(struct room *room, uint64_t end_event);
/* Gives back what is too old. 0 or -errno. */
TM_MUST_CHECK int room_fold(struct room *room);
/* Gives back the block of events that is oldest, whatever its age. False: there is none. */
bool room_fold_one(struct room *room, int *ret_error);
/* Gives a block back. 0 or -errno. */
TM_MUST_CHECK int room_give(struct room *room, uint64_t offset, uint64_t bytes);
/* A block that was written there, unpacked; false if it is not as it was written. */
bool room_read(const struct room *room, uint64_t offset, uint64_t bytes,
	       struct format_block_header *ret_header, struct bytes *raw);
/* A slice would make much of it foldable. */
bool room_wants_slice(const struct room *room);
/* The first event of a section that is there one by one; UINT64_MAX: none will ever be. */
uint64_t room_first_event(const struct room *room, uint32_t section);
/* When single events of the open section begin; UINT64_MAX: there are none. */
uint64_t room_since(const struct room *room);
