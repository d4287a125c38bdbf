/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a lane's memory of frames (lane.h: struct memo) that unwind.c is made of. */
#pragma once

#include "agent/lane.h"

/*
 * Doubles the room; the `kept` remembered frames stay at the bottom, the
 * `fresh` ones at the top. False: no more room to be had.
 */
bool memo_grow(struct memo *memo, uint32_t kept, uint32_t fresh);

/* The remembered frame that owns word `bad`, searched from frame `from` towards the root. */
uint32_t memo_owner_of_word(const struct memo *memo, uint32_t from, uint32_t bad);

/* The remembered root end, if it still stands above a stack that is too deep to follow. */
uint32_t memo_root_end(const struct memo *memo, uint64_t sp);

/* A frame that says: here frames are left out. */
void memo_push_mark(struct memo *memo);

/* Node ids for frames [first, count), which hold module instances there. */
void memo_name(struct memo *memo, uint32_t first);

/* More than `depth` frames: keep the root end, a mark, and the newer half of the rest. */
void memo_shorten(struct memo *memo);

/* The frame's path is a new one: what was called from it has other nodes. */
static inline void memo_no_calls(struct memo_frame *frame)
{
	for (int i = 0; i < MEMO_CALLS; i++)
		frame->call_key[i] = 0;
}
