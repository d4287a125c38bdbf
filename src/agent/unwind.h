/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verified memoised unwinding: the stack of a call site as a node id.
 *
 * Unwinding by CFI is a deterministic function of (pc, sp, bp) and of the words
 * it reads. A lane remembers states and words: one stack of frames, and many
 * tails, ways from call sites to one of those frames (unwind.c). A call site
 * that is known again is looked up, and the words from it to the root are read
 * again. All equal: the stack is provably the same and its node is known. Else
 * the unwind steps from the leaf until its state equals that of a frame.
 */
#pragma once

#include "agent/label.h"

/* Node id of the stack, with the heap's label below it; never 0. Inside the agent
 * (lane->agent_sp set). */
uint32_t unwind_walk(struct lane *lane, const struct call_site *site, struct heap_name heap,
		     uint32_t tag);

/*
 * The stack with all callee-saved registers, followed from the agent's own
 * frames on: for the rare code whose frames hang on another register. About
 * 1 us per frame, outside the memory. 0: it could not be followed.
 */
uint32_t unwind_full(struct lane *lane, const struct call_site *site);

/*
 * Follows the stack from site, without memory, up to the agent's own frame of
 * the hook that was called with stack pointer hook_sp.
 */
enum seek_result {
	SEEK_NOTHING, /* it is not on the stack any more */
	SEEK_LOST,    /* the stack cannot be followed that far */
	SEEK_NESTED,  /* we were called from inside it */
	SEEK_SIGNAL,  /* a signal handler that interrupted it called us */
};
enum seek_result unwind_seek(struct lane *lane, const struct call_site *site, uintptr_t hook_sp);

/* Were we called from a signal handler that interrupted the agent, in whatever it did? */
bool unwind_interrupts_us(struct lane *lane, const struct call_site *site);

/* Forget: code changed, or the memory was left half written. */
static inline void unwind_forget(struct lane *lane)
{
	lane->memo.count = 0;
	lane->memo.cut_end = 0;
	lane->memo.lost_words = false;
	for (uint32_t i = 0; i < TAIL_SETS * TAIL_WAYS; i++)
		lane->memo.tags[i / TAIL_WAYS][i % TAIL_WAYS] = 0;
}

/*
 * Test builds. AGENT_CHECK compares every unwind with plain stepping and ends
 * the program with a message if they differ; AGENT_MUTATE leaves the
 * verification out, so that the comparison can be seen to fail.
 */
#ifndef AGENT_CHECK
#define AGENT_CHECK 0
#endif
#ifndef AGENT_MUTATE
#define AGENT_MUTATE 0
#endif
void unwind_check(struct lane *lane, const struct call_site *site, uint32_t node);

/* Index of the bad word nearest the leaf among words[0, end), or -1: strictly leaf to root. */
static AGENT_INLINE int32_t memo_verify(const struct memo_word *words, uint32_t end)
{
	if (AGENT_MUTATE)
		return -1;
	const struct memo_word *w = words + end;
	while (w - words >= 4) {
		if (*(volatile uint64_t *)w[-1].address != w[-1].value)
			return (int32_t)(w - words) - 1;
		if (*(volatile uint64_t *)w[-2].address != w[-2].value)
			return (int32_t)(w - words) - 2;
		if (*(volatile uint64_t *)w[-3].address != w[-3].value)
			return (int32_t)(w - words) - 3;
		if (*(volatile uint64_t *)w[-4].address != w[-4].value)
			return (int32_t)(w - words) - 4;
		w -= 4;
	}
	while (w > words) {
		w--;
		if (*(volatile uint64_t *)w->address != w->value)
			return (int32_t)(w - words);
	}
	return -1;
}

/* Is what the tail stands on still what it was? */
static AGENT_INLINE bool memo_stands(const struct memo *memo, const struct memo_tail *tail)
{
	return !tail->base ||
	       (tail->base <= memo->count && memo->frames[tail->base - 1].epoch == tail->epoch);
}

/* What a tail is known by: one call may allocate from several heaps. */
static AGENT_INLINE uint64_t memo_key(const struct call_site *site, struct heap_name heap)
{
	return site->pc ^ heap.key;
}

static AGENT_INLINE bool memo_holds(const struct memo *memo, const struct memo_tail *tail,
				    const struct call_site *site, uint64_t key)
{
	uint64_t differs =
		(tail->sp ^ site->sp) | (tail->key ^ key) | ((tail->bp ^ site->bp) & tail->bp_mask);
	if (differs || !memo_stands(memo, tail) || memo_verify(tail->words, tail->word_count) >= 0)
		return false;
	return !tail->base ||
	       memo_verify(memo->words, memo->frames[tail->base - 1].words & MEMO_WORDS) < 0;
}

/* The usual case inline: a call site that is known, and nothing changed above it. */
static AGENT_INLINE uint32_t unwind_memo(struct lane *lane, const struct call_site *site,
					 struct heap_name heap)
{
	const struct memo *memo = &lane->memo;
	uint64_t key = memo_key(site, heap);
	uint32_t tag = memo_tag(key, site->sp), set = tag & (TAIL_SETS - 1);
	if (likely(memo->generation ==
		   atomic_load_explicit(&agent.generation, memory_order_relaxed)))
		for (uint32_t way = 0; way < TAIL_WAYS; way++)
			if (memo->tags[set][way] == tag &&
			    memo_holds(memo, &memo->tails[set * TAIL_WAYS + way], site, key))
				return memo->tails[set * TAIL_WAYS + way].node;
	return unwind_walk(lane, SITE_COPY(site), heap, tag);
}

/* heap: only where the thread has no other labels. */
static AGENT_INLINE uint32_t unwind_labelled(struct lane *lane, const struct call_site *site,
					     struct heap_name heap)
{
	uint32_t node = unwind_memo(lane, site, heap);
	if (AGENT_CHECK) {
		const struct wire_node *made = &agent.map.nodes[node];
		unwind_check(lane, site,
			     made->module >= LABEL_INSTANCE_FIRST && heap.key ? made->parent
									      : node);
	}
	return node;
}

static AGENT_INLINE uint32_t unwind(struct lane *lane, const struct call_site *site)
{
	return unwind_labelled(lane, site, heap_labelled(NULL));
}
