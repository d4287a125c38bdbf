/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane: what one thread needs to record an event. Found through the thread
 * pointer, so the agent needs no TLS. Only its thread (and signal handlers in
 * it) touch it.
 */
#pragma once

#include "agent/agent.h"

enum {
	MEMO_CALLS = 2,       /* leaves remembered per frame */
	MEMO_LEAF_WORDS = 2,  /* a leaf that needs more is not remembered */
	MEMO_LEAF_MISSES = 8, /* then walk at once, until a walk has only one step */
	MEMO_BY_SP = 512,     /* a power of two */
};

/*
 * One remembered frame: the state before stepping out of it. While frames are
 * being collected (unwind.c: fresh frames) `hash` holds the address of the
 * saved frame pointer, `node` the module instance and `words` the flags.
 */
struct memo_frame {
	uint64_t pc; /* return address; WIRE_PC_EXACT set after a signal frame */
	uint64_t sp;
	uint64_t bp;
	uint64_t hash;  /* of the path from the root to here */
	uint32_t node;  /* of that path */
	uint32_t words; /* words[0, words & MEMO_WORDS) belong to the frames up to here;
			   MEMO_NEEDS_BP */
	/* Call sites last seen right above this frame (pc and module instance; 0 none) and the
	 * nodes of the paths that end there. */
	uint64_t call_key[MEMO_CALLS];
	uint32_t call_node[MEMO_CALLS];
};
#define MEMO_NEEDS_BP (1u << 31) /* a frame towards the root uses bp before it is restored */
#define MEMO_WORDS    (MEMO_NEEDS_BP - 1)

/* A word of the stack that stepping read, and what it was. */
struct memo_word {
	uint64_t address;
	uint64_t value;
};

/* The call site of the last unwind: the state, and the words that stepping out of it read. */
struct memo_leaf {
	uint64_t pc;
	uint64_t sp; /* 0: none */
	uint64_t bp;
	uint64_t bp_mask; /* all ones if bp matters, else 0 */
	uint32_t node;
	uint32_t below_words; /* words[0, below_words) belong to the frames it stands on */
	struct memo_word words[MEMO_LEAF_WORDS]; /* both in use: a single one is there twice */
};

/*
 * What is remembered: frames[0] is the root end. The leaf stands on frame
 * count-1 or on one nearer the root; the frames beyond may be stale.
 */
struct memo {
	struct memo_frame *frames;
	struct memo_word *words;
	uint32_t count;
	uint32_t frame_room;
	uint32_t word_room;
	uint32_t generation;  /* agent.generation when it was made */
	uint32_t cut_end;     /* frames up to and including the cut mark, 0: not cut */
	bool lost_words;      /* not all words could be kept: not to be used again */
	uint32_t leaf_misses; /* walks of more than one step, in a row */
	struct memo_leaf leaf;
	uint16_t by_sp[MEMO_BY_SP]; /* memo_by_sp(sp) -> index of a frame with that sp: a hint */
};

static inline uint32_t memo_by_sp(uint64_t sp)
{
	return (uint32_t)(sp >> 3) & (MEMO_BY_SP - 1);
}

struct lane {
	/* Emission. */
	uint64_t *cursor; /* next word in the chunk */
	uint64_t *limit;  /* events of up to WIRE_EXTRA_WORDS_MAX words need a test of their own */
	struct wire_chunk *chunk;
	struct wire_stream *stream;
	/* Nesting: the stack pointer at which it was raised, 0 when not inside. */
	uintptr_t agent_sp; /* inside the agent's own code */
	uintptr_t real_sp;  /* inside the real allocator */
	uint32_t tid;
	uint32_t number; /* 0 or 1 */
	struct memo memo;
	/* Stack known to be readable, for reads that nothing vouches for. */
	uintptr_t safe_low, safe_high;
	uint32_t stream_index;
	/* A chunk that is being made the lane's own; 0 none (emit.c). */
	uint32_t pending;
	uint32_t pending_seq;
	bool pending_is_head;
	uint64_t serial; /* the stream's when it was opened: it may have a new owner since */
	bool seeking;    /* the stack is followed only to find out where we are: emit nothing */
	bool rescanning; /* module events go to this lane */
	/* An allocation under way that may end by an exception: where from, how much. */
	const struct call_site *open_site;
	size_t open_bytes;
	struct lane *signal_lane; /* lane 1, made when first needed */
};

/*
 * The lane to record an event with, or NULL: pass the call through unrecorded
 * (nested in a recorded call, no memory, switched off).
 */
struct lane *lane_enter_slow(struct lane *lane, const struct call_site *site);
/* No lane for this thread yet, or its thread pointer has a new owner. */
struct lane *lane_adopt(struct lane *lane, uintptr_t thread);

static inline uint32_t slot_of(uintptr_t thread)
{
	return (uint32_t)((thread >> 6) * 0x9e3779b97f4a7c15ull >> 40) & (AGENT_SLOTS - 1);
}

/* Borrowed; NULL if this thread has none. */
static inline struct lane *lane_find(uintptr_t thread)
{
	uint32_t slot = slot_of(thread);
	for (;;) {
		uintptr_t key = atomic_load_explicit(&agent.slots[slot].key, memory_order_acquire);
		if (likely(key == thread))
			return atomic_load_explicit(&agent.slots[slot].lane, memory_order_relaxed);
		if (!key)
			return NULL;
		slot = (slot + 1) & (AGENT_SLOTS - 1);
	}
}

static inline uint32_t thread_id_now(uintptr_t thread)
{
	return *(volatile uint32_t *)(thread + agent.tid_offset);
}

static inline struct lane *lane_enter(const struct call_site *site)
{
	uintptr_t thread = thread_pointer();
	struct lane *lane = lane_find(thread);
	if (unlikely(!lane || !agent.tid_offset || lane->tid != thread_id_now(thread) ||
		     atomic_load_explicit(&agent.shared_tls, memory_order_relaxed))) {
		lane = lane_adopt(lane, thread);
		if (!lane)
			return NULL;
	}
	if (unlikely(lane->agent_sp | lane->real_sp))
		return lane_enter_slow(lane, site);
	return lane;
}
