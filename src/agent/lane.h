/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane: what one thread needs to record an event. Found through the thread
 * pointer, so the agent needs no TLS. Only its thread (and signal handlers in
 * it) touch it.
 */
#pragma once

#include "agent/lane_table.h"

enum {
	LANE_LABELLED_NODES = 512, /* a power of two */
	LANE_NOBODY = -1,          /* lane.tid: of a session before */
	TAIL_WORDS = 13,
	TAIL_FRAMES = 12, /* a longer tail is shortened by making frames of its root side */
	TAIL_WAYS = 4,
	TAIL_SETS = 32, /* a power of two */
	NAMED_LOG2 = 10,
	NAMED = 1 << NAMED_LOG2,
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
	uint32_t epoch; /* no two writings of frames have the same */
	uint32_t reserved;
};
#define MEMO_NEEDS_BP (1u << 31) /* a frame towards the root uses bp before it is restored */
#define MEMO_WORDS    (MEMO_NEEDS_BP - 1)

/* A word of the stack that stepping read, and what it was. */
struct memo_word {
	uint64_t address;
	uint64_t value;
};

/*
 * A call site seen before, and the way from it to a remembered frame: the words
 * that stepping read. It holds while that frame is still the one it was.
 */
struct memo_tail {
	uint64_t key; /* unwind.h: memo_key() */
	uint64_t sp;
	uint64_t bp;
	uint64_t bp_mask; /* all ones if bp matters, else 0 */
	uint32_t node;    /* of the call site's path, with the heap's label below it */
	uint32_t epoch;   /* of the frame it stands on */
	uint32_t base;    /* stands on frames[base - 1]; 0: on nothing, it is the whole stack */
	uint32_t word_count;
	struct memo_word words[TAIL_WORDS]; /* root side first */
};
_Static_assert(sizeof(struct memo_tail) == 256, "whole cache lines");

/*
 * What is remembered: one stack (frames[0] is the root end), and tails that
 * stand on its frames. The frames need not be those of the last call.
 */
struct memo {
	struct memo_frame *frames;
	struct memo_word *words;
	struct memo_tail *tails; /* TAIL_SETS * TAIL_WAYS of them; NULL: not yet */
	uint64_t *named; /* NAMED of them: half of a path's hash, and its node; NULL: not yet */
	uint32_t count;
	uint32_t frame_room;
	uint32_t word_room;
	uint32_t generation; /* agent.generation when it was made */
	uint32_t cut_end;    /* frames up to and including the cut mark, 0: not cut */
	uint32_t epoch;      /* the last given away */
	uint32_t debt;       /* steps made in vain since frames were last written */
	uint32_t spare;      /* walks in a row that needed little of a large room */
	uint32_t turn;       /* which way of a full set is next replaced */
	bool lost_words;     /* not all words could be kept: not to be used again */
	uint32_t tags[TAIL_SETS][TAIL_WAYS]; /* memo_tag() of the tails; 0: none */
};

/* Never 0. */
static inline uint32_t memo_tag(uint64_t key, uint64_t sp)
{
	uint64_t mixed = (key ^ sp << 20) * 0x9e3779b97f4a7c15ull;
	return (uint32_t)(mixed >> 32) | 1u << 31;
}

/* What a thread's stacks carry below their leaf (label.h): its heap first, then tags. */
enum { LANE_HEAP = 0, LANE_TAGS_FIRST = 1, LANE_LABELS = 5 };
struct lane_label {
	uint64_t key;        /* of a tag: tells which it is */
	struct label *label; /* NULL: none */
};

/* What label_node() found for a node last. */
struct lane_labelled {
	uint32_t session; /* its low half */
	uint32_t node, result, instance;
};

struct lane {
	/* A load of what follows is not to be taken for one of what was just stored at the same
	 * place of another page: stream and chunk have theirs in the first half of 128 bytes. */
	uint8_t apart[64];
	/* Emission. */
	uint64_t *cursor; /* next word in the chunk */
	uint64_t *limit;  /* events of up to WIRE_EXTRA_WORDS_MAX words need a test of their own */
	struct wire_chunk *chunk;
	struct wire_stream *stream;
	/* Nesting: the stack pointer at which it was raised, 0 when not inside. */
	uintptr_t agent_sp;        /* inside the agent's own code */
	uintptr_t real_sp;         /* inside the real allocator */
	struct agent_count *count; /* own_count, or agent.first_count */
	uint32_t tid;
	uint32_t number; /* 0 or 1 */
	struct agent_count own_count;
	uintptr_t real_pc; /* inside a patched one: where it returns to, which lies below real_sp */
	uint32_t labelled; /* how many of labels[] are set */
	struct memo memo;
	/* Readable, as the kernel said during this walk; the thread's own stack (own_stack.c). */
	uintptr_t safe_low, safe_high, own_low, own_end;
	uint32_t stream_index;
	uint32_t taken; /* from the pool, a chunk that is nobody's yet; 0 none (emit.c) */
	/* A chunk that is being made the lane's own; 0 none. */
	uint32_t pending;
	uint32_t pending_seq;
	bool pending_is_head;
	bool waiting;    /* counted in control.pool_waiters */
	uint64_t serial; /* the stream's when it was opened: it may have a new owner since */
	bool seeking;    /* the stack is followed only to find out where we are: emit nothing */
	bool rescanning; /* module events go to this lane */
	/* An allocation under way that may end by an exception: where from, how much. */
	const struct call_site *open_site;
	size_t open_bytes;
	struct lane_label labels[LANE_LABELS];
	struct lane_labelled *labelled_nodes; /* LANE_LABELLED_NODES; NULL until needed */
	bool open_realloc;                    /* begun, and not ended */
	uint64_t random;          /* of sampling: state of the generator; 0: not yet seeded */
	struct lane *signal_lane; /* lane 1, made when first needed */
	struct lane *first;       /* of lane 1: lane 0 of the same thread */
	/* Of lane 0, for lane_table.c. */
	struct lane *next;      /* of all; set once */
	_Atomic uint32_t owner; /* whose it is; survives the session */
	uint32_t slot;          /* which is its place in the table; that of the owner */
};

/*
 * The lane to record an event with, or NULL: pass the call through unrecorded
 * (nested in a recorded call, no memory, switched off).
 */
struct lane *lane_enter_slow(struct lane *lane, const struct call_site *site);

/*
 * After program code may have run (a handler, a destructor): are we in a child that it forked?
 * Then the lane, which always has a stream, has been wiped, as has all that was begun.
 */
static inline bool lane_is_wiped(const struct lane *lane)
{
	return unlikely(!lane->stream);
}

static inline uint32_t thread_id_now(uintptr_t thread)
{
	return *(volatile uint32_t *)(thread + agent.tid_offset);
}

static AGENT_INLINE struct lane *lane_enter(const struct call_site *site)
{
	uintptr_t thread = thread_pointer();
	/* Many programs have but one. */
	struct lane *lane = atomic_load_explicit(&agent.first, memory_order_acquire) == thread
				    ? agent.first_lane
				    : lane_find(thread);
	if (unlikely(!lane || lane->tid != thread_id_now(thread) ||
		     atomic_load_explicit(&agent.shared_tls, memory_order_relaxed))) {
		lane = lane_adopt(thread);
		if (!lane)
			return NULL;
	}
	if (unlikely(lane->agent_sp | lane->real_sp))
		return lane_enter_slow(lane, SITE_COPY(site));
	return lane;
}
