/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a lane's memory of frames (lane.h: struct memo) that unwind.c is made of. */
#pragma once

#include "agent/lane.h"

/*
 * Room for one more than `fresh` frames: by dropping the remembered ones that
 * are not among the first `kept`, or by doubling. False: no more room to be had.
 */
bool memo_room(struct memo *memo, uint32_t kept, uint32_t fresh);

/* A walk needed so many frames. After deep stacks: gives room back when it is not used any more. */
void memo_spare(struct memo *memo, uint32_t need);
enum { MEMO_SPARE_ROOM = 256 }; /* what is never given back */

/* Only the first `kept` frames stay. */
static inline void memo_drop(struct memo *memo, uint32_t kept)
{
	memo->count = kept;
	if (memo->cut_end > kept)
		memo->cut_end = 0;
}

/* An epoch that no frame and no tail has. */
uint32_t memo_epoch(struct memo *memo);

/* Where to write a tail with this tag; NULL: no memory. */
struct memo_tail *memo_tail_slot(struct memo *memo, uint32_t tag);

/* The remembered frame that owns word `bad`, searched from frame `from` towards the root. */
uint32_t memo_owner_of_word(const struct memo *memo, uint32_t from, uint32_t bad);

/* The remembered root end, if it still stands above a stack that is too deep to follow. */
uint32_t memo_root_end(struct lane *lane, uint64_t sp);

/* A frame that says: here frames are left out. */
void memo_push_mark(struct memo *memo);

/* Node ids for frames that hold module instances there; the first stands on node `base`. */
void memo_name(const struct memo *memo, struct memo_frame *frames, uint32_t count, uint32_t base);

/* More than `depth` frames: keep the root end, a mark, and the newer half of the rest. */
void memo_shorten(struct memo *memo);
