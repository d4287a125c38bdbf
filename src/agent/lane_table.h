/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose a lane is: the table of thread pointers, and the list of all lanes. The
 * agent sees no thread end. A thread pointer that comes back with another
 * thread id has a new owner, who takes the lane over; so does a thread with a
 * new thread pointer if it comes upon the lane of one that has ended: there are
 * about as many lanes as threads ever lived at one time.
 *
 * Known limits: a lane whose thread ended inside the agent's own code is left
 * alone, and so is one whose thread is not known to the kernel by the id that
 * is written behind its thread pointer, or is of another process that shares
 * the memory: such keys stay. A thread that finds no place is not recorded, and
 * its events are counted as lost.
 */
#pragma once

#include "agent/agent.h"

enum {
	LANE_PROBES = 256,  /* slots that are looked at for a key: far more than it takes with as
			       many threads as there are streams */
	LANE_SPENT_KEY = 1, /* of a slot that was given back: nobody's, but a search goes on */
};

/* No lane for this thread yet, or its thread pointer has a new owner. NULL: it cannot be recorded,
 * and the event is counted as lost. */
struct lane *lane_adopt(uintptr_t thread);
/* That of the calling thread, which is known to have one; NULL: it is on its way to another. */
struct lane *lane_of_caller(void);
/* Nobody's yet, and without a stream; NULL: no memory. number: see struct lane. */
struct lane *lane_make(uint32_t number);
/* What the owner before left half done is void. False: no stream is to be had; counted. */
bool lane_take_over(struct lane *lane, uint32_t tid);
/*
 * A new session: every lane belongs to nobody, until its thread comes again. A
 * thread that is still inside a call of the session before finds no room to
 * emit (emit_refill()).
 */
void lanes_renew(void);

static inline uint32_t slot_of(uintptr_t thread)
{
	_Static_assert(AGENT_SLOTS == 1 << 15, "the shift");
	return (uint32_t)(thread * 0x9e3779b97f4a7c15ull >> (64 - 15));
}

/*
 * Borrowed; NULL if this thread has none. It is this thread's only if lane.tid
 * says so: else it is that of a thread before, or being given to another.
 */
static inline struct lane *lane_find(uintptr_t thread)
{
	uint32_t slot = slot_of(thread);
	for (uint32_t probes = 0; probes < LANE_PROBES; probes++) {
		struct agent_slot *one = &agent.slots[slot];
		uintptr_t key = atomic_load_explicit(&one->key, memory_order_acquire);
		if (likely(key == thread))
			return atomic_load_explicit(&one->lane, memory_order_relaxed);
		if (!key)
			break;
		slot = (slot + 1) & (AGENT_SLOTS - 1);
	}
	return NULL;
}
