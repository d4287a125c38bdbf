/* SPDX-License-Identifier: Apache-2.0 */
#include "model/warm.h"

/*
 * How far each kind of prefetch runs ahead of the events that are applied. Each
 * needs what the one before it has fetched: line, then block, then stack.
 */
enum { AHEAD_LINES = 48, AHEAD_BLOCKS = 32, AHEAD_STACKS = 16 };

static bool ends_block(const struct trace_event *event)
{
	return event->op == TRACE_FREE || event->op == TRACE_REALLOC_FREE ||
	       event->op == TRACE_FREE_UNSEEN;
}

/* By tag alone and in the home line only, without touching blocks: a hint. */
static const struct live_block *likely_block(const struct live_table *live, uint64_t mixed)
{
	uint32_t tag = (uint32_t)(mixed >> 32);
	const struct live_line *line = live_home(live_page_of(live, mixed), tag);
	uint32_t found = live_match(line, tag);
	return found ? live_block_at(live, line->numbers[__builtin_ctz(found)]) : NULL;
}

/* Inline: the compiler drops calls of a function that only prefetches. */
static inline __attribute__((always_inline)) void prefetch_stack(const struct model *m,
								 uint32_t slot)
{
	const struct stack_hot *stack = stacks_hot(&m->stacks, slot);
	__builtin_prefetch(stack, 1);
	__builtin_prefetch(stack->sizes, 1);
}

static void warm_lines(const struct model *m, const struct trace_event *events, size_t end,
		       struct warm_ahead *ahead)
{
	for (; ahead->lines < end; ahead->lines++) {
		const struct trace_event *event = &events[ahead->lines];
		uint64_t key = m->by_block ? event->block_id : event->address;
		const struct young *young = young_at(&m->young, key);
		size_t at = ahead->lines % WARM_RING;
		ahead->found[at] = young_holds(young, key) ? &young->block : NULL;
		if (!ends_block(event) && young_is_used(young))
			live_prefetch(&m->live, live_mix(&m->live, young->key));
		ahead->mixed[at] = 0;
		if (ahead->found[at] || !young_has_older(young))
			continue;
		ahead->mixed[at] = live_mix(&m->live, key);
		live_prefetch(&m->live, ahead->mixed[at]);
	}
}

static void warm_blocks(const struct model *m, const struct trace_event *events, size_t end,
			struct warm_ahead *ahead)
{
	for (; ahead->blocks < end; ahead->blocks++) {
		const struct trace_event *event = &events[ahead->blocks];
		size_t at = ahead->blocks % WARM_RING;
		if (!ends_block(event))
			ahead->found[at] = NULL;
		if (!ahead->mixed[at] || !ends_block(event))
			continue;
		ahead->found[at] = likely_block(&m->live, ahead->mixed[at]);
		if (ahead->found[at])
			__builtin_prefetch(ahead->found[at], 1, 2);
	}
}

static void warm_stacks(const struct model *m, const struct trace_event *events, size_t end,
			struct warm_ahead *ahead)
{
	for (; ahead->stacks < end; ahead->stacks++) {
		const struct live_block *block = ahead->found[ahead->stacks % WARM_RING];
		if (block) {
			prefetch_stack(m, block->slot);
		} else if (!ends_block(&events[ahead->stacks])) {
			uint32_t found = stacks_find(&m->stacks, events[ahead->stacks].stack_id);
			if (found)
				prefetch_stack(m, found - 1);
		}
	}
}

void warm_tables(const struct model *m, const struct trace_event *events, size_t next, size_t count,
		 struct warm_ahead *ahead)
{
	size_t left = count - next;
	size_t behind = next > MODEL_GROUP ? next - MODEL_GROUP : 0;
	if (ahead->blocks < behind)
		ahead->lines = ahead->blocks = behind;
	if (ahead->stacks < behind)
		ahead->stacks = behind;
	warm_lines(m, events, next + (left < AHEAD_LINES ? left : AHEAD_LINES), ahead);
	warm_blocks(m, events, next + (left < AHEAD_BLOCKS ? left : AHEAD_BLOCKS), ahead);
	if (m->stacks.touched_count > WARM_STACKS)
		warm_stacks(m, events, next + (left < AHEAD_STACKS ? left : AHEAD_STACKS), ahead);
}
