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
#include "agent/unwind.h"

enum {
	FRAMES_FIRST = 64,
	FRAMES_MAX = 4096,
};

AGENT_COLD bool memo_grow(struct memo *memo, uint32_t kept, uint32_t fresh)
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

uint32_t memo_owner_of_word(const struct memo *memo, uint32_t from, uint32_t bad)
{
	while (from > 0 && (memo->frames[from - 1].words & MEMO_WORDS) > bad)
		from--;
	return from;
}

uint32_t memo_root_end(const struct memo *memo, uint64_t sp)
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
		/* No state equals it: no stack pointer is 0, and it never stops a search. */
	};
	memo->cut_end = ++memo->count;
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

/* Usually the leaf is known and says it all. */
void memo_name(struct memo *memo, uint32_t first)
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
	uint32_t modules_at = root + 1;
	memo_push_mark(memo);
	for (uint32_t i = 0; i < leaf; i++) {
		struct memo_frame frame = nodes_from[i];
		frame.hash = intern_hash(memo->frames[memo->count - 1].hash, frame.pc,
					 agent.map.nodes[frame.node].module);
		frame.node = agent.map.nodes[frame.node].module;
		frame.words -= words_from - words_to;
		memo_no_calls(&frame);
		memo->frames[memo->count++] = frame;
	}
	memo_name(memo, modules_at);
}
