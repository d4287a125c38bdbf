/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verified memoised unwinding: the stack of a call site as a node id.
 *
 * Unwinding by CFI is a deterministic function of (pc, sp, bp) and of the words
 * it reads. A lane remembers its last unwind: the states and the words. A new
 * unwind steps from the leaf until its state equals a remembered one, then
 * re-reads only the words remembered from there to the root. All equal: the
 * rest of the stack is provably the same and its node is known. The leaf is
 * remembered apart from the frames it stands on (unwind.c).
 */
#pragma once

#include "agent/lane.h"

/*
 * Node id of the stack; never 0. Inside the agent (lane->agent_sp set).
 * unwind_leaf() tries a single step first and else walks.
 */
uint32_t unwind_leaf(struct lane *lane, const struct call_site *site);
uint32_t unwind_walk(struct lane *lane, const struct call_site *site);

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

/* Forget: code changed, or the memory was left half written. */
static inline void unwind_forget(struct lane *lane)
{
	lane->memo.count = 0;
	lane->memo.cut_end = 0;
	lane->memo.lost_words = false;
	lane->memo.leaf.sp = 0;
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

static AGENT_INLINE bool memo_verify_leaf(const struct memo_leaf *leaf)
{
	return AGENT_MUTATE ||
	       (*(volatile uint64_t *)leaf->words[0].address == leaf->words[0].value &&
		*(volatile uint64_t *)leaf->words[1].address == leaf->words[1].value);
}

/* The steady case inline: same leaf, nothing changed above it. */
static AGENT_INLINE uint32_t unwind_memo(struct lane *lane, const struct call_site *site)
{
	const struct memo *memo = &lane->memo;
	const struct memo_leaf *leaf = &memo->leaf;
	uint64_t differs =
		(leaf->sp ^ site->sp) | (leaf->pc ^ site->pc) |
		((leaf->bp ^ site->bp) & leaf->bp_mask) |
		(memo->generation ^ atomic_load_explicit(&agent.generation, memory_order_relaxed));
	if (!differs && memo_verify_leaf(leaf) && memo_verify(memo->words, leaf->below_words) < 0)
		return leaf->node;
	if (likely(memo->leaf_misses < MEMO_LEAF_MISSES))
		return unwind_leaf(lane, site);
	return unwind_walk(lane, site);
}

static AGENT_INLINE uint32_t unwind(struct lane *lane, const struct call_site *site)
{
	uint32_t node = unwind_memo(lane, site);
	if (AGENT_CHECK)
		unwind_check(lane, site, node);
	return node;
}
