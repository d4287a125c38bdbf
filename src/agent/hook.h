/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every hook does around the real call:
 *
 *   allocation   lane = hook_begin(); real call between hook_call() and
 *                hook_return(); then hook_alloc()
 *   free         hook_free() publishes, then the real call
 *   realloc      hook_realloc_begin() publishes the old block's end, real
 *                call, hook_realloc_end()
 *
 * The real call may be interrupted by a signal handler that forks: its child, in
 * which everything of ours is gone, comes back from the call, too. So what
 * follows the call asks for the lane first (lane_is_wiped()).
 *
 * agent_sp is raised while the agent's own state is in motion, real_sp while
 * the real function runs (lane.c says what for).
 */
#pragma once

#include "agent/emit.h"
#include "agent/label.h"
#include "agent/sample.h"
#include "agent/unwind.h"

/* May this call be recorded? NULL: just do the real thing. */
static AGENT_INLINE struct lane *hook_begin(const struct call_site *site)
{
	if (unlikely(atomic_load_explicit(&agent.state, memory_order_relaxed) != AGENT_ON) &&
	    !agent_start())
		return NULL;
	return lane_enter(site);
}

static inline bool hook_recording(void)
{
	return likely(atomic_load_explicit(&agent.map.control->state, memory_order_relaxed) ==
		      WIRE_RECORD);
}

/* Also mapped memory is, then. */
static inline bool hook_frees_recorded(void)
{
	uint32_t state = atomic_load_explicit(&agent.map.control->state, memory_order_relaxed);
	return likely(state == WIRE_RECORD) || state == WIRE_PAUSED || state == WIRE_SAMPLED ||
	       state == WIRE_SAMPLED_ALL;
}

/* Returns what hook_return() puts back. */
static inline uintptr_t hook_call(struct lane *lane, const struct call_site *site)
{
	uintptr_t outer = lane->real_sp;
	lane->real_sp = site->sp;
	compiler_barrier();
	return outer;
}

static inline void hook_return(struct lane *lane, uintptr_t outer)
{
	compiler_barrier();
	lane->real_sp = outer;
}

static inline void hook_raise(struct lane *lane, const struct call_site *site)
{
	lane->agent_sp = site->sp;
	compiler_barrier();
}

static inline void hook_lower(struct lane *lane)
{
	compiler_barrier();
	lane->agent_sp = 0;
}

static inline uint32_t log2_of(size_t alignment)
{
	return alignment ? (uint32_t)(63 - __builtin_clzll(alignment)) : 0;
}

/* The stack, with the name of the heap and the thread's tags below it. */
static AGENT_INLINE uint32_t hook_node(struct lane *lane, const struct call_site *site,
				       struct heap_name heap)
{
	bool has_tags = unlikely(lane->labelled);
	uint32_t node = unwind_labelled(lane, site, has_tags ? heap_labelled(NULL) : heap);
	return has_tags ? label_below(lane, heap, node) : node;
}

/* The new block, or the failure. alignment 0: none asked. op: ALLOC or REALLOC_END. */
static AGENT_INLINE void hook_heap_block(struct lane *lane, const struct call_site *site,
					 enum wire_op op, enum wire_api api, void *block,
					 size_t bytes, size_t alignment, struct heap_name heap)
{
	hook_raise(lane, site);
	uint64_t node = hook_node(lane, site, heap);
	if (unlikely(!block))
		emit3(lane, op == WIRE_OP_ALLOC ? WIRE_OP_ALLOC_FAIL : WIRE_OP_REALLOC_FAIL, api,
		      bytes, node << 32);
	else if (likely(bytes < 1ull << 32 && !alignment))
		emit3(lane, op, api, (uint64_t)block, node << 32 | bytes);
	else
		emit4(lane, (enum wire_op)(op + 1), api, (uint64_t)block,
		      node << 32 | log2_of(alignment), bytes);
	hook_lower(lane);
	if (unlikely(!hook_recording()))
		sample_keep(block);
}

/* The new block; NULL: it failed, the old one lives on. */
struct hook_new_block {
	void *block;
	size_t bytes;
	size_t alignment;
};

/*
 * Not recording: switched off meanwhile, or paused. Of a block that is born in a
 * pause only its address is told, so that its end is not taken for that of an
 * older one. If another session waits for the end of the one before, it begins.
 */
void hook_unrecorded(struct lane *lane, const struct call_site *site, enum wire_api api,
		     struct hook_new_block new);

/* Likewise, of a patched function: paused, the new block's address is told. */
void hook_born(struct lane *lane, const struct call_site *site, enum wire_api api, void *block);

/* Sampling is on: the new block is recorded if it is chosen, a failure always. */
void hook_sampled(struct lane *lane, const struct call_site *site, enum wire_api api,
		  struct hook_new_block new, struct heap_name heap);

static AGENT_INLINE void hook_block(struct lane *lane, const struct call_site *site,
				    enum wire_op op, enum wire_api api, void *block, size_t bytes,
				    size_t alignment)
{
	hook_heap_block(lane, site, op, api, block, bytes, alignment, heap_labelled(NULL));
}

static AGENT_INLINE void hook_alloc(struct lane *lane, const struct call_site *site,
				    enum wire_api api, void *block, size_t bytes, size_t alignment)
{
	if (lane_is_wiped(lane))
		return;
	if (hook_recording())
		hook_block(lane, site, WIRE_OP_ALLOC, api, block, bytes, alignment);
	else
		hook_unrecorded(lane, SITE_COPY(site), api,
				(struct hook_new_block){block, bytes, alignment});
}

/* Not recording: in a pause ends are, of sampled blocks those that the filter knows. */
void hook_free_unrecorded(struct lane *lane, const struct call_site *site, enum wire_api api,
			  void *block);
/* --free-stacks */
void hook_free_stack(struct lane *lane, const struct call_site *site, enum wire_api, void *block);

static AGENT_INLINE void hook_end_block(struct lane *lane, const struct call_site *site,
					enum wire_op op, enum wire_api api, void *block)
{
	if (unlikely(agent.map.options & WIRE_OPT_FREE_STACKS) && op == WIRE_OP_FREE &&
	    (hook_recording() || sample_is_on())) {
		hook_free_stack(lane, SITE_COPY(site), api, block);
		return;
	}
	hook_raise(lane, site);
	emit2(lane, op, api, (uint64_t)block);
	hook_lower(lane);
}

/* Before the real free. */
static AGENT_INLINE void hook_free(struct lane *lane, const struct call_site *site,
				   enum wire_api api, void *block)
{
	if (hook_recording())
		hook_end_block(lane, site, WIRE_OP_FREE, api, block);
	else
		hook_free_unrecorded(lane, SITE_COPY(site), api, block);
}

enum hook_realloc {
	HOOK_REALLOC_UNSEEN, /* not recorded */
	HOOK_REALLOC_LINKED, /* its begin is published */
	HOOK_REALLOC_PAUSED, /* likewise, in a pause: the new block is only told of */
	/* likewise; whether the new block is recorded is not yet known. The old one is
	   (wire/filter.h) */
	HOOK_REALLOC_SAMPLED, /* in its line */
	HOOK_REALLOC_OUTSIDE, /* outside, perhaps */
	HOOK_REALLOC_UNKNOWN, /* not in its line; the filter may not know of it yet */
	HOOK_REALLOC_PARTED,  /* in a handler that interrupted another realloc of this thread */
};

/* What to do with the begin of a realloc of this block while not all is recorded. */
enum hook_realloc hook_realloc_kind(const void *block);

/*
 * Before the real realloc of an existing block; hook_realloc_end() must follow.
 * What a thread has begun is one thing at a time, so one that interrupts another
 * is recorded as a free and an allocation, after it.
 */
static inline enum hook_realloc hook_realloc_begin(struct lane *lane, const struct call_site *site,
						   enum wire_api api, void *block)
{
	bool recording = hook_recording();
	enum hook_realloc begun = HOOK_REALLOC_LINKED;
	if (unlikely(!recording) && (begun = hook_realloc_kind(block)) == HOOK_REALLOC_UNSEEN)
		return HOOK_REALLOC_UNSEEN;
	if (unlikely(lane->open_realloc || (lane->first && lane->first->open_realloc)))
		return HOOK_REALLOC_PARTED;
	lane->open_realloc = true; /* before the begin is published, until after the end is */
	compiler_barrier();
	hook_end_block(lane, site,
		       unlikely(begun == HOOK_REALLOC_OUTSIDE) ? WIRE_OP_REALLOC_BEGIN_OUTSIDE
							       : WIRE_OP_REALLOC_BEGIN,
		       api, block);
	return begun;
}

/* The end of one that began in a pause, or while not all blocks are recorded; NULL: it failed. */
void hook_realloc_paused(struct lane *lane, const struct call_site *site, enum wire_api api,
			 void *block);
void hook_realloc_sampled(struct lane *lane, const struct call_site *site, enum wire_api api,
			  enum hook_realloc begun, void *old, struct hook_new_block new);

static inline void hook_realloc_end(struct lane *lane, const struct call_site *site,
				    enum wire_api api, enum hook_realloc begun, void *old,
				    struct hook_new_block new)
{
	if (lane_is_wiped(lane))
		return;
	if (likely(begun == HOOK_REALLOC_LINKED)) {
		hook_block(lane, site, WIRE_OP_REALLOC_END, api, new.block, new.bytes,
			   new.alignment);
		compiler_barrier();
		lane->open_realloc = false;
		return;
	}
	if (begun == HOOK_REALLOC_PAUSED) {
		hook_realloc_paused(lane, site, api, new.block);
		return;
	}
	if (begun == HOOK_REALLOC_SAMPLED || begun == HOOK_REALLOC_OUTSIDE ||
	    begun == HOOK_REALLOC_UNKNOWN) {
		hook_realloc_sampled(lane, site, api, begun, old, new);
		return;
	}
	if (begun == HOOK_REALLOC_PARTED && new.block)
		hook_free(lane, site, api, old);
	hook_alloc(lane, site, api, new.block, new.bytes, new.alignment);
}
