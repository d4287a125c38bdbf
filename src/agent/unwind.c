/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking the stack with memory, in three ways from cheap to dear:
 *
 *   unwind_memo()  the last call site again: verify, done (unwind.h)
 *   unwind_leaf()  another call site in a remembered frame: one step, found
 *                  by by_sp, verified from there; the frames stay as they are
 *                  (not tried while it keeps failing: memo.leaf_misses)
 *   unwind_walk()  anything else: frames are collected, remembered and named
 *
 * Fresh frames are collected leaf first at the top end of the memo's own array,
 * growing down towards the remembered ones:
 *
 *   frames:  [ remembered 0 .. count-1 | free | fresh: root side .. leaf ]
 *
 * When the walk meets a remembered state whose words all still hold, or the end
 * of the stack, the fresh frames are moved down behind the frame they join and
 * become remembered themselves. The leaf is then kept apart (memo.leaf): a call
 * from a shallower frame replaces the leaf alone, and the deeper frames are
 * there still when the program comes back to them. That they may be stale does
 * no harm: a frame counts only where the walk arrives in exactly its state, and
 * all words from it to the root are read again first.
 */
#include "agent/unwind.h"

#include "agent/intern.h"
#include "agent/unwind_memo.h"
#include "agent/unwind_step.h"

/* What collect() found: how many fresh frames, and how many remembered ones they stand on. */
struct collected {
	uint32_t fresh;
	uint32_t kept;
	enum step_result end;               /* STEP_ON: joined */
	bool cut;                           /* stopped because there were too many frames */
	uint64_t next_pc, next_sp, next_bp; /* state after the last fresh frame */
};

/* Does the walk stand on remembered frame i, and does everything above still hold? Lowers *kept. */
static AGENT_INLINE bool joins(const struct memo *memo, const struct walk *walk, uint32_t *kept)
{
	while (*kept && memo->frames[*kept - 1].sp < walk->sp)
		--*kept;
	if (!*kept)
		return false;
	const struct memo_frame *frame = &memo->frames[*kept - 1];
	if (frame->sp != walk->sp || frame->pc != walk->pc ||
	    ((frame->words & MEMO_NEEDS_BP) && frame->bp != walk->bp))
		return false;
	int32_t bad = memo_verify(memo->words, frame->words & MEMO_WORDS);
	if (likely(bad < 0))
		return true;
	*kept = memo_owner_of_word(memo, *kept - 1, (uint32_t)bad);
	return false;
}

static AGENT_INLINE void collect(struct lane *lane, struct walk *walk, struct collected *ret)
{
	struct memo *memo = &lane->memo;
	uint32_t kept = memo->count, fresh = 0, limit = agent.map.depth;
	enum step_result result = STEP_ON;
	while (result == STEP_ON && !joins(memo, walk, &kept)) {
		ret->cut = fresh >= limit || kept + fresh >= limit + limit / 2 + 8;
		if (!ret->cut && unlikely(kept + fresh + 2 > memo->frame_room)) {
			ret->cut = !memo_grow(memo, kept, fresh);
			memo->count = kept;
		}
		if (unlikely(ret->cut))
			break;
		struct memo_frame *frame = &memo->frames[memo->frame_room - ++fresh];
		frame->pc = walk->pc;
		frame->sp = walk->sp;
		frame->bp = walk->bp;
		frame->hash = 0;
		frame->words = 0;
		result = step(lane, walk, frame);
	}
	ret->fresh = fresh;
	ret->kept = result == STEP_ON ? kept : 0; /* an end of its own stands on nothing */
	ret->end = result;
	ret->next_pc = walk->pc;
	ret->next_sp = walk->sp;
	ret->next_bp = walk->bp;
}

/* Fresh frames become remembered ones; node ids are not yet known (module instance in `node`). */
static AGENT_INLINE void remember(struct memo *memo, const struct collected *got)
{
	const struct memo_frame *below = memo->count ? &memo->frames[memo->count - 1] : NULL;
	uint64_t hash = below ? below->hash : 0;
	uint32_t words = below ? below->words & MEMO_WORDS : 0;
	bool needs_bp = got->end == STEP_ON && !got->cut && below && (below->words & MEMO_NEEDS_BP);
	uint64_t next_pc = got->next_pc, next_sp = got->next_sp, next_bp = got->next_bp;
	struct memo_frame *to = memo->frames + memo->count;
	const struct memo_frame *from = memo->frames + memo->frame_room - got->fresh;
	uint64_t path = hash;
	for (uint32_t i = 0; i < got->fresh; i++)
		path = intern_hash(path, from[i].pc, from[i].node & 0xffff);
	intern_prefetch(path);
	for (uint32_t i = 0; i < got->fresh; i++) {
		struct memo_frame frame = from[i];
		uint32_t flags = frame.words;
		if (unlikely(words + 3 >
			     memo->word_room)) { /* signal frames only: forget the root side */
			words = 0;
			memo->lost_words = true;
		}
		uint64_t bp_slot = frame.hash;
		if (flags & FRESH_SIGNAL) {
			memo->words[words++] =
				(struct memo_word){frame.sp + CFI_UCONTEXT_RSP, next_sp};
			memo->words[words++] = (struct memo_word){frame.sp + CFI_UCONTEXT_RIP,
								  next_pc & ~WIRE_PC_EXACT};
		} else if (flags & FRESH_WORDS) {
			memo->words[words++] = (struct memo_word){next_sp - 8, next_pc};
		}
		if (unlikely(flags & FRESH_REALIGNED)) {
			memo->words[words++] =
				(struct memo_word){frame.bp - (frame.node >> 16), next_sp};
			frame.node &= 0xffff;
		}
		if (bp_slot && needs_bp)
			memo->words[words++] = (struct memo_word){bp_slot, next_bp};
		needs_bp = (flags & FRESH_USES_BP) || (needs_bp && !bp_slot);
		hash = intern_hash(hash, frame.pc, frame.node);
		next_pc = frame.pc;
		next_sp = frame.sp;
		next_bp = frame.bp;
		frame.hash = hash;
		frame.words = words | (needs_bp ? MEMO_NEEDS_BP : 0);
		memo_no_calls(&frame);
		to[i] = frame;
	}
	memo->count += got->fresh;
}

static void count_cut(struct lane *lane)
{
	atomic_store_explicit(&lane->stream->cut,
			      atomic_load_explicit(&lane->stream->cut, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* Takes the leaf out of the frames; frames [first, count) are made to be found by sp. */
static AGENT_INLINE void settle(struct memo *memo, uint32_t first)
{
	const struct memo_frame *top = &memo->frames[--memo->count];
	struct memo_leaf *leaf = &memo->leaf;
	uint32_t below_words = memo->count ? top[-1].words & MEMO_WORDS : 0;
	uint32_t own_words = (top->words & MEMO_WORDS) - below_words;
	for (uint32_t i = first; i < memo->count; i++)
		memo->by_sp[memo_by_sp(memo->frames[i].sp)] = (uint16_t)i;
	leaf->sp = 0;
	/* Cut stacks are counted, each of them: by unwind_walk(). */
	if (unlikely(!own_words || own_words > MEMO_LEAF_WORDS || memo->cut_end ||
		     top->node == agent.node_cap_id))
		return;
	leaf->words[0] = memo->words[below_words + own_words - 1];
	leaf->words[1] = memo->words[below_words];
	leaf->below_words = below_words;
	leaf->node = top->node;
	leaf->bp_mask = top->words & MEMO_NEEDS_BP ? ~0ull : 0;
	leaf->pc = top->pc;
	leaf->bp = top->bp;
	leaf->sp = top->sp;
}

/* The node of the call site `pc` right above frame `below`. */
static AGENT_INLINE uint32_t call_node(struct memo_frame *below, uint64_t pc, uint32_t instance)
{
	uint64_t key = pc | (uint64_t)instance << 48;
	for (int i = 0; i < MEMO_CALLS; i++)
		if (likely(below->call_key[i] == key))
			return below->call_node[i];
	uint64_t hash = intern_hash(below->hash, pc, instance);
	uint32_t node = intern_node(hash, below->node, instance, pc);
	for (int i = MEMO_CALLS - 1; i > 0; i--) {
		below->call_key[i] = below->call_key[i - 1];
		below->call_node[i] = below->call_node[i - 1];
	}
	below->call_key[0] = key;
	below->call_node[0] = node;
	return node;
}

/* The frame that one usual step from the site leads to, if it is remembered and holds; or NULL. */
static AGENT_INLINE struct memo_frame *step_onto(struct memo *memo, const struct call_site *site,
						 uint64_t row, uint64_t cfa, uint64_t *bp)
{
	uint32_t at = memo->by_sp[memo_by_sp(cfa)];
	struct memo_frame *below = &memo->frames[at];
	if (unlikely(at >= memo->count || below->sp != cfa ||
		     below->pc != *(volatile uint64_t *)(cfa - 8)))
		return NULL;
	*bp = row_bp(row) ? *(volatile uint64_t *)(cfa + (uint64_t)(int64_t)row_bp(row)) : site->bp;
	if (unlikely((below->words & MEMO_NEEDS_BP) && below->bp != *bp))
		return NULL;
	return likely(memo_verify(memo->words, below->words & MEMO_WORDS) < 0) ? below : NULL;
}

uint32_t unwind_leaf(struct lane *lane, const struct call_site *site)
{
	struct memo *memo = &lane->memo;
	uint32_t generation = atomic_load_explicit(&agent.generation, memory_order_acquire);
	uint64_t row = rows_find(rows_key(site->pc, generation));
	enum row_kind kind = row_kind(row);
	if (unlikely(memo->generation != generation || memo->cut_end ||
		     (kind != ROW_SP && kind != ROW_BP)))
		return unwind_walk(lane, site);
	uint64_t cfa =
		(likely(kind == ROW_SP) ? site->sp : site->bp) + (uint64_t)(int64_t)row_cfa(row);
	if (unlikely(cfa <= site->sp || cfa - site->sp > STEP_BYTES_MAX || cfa & 7))
		return unwind_walk(lane, site);
	uint64_t bp;
	struct memo_frame *below = step_onto(memo, site, row, cfa, &bp);
	if (unlikely(!below))
		return unwind_walk(lane, site);
	uint32_t node = call_node(below, site->pc, row_instance(row));
	if (unlikely(node == agent.node_cap_id))
		return unwind_walk(lane, site);
	bool needs_bp = (below->words & MEMO_NEEDS_BP) != 0;
	struct memo_leaf *leaf = &memo->leaf;
	leaf->words[0] = leaf->words[1] = (struct memo_word){cfa - 8, below->pc};
	if (needs_bp && row_bp(row)) {
		leaf->words[1] = (struct memo_word){cfa + (uint64_t)(int64_t)row_bp(row), bp};
		needs_bp = false;
	}
	leaf->below_words = below->words & MEMO_WORDS;
	leaf->node = node;
	leaf->bp_mask = kind == ROW_BP || needs_bp ? ~0ull : 0;
	leaf->pc = site->pc;
	leaf->bp = site->bp;
	leaf->sp = site->sp;
	memo->leaf_misses = 0;
	return node;
}

uint32_t unwind_walk(struct lane *lane, const struct call_site *site)
{
	struct memo *memo = &lane->memo;
	struct walk walk = {.pc = site->pc, .sp = site->sp, .bp = site->bp};
	walk.generation = atomic_load_explicit(&agent.generation, memory_order_acquire);
	if (unlikely(memo->generation != walk.generation)) {
		unwind_forget(lane);
		memo->generation = walk.generation;
	}
	struct collected got = {0};
	collect(lane, &walk, &got);
	if (unlikely(!got.fresh && !got.kept))
		return agent.no_stack_id;
	if (unlikely(got.end == STEP_SLOW)) {
		uint32_t full = unwind_full(lane, site);
		unwind_forget(lane);
		if (full)
			return full;
		got.end = STEP_LOST;
	}
	memo->leaf_misses = got.fresh > 1 ? memo->leaf_misses + 1 : 0;
	memo->count = got.kept;
	if (memo->cut_end > got.kept)
		memo->cut_end = 0;
	if (unlikely(got.cut)) {
		memo->count = memo_root_end(memo, got.next_sp);
		memo_push_mark(memo);
	}
	uint32_t first = memo->count;
	remember(memo, &got);
	if (got.fresh)
		memo_name(memo, first);
	if (unlikely(memo->count > agent.map.depth))
		memo_shorten(memo);
	if (unlikely(memo->cut_end))
		count_cut(lane);
	uint32_t node = memo->frames[memo->count - 1].node;
	if (unlikely(node == agent.node_cap_id))
		count_cut(lane);
	settle(memo, first);
	if (unlikely(got.end == STEP_LOST || memo->lost_words)) /* to be tried anew each time */
		unwind_forget(lane);
	return node;
}
