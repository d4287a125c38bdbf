/* SPDX-License-Identifier: Apache-2.0 */
#include "model/walk.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

enum { FIRST_ROOM = 1024 };

#define LAST_NOTHING UINT64_MAX

struct walk_thread {
	uint64_t last_block; /* block_id + 1 if allocating it was the last thing it did */
	bool pending;        /* its last realloc ended a block that was held */
	struct walk_block block;
	struct walk_end end;
};

/* ---- the table: numbers of blocks by block_id, linear probing ---- */

static size_t home(const struct walk *walk, uint64_t block_id)
{
	return hash_fold(block_id + 1, 0x9e3779b97f4a7c15ull) & (walk->index_room - 1);
}

static int grow_index(struct walk *walk)
{
	size_t room = walk->index_room ? walk->index_room * 2 : 2 * FIRST_ROOM;
	uint32_t *old = walk->index;
	size_t old_room = walk->index_room;
	uint32_t *index = tm_alloc_array(room, sizeof *index);
	if (!index)
		return -ENOMEM;
	walk->index = index;
	walk->index_room = room;
	for (size_t i = 0; i < old_room; i++) {
		if (!old[i])
			continue;
		size_t at = home(walk, walk->blocks[old[i] - 1].block_id);
		while (index[at])
			at = (at + 1) & (room - 1);
		index[at] = old[i];
	}
	tm_free(old);
	return 0;
}

static int grow_blocks(struct walk *walk)
{
	uint32_t room = walk->room ? walk->room + walk->room / 2 : FIRST_ROOM;
	if (room <= walk->room || room == UINT32_MAX)
		return -ENOMEM;
	void *blocks = tm_grow_array(walk->blocks, room, sizeof *walk->blocks);
	if (!blocks)
		return -ENOMEM;
	walk->blocks = blocks;
	walk->room = room;
	return 0;
}

static int add_block(struct walk *walk, const struct walk_block *block)
{
	if ((walk->count + 1) * 2 > walk->index_room && grow_index(walk))
		return -ENOMEM;
	if (!walk->free_head && walk->used == walk->room && grow_blocks(walk))
		return -ENOMEM;
	uint32_t number = walk->free_head ? walk->free_head - 1 : walk->used++;
	if (walk->free_head)
		walk->free_head = walk->blocks[number].next;
	walk->blocks[number] = *block;
	size_t at = home(walk, block->block_id);
	while (walk->index[at])
		at = (at + 1) & (walk->index_room - 1);
	walk->index[at] = number + 1;
	walk->count++;
	return 0;
}

/* Later keys of the same run move up into the gap. */
static void close_gap(struct walk *walk, size_t gap)
{
	size_t mask = walk->index_room - 1;
	for (size_t at = (gap + 1) & mask; walk->index[at]; at = (at + 1) & mask) {
		size_t wants = home(walk, walk->blocks[walk->index[at] - 1].block_id);
		if (((at - wants) & mask) >= ((at - gap) & mask)) {
			walk->index[gap] = walk->index[at];
			gap = at;
		}
	}
	walk->index[gap] = 0;
}

static bool take_block(struct walk *walk, uint64_t block_id, struct walk_block *ret)
{
	if (!walk->count)
		return false;
	size_t at = home(walk, block_id);
	while (walk->index[at]) {
		uint32_t number = walk->index[at] - 1;
		if (walk->blocks[number].block_id == block_id) {
			*ret = walk->blocks[number];
			close_gap(walk, at);
			walk->blocks[number].next = walk->free_head;
			walk->free_head = number + 1;
			walk->count--;
			return true;
		}
		at = (at + 1) & (walk->index_room - 1);
	}
	return false;
}

/* ---- what is chosen ---- */

static struct filter_block describe(const struct walk *walk, const struct walk_block *block)
{
	return (struct filter_block){
		.stack_id = block->stack_id,
		.thread_id = block->thread_id,
		.api = block->api,
		.size_bytes = block->size_bytes,
		.address = block->address,
		.birth_ns = block->birth_ns,
		.now_ns = walk->now_ns,
	};
}

static bool may_choose(const struct walk *walk, const struct walk_block *block)
{
	if (!walk->filter)
		return true;
	enum filter_verdict verdict = filter_stack(walk->filter, block->stack_id);
	if (verdict != FILTER_DEPENDS)
		return verdict == FILTER_YES;
	struct filter_block facts = describe(walk, block);
	return filter_block(walk->filter, &facts) != FILTER_NO;
}

static int settle(struct walk *walk, const struct walk_block *block, const struct walk_end *end)
{
	if (walk->filter && filter_stack(walk->filter, block->stack_id) == FILTER_DEPENDS) {
		struct filter_block facts = describe(walk, block);
		facts.end_known = true;
		facts.ended = end->event != WALK_NEVER;
		facts.unseen = end->op == TRACE_FREE_UNSEEN;
		facts.is_temporary = end->is_temporary;
		facts.free_thread_id = end->thread_id;
		facts.end_ns = facts.ended ? end->time_ns : walk->end_ns;
		facts.live_now = block->birth_event < walk->now_event &&
				 end->event >= walk->now_event &&
				 !(block->absent >> WALK_CUT_END & 1);
		if (filter_block(walk->filter, &facts) != FILTER_YES)
			return 0;
	}
	return walk->chosen(walk->ctx, block, end);
}

static int settle_pending(struct walk *walk, struct walk_thread *thread, uint64_t next_block_id)
{
	if (!thread->pending)
		return 0;
	thread->pending = false;
	thread->end.next_block_id = next_block_id;
	return settle(walk, &thread->block, &thread->end);
}

/* ---- events ---- */

static struct walk_thread *thread_of(struct walk *walk, uint32_t thread_id)
{
	if (thread_id >= walk->thread_room) {
		size_t room = walk->thread_room ? walk->thread_room : 16;
		while (room <= thread_id)
			room *= 2;
		struct walk_thread *threads = tm_grow_array(walk->threads, room, sizeof *threads);
		if (!threads)
			return NULL;
		memset(threads + walk->thread_room, 0,
		       (room - walk->thread_room) * sizeof *threads);
		walk->threads = threads;
		walk->thread_room = room;
	}
	return &walk->threads[thread_id];
}

static void note_move(const struct walk *walk, uint64_t ordinal, const struct walk_block *block,
		      enum walk_move move)
{
	if (walk->moved)
		walk->moved(walk->ctx, ordinal, block, move);
}

static int on_birth(struct walk *walk, uint64_t ordinal, const struct trace_event *event)
{
	struct walk_thread *thread = thread_of(walk, event->thread_id);
	if (!thread)
		return -ENOMEM;
	struct walk_block block = {
		.block_id = event->block_id,
		.size_bytes = trace_word_size(event->size_bytes),
		.weight = trace_weigh(event->size_bytes, event->block_id),
		.address = event->address,
		.birth_ns = walk->last_ns,
		.birth_event = ordinal,
		.stack_id = event->stack_id,
		.thread_id = event->thread_id,
		.op = event->op,
		.api = event->api,
		.align_log2 = event->align_log2,
	};
	int rc = 0;
	if (event->op == TRACE_REALLOC_ALLOC)
		rc = settle_pending(walk, thread, event->block_id);
	thread->last_block = event->block_id + 1;
	if (rc || block.block_id < walk->from_id ||
	    (walk->until_id && block.block_id >= walk->until_id) || !may_choose(walk, &block))
		return rc;
	if (walk->limit && walk->count >= walk->limit) {
		walk->until_id = block.block_id;
		return 0;
	}
	note_move(walk, ordinal, &block, WALK_BEGINS);
	return add_block(walk, &block);
}

static int on_end(struct walk *walk, uint64_t ordinal, const struct trace_event *event)
{
	struct walk_thread *thread = thread_of(walk, event->thread_id);
	if (!thread)
		return -ENOMEM;
	bool temporary = event->op == TRACE_FREE && event->block_id != TRACE_NO_BLOCK &&
			 thread->last_block == event->block_id + 1 &&
			 !(event->flags & TRACE_EVENT_LASTING) &&
			 !trace_word_sampled(event->size_bytes);
	if (walk->marked && event->block_id < walk->first_block_id)
		temporary = event->flags & TRACE_EVENT_TEMPORARY;
	if (event->op != TRACE_FREE_UNSEEN || event->block_id == TRACE_NO_BLOCK)
		thread->last_block = LAST_NOTHING;
	int rc = 0;
	if (event->op == TRACE_REALLOC_FREE)
		rc = settle_pending(walk, thread, TRACE_NO_BLOCK);
	struct walk_block block;
	if (rc || event->block_id == TRACE_NO_BLOCK || !take_block(walk, event->block_id, &block))
		return rc;
	note_move(walk, ordinal, &block, WALK_ENDS);
	struct walk_end end = {
		.event = ordinal,
		.time_ns = walk->last_ns,
		.next_block_id = TRACE_NO_BLOCK,
		.thread_id = event->thread_id,
		.free_stack_id = event->free_stack_id,
		.op = event->op,
		.is_temporary = temporary,
	};
	if (event->op != TRACE_REALLOC_FREE)
		return settle(walk, &block, &end);
	thread->pending = true;
	thread->block = block;
	thread->end = end;
	return 0;
}

static int add_gap(struct walk *walk, struct walk_thread *thread, unsigned cut)
{
	void *gaps = tm_grow_array(walk->gaps, walk->gap_count + 1, sizeof *walk->gaps);
	if (!gaps)
		return -ENOMEM;
	walk->gaps = gaps;
	walk->gaps[walk->gap_count++] = (struct walk_gap){
		.block_id = thread->block.block_id,
		.held_ns = thread->end.time_ns,
		.thread_id = thread->end.thread_id,
		.cut = cut,
	};
	thread->block.absent |= (uint8_t)(1u << cut);
	return 0;
}

/* The block that the thread's realloc ended lives on; at cuts in between it was not live. */
static int on_undo(struct walk *walk, uint64_t ordinal, const struct trace_event *event)
{
	struct walk_thread *thread = thread_of(walk, event->thread_id);
	if (!thread)
		return -ENOMEM;
	thread->last_block = LAST_NOTHING;
	if (!thread->pending)
		return 0;
	thread->pending = false;
	for (unsigned i = 0; i < WALK_CUTS; i++) {
		if (thread->end.event < walk->cuts[i] && walk->cuts[i] <= ordinal &&
		    add_gap(walk, thread, i))
			return -ENOMEM;
	}
	note_move(walk, ordinal, &thread->block, WALK_RETURNS);
	return add_block(walk, &thread->block);
}

static int on_failed(struct walk *walk, uint64_t ordinal, const struct trace_event *event)
{
	if (!walk->failed)
		return 0;
	if (walk->filter) {
		struct filter_block facts = {
			.stack_id = event->stack_id,
			.thread_id = event->thread_id,
			.free_thread_id = event->thread_id,
			.api = event->api,
			.size_bytes = event->size_bytes,
			.birth_ns = walk->last_ns,
			.now_ns = walk->now_ns,
			.is_failure = true,
			.end_known = true,
			.ended = true,
		};
		if (filter_block(walk->filter, &facts) != FILTER_YES)
			return 0;
	}
	return walk->failed(walk->ctx, ordinal, event);
}

static int on_event(struct walk *walk, uint64_t ordinal, const struct trace_event *event)
{
	int rc;
	switch ((enum trace_op)event->op) {
	case TRACE_ALLOC:
	case TRACE_REALLOC_ALLOC:
		return on_birth(walk, ordinal, event);
	case TRACE_FREE:
	case TRACE_REALLOC_FREE:
	case TRACE_FREE_UNSEEN:
	case TRACE_FREE_OLDER:
		return on_end(walk, ordinal, event);
	case TRACE_REALLOC_UNDO:
		rc = on_undo(walk, ordinal, event);
		return rc ? rc : on_failed(walk, ordinal, event);
	case TRACE_ALLOC_FAIL:
		return on_failed(walk, ordinal, event);
	case TRACE_OP_COUNT:
		break;
	}
	return 0;
}

int walk_events(struct walk *walk, const struct trace_event_block *facts,
		const struct trace_event *events, size_t count)
{
	int rc = 0;
	walk->first_block_id = facts->first_block_id;
	for (size_t i = 0; i < count && !rc; i++) {
		/* Never back in time, whatever a file says. */
		if (events[i].time_ns > walk->last_ns)
			walk->last_ns = events[i].time_ns;
		rc = on_event(walk, facts->first_event + i, &events[i]);
	}
	return rc;
}

int walk_finish(struct walk *walk)
{
	const struct walk_end none = {
		.event = WALK_NEVER,
		.time_ns = walk->end_ns,
		.next_block_id = TRACE_NO_BLOCK,
		.thread_id = UINT32_MAX,
		.op = TRACE_OP_COUNT,
	};
	int rc = 0;
	for (size_t i = 0; i < walk->thread_room && !rc; i++)
		rc = settle_pending(walk, &walk->threads[i], TRACE_NO_BLOCK);
	for (size_t i = 0; i < walk->index_room && !rc; i++) {
		if (walk->index[i])
			rc = settle(walk, &walk->blocks[walk->index[i] - 1], &none);
	}
	return rc;
}

void walk_done(struct walk *walk)
{
	tm_free(walk->blocks);
	tm_free(walk->index);
	tm_free(walk->threads);
	tm_free(walk->gaps);
	walk->gaps = NULL;
	walk->blocks = NULL;
	walk->index = NULL;
	walk->threads = NULL;
	walk->index_room = walk->count = walk->thread_room = 0;
}
