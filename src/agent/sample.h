/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampling: not every allocation is recorded, but one after so many bytes on
 * average, chosen by chance (docs/sampling.md). Each thread counts down the bytes
 * that it asks for; the block in which its count ends is recorded with the
 * interval it was chosen by, and a new count is drawn. The counts are
 * exponentially distributed, so each byte has the same chance, whatever came
 * before, and a count may be drawn anew at any time: when the interval changes.
 *
 *   malloc   bytes < countdown: the count goes down, nothing else
 *   free     the filter (wire/filter.h) does not know the address: nothing else
 *
 * Each block counts one byte more than was asked for, so that those of 0 bytes
 * are found, too.
 */
#pragma once

#include "agent/lane.h"

/* The collector's state says that not all blocks are recorded. */
static inline bool sample_is_on(void)
{
	uint32_t state = atomic_load_explicit(&agent.map.control->state, memory_order_relaxed);
	return state == WIRE_SAMPLED || state == WIRE_SAMPLED_ALL;
}

/* Time for sample_account(); 0 where the clock must not be read. */
static inline uint64_t read_cost_clock(void)
{
	return atomic_load_explicit(&agent.slow_clock, memory_order_relaxed) ? 0 : read_tsc();
}

/* Since `began` this thread has been at work for us. */
static inline void sample_account(struct lane *lane, uint64_t began)
{
	struct wire_stream *stream = lane->stream;
	if (began)
		atomic_store_explicit(&stream->cost,
				      atomic_load_explicit(&stream->cost, memory_order_relaxed) +
					      read_tsc() - began,
				      memory_order_relaxed);
	atomic_store_explicit(&stream->samples,
			      atomic_load_explicit(&stream->samples, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* Is a block of so many bytes to be recorded? Then by which interval. */
bool sample_hits(struct lane *lane, size_t bytes, uint32_t *ret_interval_log2);
/* The count is one of the present interval. */
void sample_refresh(struct lane *lane);
/* The short way may be taken from now on, if it can be; or no more. */
void sample_enter(void);
void sample_leave(void);
/* A block that was told of as if all were: its end must be told, too. NULL: none. */
void sample_keep(const void *block);

static inline uint32_t sample_state(void)
{
	return atomic_load_explicit(&agent.state, memory_order_relaxed);
}

/* In this state of the agent there is a short way. */
static inline bool sample_is_short(uint32_t state)
{
	return state == AGENT_SAMPLED || state == AGENT_SAMPLED_NESTED;
}

/* Counts a block that is not recorded. False: it is, or must be looked at. */
static inline bool sample_skips(struct agent_count *count, size_t bytes)
{
	if (unlikely(!count || bytes >= count->countdown))
		return false;
	count->countdown -= bytes + 1;
	return true;
}

static inline bool sample_is_current(const struct agent_count *count)
{
	return count->gate == atomic_load_explicit(&agent.filter->gate, memory_order_relaxed);
}

/*
 * The lane of a thread that may take the short way, or NULL: then what is to be
 * done is for lane_enter() to find out. Where the agent's state is SAMPLED threads
 * have thread pointers of their own; one that has that of a thread before takes the
 * lane over first, since it may be given away before.
 */
static inline struct lane *sample_lane(void)
{
	uintptr_t thread = thread_pointer();
	struct agent_slot *slot = &agent.slots[slot_of(thread)];
	if (unlikely(atomic_load_explicit(&slot->key, memory_order_acquire) != thread))
		return NULL;
	struct lane *lane = atomic_load_explicit(&slot->lane, memory_order_relaxed);
	if (unlikely(!lane || lane->tid != thread_id_now(thread) ||
		     (lane->agent_sp | lane->real_sp) || !sample_is_current(lane->count)))
		return NULL;
	return lane;
}

/* The first thread may take the short way. */
static inline bool sample_is_first(void)
{
	return likely(atomic_load_explicit(&agent.first, memory_order_acquire) ==
			      thread_pointer() &&
		      sample_is_current(&agent.first_count));
}

/*
 * The same where the allocator calls nothing that is hooked, so that the lane need not know of the
 * call: its count. A signal handler that interrupts the agent may count, too.
 */
static inline struct agent_count *sample_count(void)
{
	if (sample_is_first())
		return &agent.first_count;
	struct lane *lane = sample_lane();
	return likely(lane) ? lane->count : NULL;
}

/* The end of this block is not recorded, whoever calls. */
static inline bool sample_passes(const void *block)
{
	return likely(atomic_load_explicit(&agent.filter->gate, memory_order_relaxed) &&
		      !wire_filter_get(agent.filter, (uint64_t)block));
}
