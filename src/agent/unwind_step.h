/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of a walk: from a frame's state to its caller's. The usual rules are
 * inline (the hot path); the others are in unwind_step.c.
 */
#pragma once

#include "agent/rows.h"

enum {
	STEP_BYTES_MAX = 64 << 20, /* no frame is larger: a wrong rule shows here */
};

/* Flags of a fresh frame, in memo_frame.words. */
enum {
	FRESH_USES_BP = 1u << 0,
	FRESH_SIGNAL = 1u << 1,
	FRESH_WORDS = 1u << 2, /* its return address was read */
	FRESH_REALIGNED = 1u << 3,
};

enum step_result {
	STEP_ON,
	STEP_END,  /* the outermost frame */
	STEP_LOST, /* cannot go on; to be tried again next time */
	STEP_SLOW, /* needs registers that are not followed here */
};

/* The state of the walk. */
struct walk {
	uint64_t pc;
	uint64_t sp;
	uint64_t bp;
	uint32_t generation;
	bool guessed;     /* a frame pointer was followed: believe no address unchecked */
	bool loose;       /* what was read may be unmapped any time: nothing may be remembered */
	uint64_t own_end; /* when guessed: [sp, own_end) is the thread's own stack; 0: unknown */
};

/* Asks the kernel whether [sp, end) can be read; remembers the answer in the lane. */
bool stack_readable(struct lane *lane, uintptr_t sp, uintptr_t end);

/* The same outside of the thread's own stack: the answer holds for this walk only. */
bool readable_elsewhere(struct lane *lane, struct walk *walk, uintptr_t end);

/* A guess is believed, and may be remembered, within memory that stays: the thread's own stack. */
static inline bool readable(struct lane *lane, struct walk *walk, uintptr_t end)
{
	return likely(!walk->guessed) || (walk->sp < walk->own_end && end <= walk->own_end) ||
	       readable_elsewhere(lane, walk, end);
}

/* A frame of any other kind than ROW_SP and ROW_BP. */
enum step_result step_unusual(struct lane *lane, struct walk *walk, struct memo_frame *frame,
			      uint64_t row);

/* One step out of *frame, whose state is *walk. Fills what the frame must remember. */
static AGENT_INLINE enum step_result step(struct lane *lane, struct walk *walk,
					  struct memo_frame *frame)
{
	uint64_t row = rows_find(rows_key(walk->pc, walk->generation));
	if (unlikely(!row))
		row = rows_derive(lane, walk->pc, walk->generation);
	frame->node = row_instance(row);
	enum row_kind kind = row_kind(row);
	uint64_t cfa;
	if (likely(kind == ROW_SP)) {
		cfa = walk->sp + (uint64_t)(int64_t)row_cfa(row);
	} else if (likely(kind == ROW_BP)) {
		cfa = walk->bp + (uint64_t)(int64_t)row_cfa(row);
		frame->words = FRESH_USES_BP;
	} else {
		return step_unusual(lane, walk, frame, row);
	}
	if (unlikely(cfa <= walk->sp || cfa - walk->sp > STEP_BYTES_MAX || cfa & 7 ||
		     !readable(lane, walk, cfa)))
		return STEP_LOST;
	int32_t bp_offset = row_bp(row);
	if (bp_offset) {
		frame->hash = cfa + (uint64_t)(int64_t)bp_offset;
		if (unlikely(walk->guessed && (frame->hash < walk->sp || frame->hash >= cfa)))
			return STEP_LOST;
		walk->bp = *(volatile uint64_t *)frame->hash;
	}
	frame->words |= FRESH_WORDS;
	walk->pc = *(volatile uint64_t *)(cfa - 8);
	walk->sp = cfa;
	return unlikely(walk->pc < AGENT_PAGE) ? STEP_END : STEP_ON;
}
