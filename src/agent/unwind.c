/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking the stack with memory. What is remembered has two parts:
 *
 *   frames   one stack, root end first; a walk may join it at any frame
 *   tails    call sites seen before, each with the words of the few frames
 *            between it and the frame it stands on, and the node of its path
 *
 *   root  f0  f1  f2  f3  f4  f5          frames
 *              \       \       `-- malloc called in f7    a tail: 2 frames
 *               \       `-- free's caller                 another
 *                `-- ...
 *
 * Programs come back to the same few call sites over and over, from branches
 * that part near the leaf: those are tails, and each is found by its pc and sp
 * alone (unwind.h: unwind_memo()). A call site that is not known, or whose words
 * differ, is walked:
 *
 * Fresh frames are collected leaf first at the top end of the memo's own array,
 * growing down towards the remembered ones:
 *
 *   frames:  [ remembered 0 .. count-1 | free | fresh: root side .. leaf ]
 *
 * When the walk meets a remembered state whose words all still hold, or the end
 * of the stack, the fresh frames are named and become a tail. Where they are too
 * many, or too many were walked lately (memo.debt), those of the root side
 * become frames; that ends the tails that stood on the frames they replace. Each
 * writing of frames has an epoch of its own, by which tails know. That frames
 * may be stale does no harm: a frame counts only where a walk arrives in exactly
 * its state, and all words from it to the root are read again first.
 */
#include "agent/unwind.h"

#include "agent/intern.h"
#include "agent/memory_ops.h"
#include "agent/unwind_memo.h"
#include "agent/unwind_step.h"

enum {
	TAIL_LEFT = 3, /* fresh frames left to the tail when the others become frames */
	DEBT_MAX = 64, /* steps until the frames are brought nearer to where the program is */
	WORDS_EACH = 3 /* that a frame may need */
};

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
	if (frame->sp != walk->sp || frame->pc != walk->pc || walk->loose ||
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
		if (!ret->cut && unlikely(memo->count + fresh + 2 > memo->frame_room))
			ret->cut = !memo_room(memo, kept, fresh);
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
	ret->end = walk->loose && result != STEP_SLOW ? STEP_LOST : result;
	ret->next_pc = walk->pc;
	ret->next_sp = walk->sp;
	ret->next_bp = walk->bp;
}

/* The fresh frames, root side first. */
static AGENT_INLINE struct memo_frame *fresh_frames(const struct memo *memo, uint32_t fresh)
{
	return memo->frames + memo->frame_room - fresh;
}

static AGENT_INLINE uint32_t words_below(const struct memo *memo, uint32_t frames)
{
	return frames ? memo->frames[frames - 1].words & MEMO_WORDS : 0;
}

/*
 * Turns the fresh frames into what remembered ones are, but for their node ids
 * (module instance in `node`). Their words go to memo->words from `count` on.
 */
static AGENT_INLINE void link_fresh(struct memo *memo, const struct collected *got, uint32_t count)
{
	const struct memo_frame *below = got->kept ? &memo->frames[got->kept - 1] : NULL;
	uint64_t hash = below ? below->hash : 0;
	bool needs_bp = got->end == STEP_ON && !got->cut && below && (below->words & MEMO_NEEDS_BP);
	uint64_t next_pc = got->next_pc, next_sp = got->next_sp, next_bp = got->next_bp;
	struct memo_frame *frame = fresh_frames(memo, got->fresh);
	struct memo_word *words = memo->words;
	uint64_t path = hash;
	for (uint32_t i = 0; i < got->fresh; i++)
		path = intern_hash(path, frame[i].pc, frame[i].node & 0xffff);
	intern_prefetch(path);
	for (uint32_t i = 0; i < got->fresh; i++, frame++) {
		uint32_t flags = frame->words;
		uint64_t bp_slot = frame->hash;
		if (unlikely(count + WORDS_EACH > memo->word_room)) { /* signal frames only */
			count = 0;
			memo->lost_words = true;
		}
		if (unlikely(flags & FRESH_SIGNAL)) {
			words[count++] = (struct memo_word){frame->sp + CFI_UCONTEXT_RSP, next_sp};
			words[count++] = (struct memo_word){frame->sp + CFI_UCONTEXT_RIP,
							    next_pc & ~WIRE_PC_EXACT};
		} else if (flags & FRESH_WORDS) {
			words[count++] = (struct memo_word){next_sp - 8, next_pc};
		}
		if (unlikely(flags & FRESH_REALIGNED)) {
			words[count++] =
				(struct memo_word){frame->bp - (frame->node >> 16), next_sp};
			frame->node &= 0xffff;
		}
		if (bp_slot && needs_bp)
			words[count++] = (struct memo_word){bp_slot, next_bp};
		needs_bp = (flags & FRESH_USES_BP) || (needs_bp && !bp_slot);
		hash = intern_hash(hash, frame->pc, frame->node);
		next_pc = frame->pc;
		next_sp = frame->sp;
		next_bp = frame->bp;
		frame->hash = hash;
		frame->words = count | (needs_bp ? MEMO_NEEDS_BP : 0);
	}
}

static void count_cut(struct lane *lane)
{
	atomic_store_explicit(&lane->stream->cut,
			      atomic_load_explicit(&lane->stream->cut, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* Node ids for the fresh frames; that of the leaf. */
static AGENT_INLINE uint32_t name_fresh(struct memo *memo, const struct collected *got)
{
	uint32_t parent = got->kept ? memo->frames[got->kept - 1].node : 0;
	if (unlikely(!got->fresh))
		return parent;
	memo_name(memo, fresh_frames(memo, got->fresh), got->fresh, parent);
	return memo->frames[memo->frame_room - 1].node;
}

/* The first `count` of the fresh frames become remembered ones, above those that were kept. */
static void settle(struct memo *memo, const struct collected *got, uint32_t count)
{
	struct memo_frame *to = memo->frames + got->kept;
	const struct memo_frame *from = fresh_frames(memo, got->fresh);
	uint32_t epoch = memo_epoch(memo);
	for (uint32_t i = 0; i < count; i++) {
		to[i] = from[i];
		to[i].epoch = epoch;
	}
	memo->count = got->kept + count;
	memo->debt = 0;
}

/* A call to be unwound: where it is, the heap it allocates from, the tail's tag. */
struct wanted {
	const struct call_site *site;
	struct heap_name heap;
	uint32_t tag;
};

static uint32_t with_label(struct lane *lane, struct heap_name heap, uint32_t node)
{
	return heap.key ? label_below(lane, heap, node) : node;
}

/* The last `count` of the fresh frames become a tail; returns its node. */
static uint32_t keep_tail(struct lane *lane, const struct collected *got, uint32_t count,
			  const struct wanted *wanted)
{
	struct memo *memo = &lane->memo;
	const struct call_site *site = wanted->site;
	const struct memo_frame *leaf = &memo->frames[memo->frame_room - 1];
	uint32_t base = got->kept + got->fresh - count;
	const struct memo_frame *below = base ? &memo->frames[base - 1] : NULL;
	if (!got->fresh)
		leaf = below;
	uint32_t node = with_label(lane, wanted->heap, leaf->node);
	struct memo_tail *tail = memo_tail_slot(memo, wanted->tag);
	if (unlikely(!tail))
		return node;
	uint32_t start = words_below(memo, memo->count);
	tail->key = memo_key(site, wanted->heap);
	tail->sp = site->sp;
	tail->bp = site->bp;
	tail->bp_mask = leaf->words & MEMO_NEEDS_BP ? ~0ull : 0;
	tail->node = node;
	tail->epoch = below ? below->epoch : 0;
	tail->base = base;
	tail->word_count = count ? (leaf->words & MEMO_WORDS) - start : 0;
	for (uint32_t i = 0; i < tail->word_count; i++)
		tail->words[i] = memo->words[start + i];
	return node;
}

/* Nothing out of the ordinary: joined, or followed to its end. */
static AGENT_INLINE uint32_t walk_usual(struct lane *lane, const struct collected *got,
					const struct wanted *wanted)
{
	struct memo *memo = &lane->memo;
	memo->debt += got->fresh;
	bool settles = got->end != STEP_LOST &&
		       (got->fresh > TAIL_FRAMES ||
			(got->fresh > TAIL_LEFT && unlikely(memo->debt > DEBT_MAX)));
	if (settles)
		memo_drop(memo, got->kept);
	uint32_t start = words_below(memo, memo->count);
	link_fresh(memo, got, start);
	uint32_t node = name_fresh(memo, got);
	if (unlikely(node == agent.node_cap_id)) { /* each of them is counted */
		count_cut(lane);
		return with_label(lane, wanted->heap, node);
	}
	if (unlikely(memo->lost_words)) {
		unwind_forget(lane);
		return with_label(lane, wanted->heap, node);
	}
	if (unlikely(got->end == STEP_LOST)) /* to be tried anew each time */
		return with_label(lane, wanted->heap, node);
	if (settles) {
		settle(memo, got, got->fresh - TAIL_LEFT);
	} else if (unlikely(got->fresh &&
			    (memo->frames[memo->frame_room - 1].words & MEMO_WORDS) - start >
				    TAIL_WORDS)) {
		memo->debt = DEBT_MAX; /* next time some become frames */
		return with_label(lane, wanted->heap, node);
	}
	node = keep_tail(lane, got, settles ? TAIL_LEFT : got->fresh, wanted);
	if (unlikely(memo->frame_room > MEMO_SPARE_ROOM))
		memo_spare(memo, got->kept + got->fresh);
	return node;
}

/* Deeper than what is kept: all frames are remembered, as far as they are shown. */
AGENT_COLD static uint32_t walk_deep(struct lane *lane, struct collected *got)
{
	struct memo *memo = &lane->memo;
	memo_drop(memo, got->kept);
	if (got->cut) {
		memo->count = memo_root_end(lane, got->next_sp);
		memo_push_mark(memo);
		got->kept = memo->count;
	}
	link_fresh(memo, got, words_below(memo, memo->count));
	name_fresh(memo, got);
	settle(memo, got, got->fresh);
	if (memo->count > agent.map.depth)
		memo_shorten(memo);
	uint32_t node = memo->frames[memo->count - 1].node;
	if (memo->cut_end)
		count_cut(lane);
	if (node == agent.node_cap_id)
		count_cut(lane);
	memo->count--; /* the leaf is what changes */
	if (got->end == STEP_LOST || memo->lost_words)
		unwind_forget(lane);
	return node;
}

uint32_t unwind_walk(struct lane *lane, const struct call_site *site, struct heap_name heap,
		     uint32_t tag)
{
	const struct wanted wanted = {site, heap, tag};
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
		return with_label(lane, heap, agent.no_stack_id);
	if (unlikely(got.end == STEP_SLOW)) {
		uint32_t full = unwind_full(lane, site);
		if (full)
			return with_label(lane, heap, full);
		got.end = STEP_LOST;
	}
	if (unlikely(got.cut || got.kept + got.fresh > agent.map.depth ||
		     (memo->cut_end && got.kept >= memo->cut_end)))
		return with_label(lane, heap, walk_deep(lane, &got));
	return walk_usual(lane, &got, &wanted);
}
