/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking the stack. Fresh frames are collected leaf first at the top end of
 * the memo's own array, growing down towards the remembered ones:
 *
 *   frames:  [ remembered 0 .. count-1 | free | fresh: root side .. leaf ]
 *
 * When the walk meets a remembered state whose words all still hold, or the end
 * of the stack, the fresh frames are moved down behind the frame they join and
 * become remembered themselves.
 *
 * Deep stacks: at most `depth` frames are kept: a quarter at the root end, a
 * mark, and the rest at the leaf end. The leaf part is shortened to a half at
 * a time, so that deep recursion costs a constant per call.
 */
#include "agent/unwind.h"
#include "agent/intern.h"
#include "agent/memory_ops.h"
#include "agent/rows.h"
#include "agent/sys.h"

enum {
	FRAMES_FIRST = 64,
	FRAMES_MAX = 4096,
	STEP_BYTES_MAX = 64 << 20, /* no frame is larger: a wrong rule shows here */
	PROBE_PAGES = 16,
	SEEK_STEPS_MAX = 4096,
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
	bool guessed; /* a frame pointer was followed: believe no address unchecked */
};

/* Are [sp, end) readable? Remembers what was found per lane; one system call per new stretch. */
AGENT_COLD static bool stack_readable(struct lane *lane, uintptr_t sp, uintptr_t end)
{
	if (sp < lane->safe_low || sp >= lane->safe_high) {
		lane->safe_low = sp & ~(uintptr_t)(AGENT_PAGE - 1);
		lane->safe_high = lane->safe_low;
	}
	while (lane->safe_high < end) {
		struct sys_iovec remote[PROBE_PAGES];
		uint8_t bytes[PROBE_PAGES];
		struct sys_iovec local = {bytes, PROBE_PAGES};
		if (!agent_may_call())
			return false;
		for (int i = 0; i < PROBE_PAGES; i++)
			remote[i] = (struct sys_iovec){
				(void *)(lane->safe_high + (uintptr_t)i * AGENT_PAGE), 1};
		long pages = sys_process_vm_readv((int)lane->tid, &local, 1, remote, PROBE_PAGES);
		if (pages <= 0)
			return false;
		lane->safe_high += (uintptr_t)pages * AGENT_PAGE;
	}
	return true;
}

static inline bool readable(struct lane *lane, const struct walk *walk, uintptr_t end)
{
	return likely(!walk->guessed) ||
	       (walk->sp >= lane->safe_low && walk->sp < lane->safe_high &&
		end <= lane->safe_high) ||
	       stack_readable(lane, walk->sp, end);
}

/* Leaves a frame by its frame pointer: only where the chain looks sane and is readable. */
__attribute__((noinline)) static enum step_result
step_by_frame_pointer(struct lane *lane, struct walk *walk, struct memo_frame *frame)
{
	uint64_t bp = walk->bp;
	frame->words |= FRESH_USES_BP;
	walk->guessed = true;
	if (!bp)
		return STEP_END;
	if (bp < walk->sp || bp - walk->sp > STEP_BYTES_MAX || bp & 7 ||
	    !readable(lane, walk, bp + 16))
		return STEP_LOST;
	frame->words |= FRESH_WORDS;
	frame->hash = bp;
	walk->bp = *(volatile uint64_t *)bp;
	walk->pc = *(volatile uint64_t *)(bp + 8);
	walk->sp = bp + 16;
	atomic_store_explicit(&lane->stream->fp_frames,
			      atomic_load_explicit(&lane->stream->fp_frames, memory_order_relaxed) +
				      1,
			      memory_order_relaxed);
	return walk->pc < AGENT_PAGE ? STEP_END : STEP_ON;
}

__attribute__((noinline)) static enum step_result step_signal(struct lane *lane, struct walk *walk,
							      struct memo_frame *frame)
{
	if (!readable(lane, walk, walk->sp + CFI_UCONTEXT_RIP + 8))
		return STEP_LOST;
	frame->words |= FRESH_SIGNAL | FRESH_WORDS;
	frame->hash = walk->sp + CFI_UCONTEXT_RBP;
	uint64_t ucontext = walk->sp;
	walk->bp = *(volatile uint64_t *)(ucontext + CFI_UCONTEXT_RBP);
	walk->pc = *(volatile uint64_t *)(ucontext + CFI_UCONTEXT_RIP) | WIRE_PC_EXACT;
	walk->sp = *(volatile uint64_t *)(ucontext + CFI_UCONTEXT_RSP);
	return (walk->pc & ~WIRE_PC_EXACT) < AGENT_PAGE ? STEP_LOST : STEP_ON;
}

/* A frame that aligned its own stack pointer keeps the address of its caller's frame behind bp. */
__attribute__((noinline)) static enum step_result
step_realigned(struct lane *lane, struct walk *walk, struct memo_frame *frame, uint64_t row)
{
	uint64_t keeper = walk->bp + (uint64_t)(int64_t)row_cfa(row);
	uint64_t bp_slot = walk->bp + (uint64_t)(int64_t)row_bp(row);
	if (row_cfa(row) > 0 || row_cfa(row) <= -(1 << 16))
		return STEP_SLOW;
	if (keeper < walk->sp || keeper - walk->sp > STEP_BYTES_MAX || keeper & 7 ||
	    bp_slot < walk->sp || bp_slot - walk->sp > STEP_BYTES_MAX || bp_slot & 7 ||
	    !readable(lane, walk, keeper + 8) || !readable(lane, walk, bp_slot + 8))
		return STEP_LOST;
	uint64_t cfa = *(volatile uint64_t *)keeper;
	if (cfa <= walk->sp || cfa - walk->sp > STEP_BYTES_MAX || cfa & 7 ||
	    !readable(lane, walk, cfa))
		return STEP_LOST;
	frame->words |= FRESH_USES_BP | FRESH_WORDS | FRESH_REALIGNED;
	frame->hash = bp_slot;
	/* Where the caller's address lies follows from bp, which is compared: found again by
	 * remember(). */
	frame->node |= (uint32_t)(walk->bp - keeper) << 16;
	walk->bp = *(volatile uint64_t *)bp_slot;
	walk->pc = *(volatile uint64_t *)(cfa - 8);
	walk->sp = cfa;
	return walk->pc < AGENT_PAGE ? STEP_END : STEP_ON;
}

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
	} else if (kind == ROW_FP) {
		return step_by_frame_pointer(lane, walk, frame);
	} else if (kind == ROW_SIGNAL) {
		return step_signal(lane, walk, frame);
	} else if (kind == ROW_REALIGNED) {
		return step_realigned(lane, walk, frame, row);
	} else {
		return kind == ROW_END ? STEP_END : STEP_SLOW;
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

/* Doubles the room; remembered frames stay at the bottom, fresh ones at the top. */
AGENT_COLD static bool memo_grow(struct memo *memo, uint32_t kept, uint32_t fresh)
{
	uint32_t room = memo->frame_room ? memo->frame_room * 2 : FRAMES_FIRST;
	if (room > FRAMES_MAX)
		return false;
	struct memo_frame *frames = arena_take(room * sizeof *frames);
	struct memo_word *words = arena_take(room * 2 * sizeof *words);
	if (!frames || !words) {
		arena_give(frames, room * sizeof *frames);
		arena_give(words, room * 2 * sizeof *words);
		return false;
	}
	if (memo->frame_room) {
		memcpy(frames, memo->frames, kept * sizeof *frames);
		memcpy(frames + room - fresh, memo->frames + memo->frame_room - fresh,
		       fresh * sizeof *frames);
		uint32_t used = kept ? memo->frames[kept - 1].words & MEMO_WORDS : 0;
		memcpy(words, memo->words, used * sizeof *words);
		arena_give(memo->frames, memo->frame_room * sizeof *frames);
		arena_give(memo->words, memo->word_room * sizeof *words);
	}
	memo->frames = frames;
	memo->words = words;
	memo->frame_room = room;
	memo->word_room = room * 2;
	return true;
}

/* The remembered frame that owns word `bad`. */
static uint32_t owner_of_word(const struct memo *memo, uint32_t from, uint32_t bad)
{
	while (from > 0 && (memo->frames[from - 1].words & MEMO_WORDS) > bad)
		from--;
	return from;
}

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
	*kept = owner_of_word(memo, *kept - 1, (uint32_t)bad);
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

/* The remembered root end, if it still stands above a stack that is too deep to follow. */
static uint32_t root_end(const struct memo *memo, uint64_t sp)
{
	uint32_t kept = agent.map.depth / 4;
	if (memo->cut_end && kept > memo->cut_end - 1)
		kept = memo->cut_end - 1;
	if (kept > memo->count)
		kept = memo->count;
	while (kept && memo->frames[kept - 1].sp <= sp)
		kept--;
	while (kept) {
		int32_t bad = memo_verify(memo->words, memo->frames[kept - 1].words & MEMO_WORDS);
		if (bad < 0)
			break;
		kept = owner_of_word(memo, kept - 1, (uint32_t)bad);
	}
	return kept;
}

static void push_mark(struct memo *memo)
{
	struct memo_frame *frame = &memo->frames[memo->count];
	const struct memo_frame *below = memo->count ? frame - 1 : NULL;
	uint64_t hash = intern_hash(below ? below->hash : 0, WIRE_MARK_CUT, WIRE_MODULE_MARK);
	*frame = (struct memo_frame){
		.hash = hash,
		.node = intern_node(hash, below ? below->node : 0, WIRE_MODULE_MARK, WIRE_MARK_CUT),
		.words = below ? below->words & MEMO_WORDS : 0,
		/* No state equals it: no stack pointer is 0, and it never stops a search. */
	};
	memo->cut_end = ++memo->count;
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
		to[i] = frame;
	}
	memo->count += got->fresh;
}

/* Do the nodes from `id` up spell frames (first, last]? Fills their ids. */
static bool confirm(struct memo *memo, uint32_t first, uint32_t last, uint32_t id)
{
	const struct wire_node *nodes = agent.map.nodes;
	uint32_t base = first ? memo->frames[first - 1].node : 0;
	uint32_t walk = id;
	for (uint32_t i = last + 1; i-- > first;) {
		if (!walk || nodes[walk].pc != memo->frames[i].pc ||
		    nodes[walk].module != memo->frames[i].node)
			return false;
		walk = nodes[walk].parent;
	}
	if (walk != base)
		return false;
	for (uint32_t i = last + 1; i-- > first; id = nodes[id].parent)
		memo->frames[i].node = id;
	return true;
}

/* Node ids for frames [first, count): usually the leaf is known and says it all. */
__attribute__((noinline)) static void name_frames(struct memo *memo, uint32_t first)
{
	uint32_t last = memo->count - 1;
	struct agent_table *table = atomic_load_explicit(&agent.index, memory_order_acquire);
	uint32_t probe = 0, id;
	while ((id = intern_probe(table, memo->frames[last].hash, &probe)))
		if (confirm(memo, first, last, id))
			return;
	uint32_t parent = first ? memo->frames[first - 1].node : 0;
	for (uint32_t i = first; i <= last; i++) {
		struct memo_frame *frame = &memo->frames[i];
		if (unlikely(parent == agent.node_cap_id))
			frame->node = parent;
		else
			frame->node = intern_node(frame->hash, parent, frame->node, frame->pc);
		parent = frame->node;
	}
}

/*
 * More than `depth` frames: keep the root end, a mark, and the newer half of the
 * rest. The frames dropped in between are no longer verified; those shown are.
 */
AGENT_COLD static void shorten(struct memo *memo)
{
	uint32_t depth = agent.map.depth;
	uint32_t root = memo->cut_end ? memo->cut_end - 1 : depth / 4;
	uint32_t leaf = depth > 1 ? depth / 2 : 1;
	uint32_t from = memo->count - leaf;
	const struct memo_frame *nodes_from = memo->frames + from;
	uint32_t words_from = memo->frames[from - 1].words & MEMO_WORDS;
	uint32_t words_to = root ? memo->frames[root - 1].words & MEMO_WORDS : 0;
	uint32_t words_end = memo->frames[memo->count - 1].words & MEMO_WORDS;
	memmove(memo->words + words_to, memo->words + words_from,
		(words_end - words_from) * sizeof *memo->words);
	memo->count = root;
	uint32_t modules_at = root + 1;
	push_mark(memo);
	for (uint32_t i = 0; i < leaf; i++) {
		struct memo_frame frame = nodes_from[i];
		frame.hash = intern_hash(memo->frames[memo->count - 1].hash, frame.pc,
					 agent.map.nodes[frame.node].module);
		frame.node = agent.map.nodes[frame.node].module;
		frame.words -= words_from - words_to;
		memo->frames[memo->count++] = frame;
	}
	name_frames(memo, modules_at);
}

static void count_cut(struct lane *lane)
{
	atomic_store_explicit(&lane->stream->cut,
			      atomic_load_explicit(&lane->stream->cut, memory_order_relaxed) + 1,
			      memory_order_relaxed);
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
	memo->count = got.kept;
	if (memo->cut_end > got.kept)
		memo->cut_end = 0;
	if (unlikely(got.cut)) {
		memo->count = root_end(memo, got.next_sp);
		push_mark(memo);
	}
	uint32_t first = memo->count;
	remember(memo, &got);
	if (got.fresh)
		name_frames(memo, first);
	if (unlikely(memo->count > agent.map.depth))
		shorten(memo);
	if (unlikely(memo->cut_end))
		count_cut(lane);
	uint32_t node = memo->frames[memo->count - 1].node;
	if (unlikely(node == agent.node_cap_id))
		count_cut(lane);
	if (unlikely(got.end == STEP_LOST || memo->lost_words)) /* to be tried anew each time */
		unwind_forget(lane);
	return node;
}

/* Out of the hot path. */
__attribute__((noinline)) static enum step_result step_once(struct lane *lane, struct walk *walk,
							    struct memo_frame *frame)
{
	return step(lane, walk, frame);
}

enum seek_result unwind_seek(struct lane *lane, const struct call_site *site, uintptr_t hook_sp)
{
	struct walk walk = {.pc = site->pc, .sp = site->sp, .bp = site->bp};
	walk.generation = atomic_load_explicit(&agent.generation, memory_order_acquire);
	enum step_result result = STEP_ON;
	enum seek_result found = SEEK_NOTHING;
	bool signal = false;
	/* The lane may be interrupted in the middle of anything: leave it as it was. */
	uintptr_t safe_low = lane->safe_low, safe_high = lane->safe_high;
	bool seeking = lane->seeking;
	lane->seeking = true;
	for (uint32_t steps = 0; result == STEP_ON && steps < SEEK_STEPS_MAX; steps++) {
		struct memo_frame frame = {0};
		result = step_once(lane, &walk, &frame);
		signal |= (frame.words & FRESH_SIGNAL) != 0;
		if (walk.sp == hook_sp && frame.node == agent.own_instance) {
			found = signal ? SEEK_SIGNAL : SEEK_NESTED;
			break;
		}
	}
	if (!found && (result == STEP_LOST || result == STEP_SLOW || walk.guessed))
		found = SEEK_LOST;
	lane->seeking = seeking;
	lane->safe_low = safe_low;
	lane->safe_high = safe_high;
	return found;
}

static void complain(const char *what)
{
	sys_write(2, what, strlen(what));
	sys_exit_group(99);
}

/* Every frame of the node's path against plain stepping, up to a mark or the end. */
void unwind_check(struct lane *lane, const struct call_site *site, uint32_t node)
{
	struct walk walk = {.pc = site->pc, .sp = site->sp, .bp = site->bp};
	walk.generation = atomic_load_explicit(&agent.generation, memory_order_acquire);
	enum step_result result = STEP_ON;
	const struct wire_node *nodes = agent.map.nodes;
	while (node && nodes[node].module != WIRE_MODULE_MARK) {
		if (result != STEP_ON || nodes[node].pc != walk.pc)
			complain(
				"tidemark check: a remembered stack differs from plain stepping\n");
		struct memo_frame frame = {0};
		result = step_once(lane, &walk, &frame);
		node = nodes[node].parent;
	}
	if (!node && result == STEP_ON)
		complain("tidemark check: a remembered stack is too short\n");
	atomic_fetch_add_explicit(&lane->stream->unwinds, 1, memory_order_relaxed);
}
