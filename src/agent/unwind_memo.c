/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a lane's last unwind, where it is not on the way of every event:
 * room, names, depth.
 *
 * Deep stacks: at most `depth` frames are kept: a quarter at the root end, a
 * mark, and the rest at the leaf end. The leaf part is shortened to a half at
 * a time, so that deep recursion costs a constant per call.
 */
#include "agent/unwind_memo.h"

#include "agent/intern.h"
#include "agent/memory_ops.h"
#include "agent/own_stack.h"
#include "agent/sys.h"
#include "agent/unwind.h"

enum {
	FRAMES_FIRST = 64,
	FRAMES_DROP = MEMO_SPARE_ROOM, /* from here on rather drop stale frames than grow */
	FRAMES_MAX = 4096,
	SPARE_WALKS = 64, /* of shallow stacks, after which the room for deep ones is given back */
};

/* Another room for the remembered frames, at the bottom, and the fresh ones, at the top. */
static bool memo_resize(struct memo *memo, uint32_t room, uint32_t fresh)
{
	struct memo_frame *frames = arena_take(room * sizeof *frames);
	struct memo_word *words = arena_take(room * 2 * sizeof *words);
	if (!frames || !words) {
		arena_give(frames, room * sizeof *frames);
		arena_give(words, room * 2 * sizeof *words);
		return false;
	}
	uint32_t kept = memo->count;
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

/* Would the words of the frames fit into the smaller room? */
static bool words_fit(const struct memo *memo)
{
	return !memo->count ||
	       (memo->frames[memo->count - 1].words & MEMO_WORDS) <= FRAMES_DROP * 2;
}

AGENT_COLD bool memo_room(struct memo *memo, uint32_t kept, uint32_t fresh)
{
	if (memo->frame_room >= FRAMES_DROP && kept + fresh + 2 <= memo->frame_room) {
		memo_drop(memo, kept);
		return true;
	}
	uint32_t room = memo->frame_room ? memo->frame_room * 2 : FRAMES_FIRST;
	return room <= FRAMES_MAX && memo_resize(memo, room, fresh);
}

AGENT_COLD void memo_spare(struct memo *memo, uint32_t need)
{
	memo->spare = need < FRAMES_DROP / 2 ? memo->spare + 1 : 0;
	if (memo->spare < SPARE_WALKS)
		return;
	memo->spare = 0;
	if (memo->count > FRAMES_DROP / 2)
		memo_drop(memo, FRAMES_DROP / 2);
	if (words_fit(memo))
		memo_resize(memo, FRAMES_DROP, 0);
}

uint32_t memo_epoch(struct memo *memo)
{
	if (unlikely(!++memo->epoch)) { /* old ones come back: no tail may have them */
		memset(memo->tags, 0, sizeof memo->tags);
		memo->epoch = 1;
	}
	return memo->epoch;
}

struct memo_tail *memo_tail_slot(struct memo *memo, uint32_t tag)
{
	if (unlikely(!memo->tails)) {
		memo->tails = arena_take(sizeof *memo->tails * TAIL_SETS * TAIL_WAYS);
		if (!memo->tails)
			return NULL;
		/* Apart: the arena gives powers of two. NULL is no harm: it only saves time. */
		memo->named = arena_take(sizeof *memo->named * NAMED);
	}
	uint32_t set = tag & (TAIL_SETS - 1), way = memo->turn++ % TAIL_WAYS;
	struct memo_tail *tails = &memo->tails[set * TAIL_WAYS];
	for (uint32_t i = 0; i < TAIL_WAYS; i++)
		if (!memo->tags[set][i] || !memo_stands(memo, &tails[i])) {
			way = i;
			break;
		}
	memo->tags[set][way] = tag;
	return &tails[way];
}

uint32_t memo_owner_of_word(const struct memo *memo, uint32_t from, uint32_t bad)
{
	while (from > 0 && (memo->frames[from - 1].words & MEMO_WORDS) > bad)
		from--;
	return from;
}

/*
 * No walk has come to these words: what is not on the thread's own stack may be
 * unmapped, as that of a coroutine that has ended.
 */
static int32_t verify_apart(struct lane *lane, uint64_t sp, uint32_t end)
{
	const struct memo_word *words = lane->memo.words;
	uintptr_t own_end = own_stack_end(lane, sp);
	while (end--) {
		uintptr_t address = words[end].address;
		uint64_t value;
		if (address >= sp && address < own_end)
			value = *(volatile uint64_t *)address;
		else if (!agent_may_call() ||
			 !sys_peek((int)lane->tid, address, &value, sizeof value))
			return (int32_t)end;
		if (value != words[end].value)
			return (int32_t)end;
	}
	return -1;
}

AGENT_COLD uint32_t memo_root_end(struct lane *lane, uint64_t sp)
{
	const struct memo *memo = &lane->memo;
	uint32_t kept = agent.map.depth / 4;
	if (memo->cut_end && kept > memo->cut_end - 1)
		kept = memo->cut_end - 1;
	if (kept > memo->count)
		kept = memo->count;
	while (kept && memo->frames[kept - 1].sp <= sp)
		kept--;
	while (kept) {
		int32_t bad = verify_apart(lane, sp, memo->frames[kept - 1].words & MEMO_WORDS);
		if (bad < 0)
			break;
		kept = memo_owner_of_word(memo, kept - 1, (uint32_t)bad);
	}
	return kept;
}

void memo_push_mark(struct memo *memo)
{
	struct memo_frame *frame = &memo->frames[memo->count];
	const struct memo_frame *below = memo->count ? frame - 1 : NULL;
	uint64_t hash = intern_hash(below ? below->hash : 0, WIRE_MARK_CUT, WIRE_MODULE_MARK);
	*frame = (struct memo_frame){
		.hash = hash,
		.node = intern_node(hash, below ? below->node : 0, WIRE_MODULE_MARK, WIRE_MARK_CUT),
		.words = below ? below->words & MEMO_WORDS : 0,
		.epoch = memo_epoch(memo),
		/* No state equals it: no stack pointer is 0, and it never stops a search. */
	};
	memo->cut_end = ++memo->count;
}

/* Do the nodes from `id` up spell the frames? Fills their ids. */
static bool confirm(struct memo_frame *frames, uint32_t count, uint32_t base, uint32_t id)
{
	const struct wire_node *nodes = agent.map.nodes;
	uint32_t walk = id;
	for (uint32_t i = count; i-- > 0;) {
		if (!walk || nodes[walk].pc != frames[i].pc || nodes[walk].module != frames[i].node)
			return false;
		walk = nodes[walk].parent;
	}
	if (walk != base)
		return false;
	for (uint32_t i = count; i-- > 0; id = nodes[id].parent)
		frames[i].node = id;
	return true;
}

/*
 * The lane's own few entries in front of the index, which is as large as there are paths and seldom
 * in a cache. Whatever is found here is confirmed like what the index says.
 */
static uint64_t *named_place(const struct memo *memo, uint64_t hash)
{
	return &memo->named[hash >> (64 - NAMED_LOG2)];
}

static bool is_named(const struct memo *memo, struct memo_frame *frames, uint32_t count,
		     uint32_t base)
{
	if (unlikely(!memo->named))
		return false;
	uint64_t hash = frames[count - 1].hash, entry = *named_place(memo, hash);
	/* Of another session, with fewer nodes, it may be. */
	return entry >> 32 == (uint32_t)hash && (uint32_t)entry < agent.map.node_count &&
	       confirm(frames, count, base, (uint32_t)entry);
}

static void find_or_make(struct memo_frame *frames, uint32_t count, uint32_t base)
{
	struct agent_table *table = atomic_load_explicit(&agent.index, memory_order_acquire);
	uint32_t probe = 0, id;
	while ((id = intern_probe(table, frames[count - 1].hash, &probe)))
		if (confirm(frames, count, base, id))
			return;
	for (uint32_t i = 0; i + 1 < count; i++)
		intern_prefetch(frames[i].hash);
	for (uint32_t i = 0; i < count; i++) {
		struct memo_frame *frame = &frames[i];
		if (unlikely(base == agent.node_cap_id))
			frame->node = base;
		else
			frame->node = intern_node(frame->hash, base, frame->node, frame->pc);
		base = frame->node;
	}
}

/* Usually the leaf is known and says it all. */
void memo_name(const struct memo *memo, struct memo_frame *frames, uint32_t count, uint32_t base)
{
	const struct memo_frame *leaf = &frames[count - 1];
	if (is_named(memo, frames, count, base))
		return;
	find_or_make(frames, count, base);
	if (likely(memo->named))
		*named_place(memo, leaf->hash) = leaf->hash << 32 | leaf->node;
}

/* The frames dropped in between are no longer verified; those shown are. */
AGENT_COLD void memo_shorten(struct memo *memo)
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
	memo_push_mark(memo);
	uint32_t epoch = memo->frames[root].epoch;
	for (uint32_t i = 0; i < leaf; i++) {
		struct memo_frame frame = nodes_from[i];
		frame.hash = intern_hash(memo->frames[memo->count - 1].hash, frame.pc,
					 agent.map.nodes[frame.node].module);
		frame.node = agent.map.nodes[frame.node].module;
		frame.words -= words_from - words_to;
		frame.epoch = epoch;
		memo->frames[memo->count++] = frame;
	}
	memo_name(memo, memo->frames + root + 1, leaf, memo->frames[root].node);
}
