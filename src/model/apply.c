/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hot path: events become figures. Events are taken in groups:
 *
 *   prepare   all memory that the group can need is reserved (so that nothing
 *             can fail half-way through an event), keys are mixed, index lines
 *             are prefetched
 *   warm      only when the tables exceed the cache: blocks, then their stacks
 *             are prefetched
 *   apply     each event in order
 *   settle    the group's cells are added; they were prefetched when noted
 */
#include <errno.h>

#include "model/state.h"

/* Beyond these the tables exceed a private cache. */
enum { WARM_BLOCKS = 8192, WARM_STACKS = 4096 };

#define LIKELY(condition)   __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

struct group {
	uint64_t mixed[MODEL_GROUP];
	uint32_t slot[MODEL_GROUP];   /* of the stack, for events that bring one */
	uint32_t number[MODEL_GROUP]; /* of the block, about; + 1 */
};

/* ---- prepare ---- */

static int reserve_place(struct model *m, uint64_t mixed)
{
	return LIKELY(!live_page_is_full(&m->live, mixed)) ? 0 : live_split_page(&m->live, mixed);
}

static int reserve_undo(struct model *m, uint32_t thread_id)
{
	const struct thread_pending *pending = threads_at(&m->threads, thread_id)->pending;
	if (!pending || !pending->valid)
		return 0;
	return reserve_place(m, live_mix(&m->live, pending->key));
}

static int prepare_one(struct model *m, const struct trace_event *event, struct group *group,
		       size_t i)
{
	if (UNLIKELY(!threads_has(&m->threads, event->thread_id)) &&
	    threads_reserve(&m->threads, event->thread_id))
		return -ENOMEM;
	uint64_t mixed = live_mix(&m->live, m->by_block ? event->block_id : event->address);
	group->mixed[i] = mixed;
	live_prefetch(&m->live, mixed);
	int rc = 0;
	switch ((enum trace_op)event->op) {
	case TRACE_ALLOC:
	case TRACE_REALLOC_ALLOC:
		rc = reserve_place(m, mixed);
		break;
	case TRACE_REALLOC_UNDO:
		rc = reserve_undo(m, event->thread_id);
		break;
	case TRACE_ALLOC_FAIL:
		break;
	case TRACE_REALLOC_FREE:
		return threads_reserve_pending(&m->threads, event->thread_id);
	case TRACE_FREE:
	case TRACE_FREE_UNSEEN:
	case TRACE_FREE_OLDER:
	case TRACE_OP_COUNT:
		return 0;
	}
	uint32_t found = stacks_find(&m->stacks, event->stack_id);
	group->slot[i] = found - 1;
	if (UNLIKELY(!found) && !rc)
		rc = stacks_make_slot(&m->stacks, event->stack_id, &group->slot[i]);
	return rc;
}

static int prepare(struct model *m, const struct trace_event *events, size_t count,
		   struct group *group, struct tm_error *err)
{
	int rc = live_reserve_blocks(&m->live, MODEL_GROUP);
	if (!rc)
		rc = cells_reserve(&m->cells, MODEL_DEFERRED);
	for (size_t i = 0; i < count && !rc; i++)
		rc = prepare_one(m, &events[i], group, i);
	if (!rc && (m->allocations + MODEL_GROUP > LIVE_48_BITS ||
		    m->events - m->slice.first_event >= MODEL_SLICE_EVENTS_MAX))
		rc = -EOVERFLOW;
	if (rc == -EOVERFLOW)
		return tm_fail(err, rc, "too many blocks or events for the model; record in parts");
	if (rc)
		return tm_fail(err, rc, "no memory for the model of %llu live blocks and %u stacks",
			       (unsigned long long)m->live_blocks, m->stacks.slot_count);
	return 0;
}

/* ---- warm ---- */

static bool ends_block(const struct trace_event *event)
{
	return event->op == TRACE_FREE || event->op == TRACE_REALLOC_FREE ||
	       event->op == TRACE_FREE_UNSEEN;
}

/* By tag alone, without touching blocks: right but for rare collisions, and only a hint. */
static uint32_t likely_number(const struct live_table *live, uint64_t mixed)
{
	const struct live_page *page = live_page_of(live, mixed);
	uint32_t tag = (uint32_t)(mixed >> 32);
	for (uint32_t at = tag & LIVE_PAGE_MASK;; at = (at + 1) & LIVE_PAGE_MASK) {
		uint64_t slot = page->slots[at];
		if (!slot || (uint32_t)(slot >> 32) == tag)
			return (uint32_t)slot;
	}
}

static void prefetch_stack(const struct stack_hot *stack)
{
	__builtin_prefetch(stack, 1);
	__builtin_prefetch(stack->sizes, 1);
}

static void warm(struct model *m, const struct trace_event *events, size_t count,
		 struct group *group)
{
	for (size_t i = 0; i < count; i++) {
		group->number[i] = 0;
		if (ends_block(&events[i])) {
			group->number[i] = likely_number(&m->live, group->mixed[i]);
			if (group->number[i])
				__builtin_prefetch(live_block_at(&m->live, group->number[i] - 1),
						   1);
		} else if (events[i].op != TRACE_FREE_OLDER) {
			prefetch_stack(stacks_hot(&m->stacks, group->slot[i]));
		}
	}
	for (size_t i = 0; i < count; i++) {
		if (group->number[i]) {
			uint32_t slot = live_block_at(&m->live, group->number[i] - 1)->slot;
			prefetch_stack(stacks_hot(&m->stacks, slot));
		}
	}
}

/* ---- apply ---- */

static void defer_cell(struct model *m, uint64_t key, uint64_t count, uint64_t bytes)
{
	__builtin_prefetch(&m->cells.cells[cells_home(&m->cells, key)], 1);
	m->deferred[m->deferred_count++] =
		(struct cell){.key = key, .count = count, .bytes = bytes};
}

static void settle_cells(struct model *m)
{
	for (uint64_t i = 0; i < m->deferred_count; i++)
		cells_add(&m->cells, m->deferred[i].key, m->deferred[i].count,
			  m->deferred[i].bytes);
	m->deferred_count = 0;
}

/* Count one in the tagged counters beside the stack; false if its place is another bucket's. */
static inline bool count_beside(uint32_t *counters, uint32_t bucket)
{
	uint32_t *counter = &counters[bucket % STACK_CELLS];
	uint32_t tag = (bucket + 1) << STACK_CELL_COUNT_BITS;
	/* Equal tags leave the count alone, which must not overflow into them. */
	if (LIKELY((*counter ^ tag) < (1u << STACK_CELL_COUNT_BITS) - 1)) {
		(*counter)++;
		return true;
	}
	if (*counter)
		return false;
	*counter = tag | 1;
	return true;
}

static bool take_back_beside(uint32_t *counters, uint32_t bucket)
{
	uint32_t *counter = &counters[bucket % STACK_CELLS];
	uint32_t count = *counter ^ (bucket + 1) << STACK_CELL_COUNT_BITS;
	if (count == 0 || count >> STACK_CELL_COUNT_BITS)
		return false;
	(*counter)--;
	return true;
}

static inline void raise_live(struct model *m, uint64_t bytes)
{
	m->live_blocks++;
	m->live_bytes += bytes;
	if (m->live_bytes <= m->slice.max_bytes)
		return;
	m->slice.max_bytes = m->live_bytes;
	m->slice.max_us = m->now_us;
	if (m->live_bytes <= m->peak_bytes)
		return;
	m->peak_bytes = m->live_bytes;
	m->peak_blocks = m->live_blocks;
	m->peak_us = m->now_us;
	m->slice.peak_rose = true;
	if (UNLIKELY(++m->epoch == 0))
		model_next_epoch(m);
}

/* A block's end, whatever the cause. */
static inline void end_block(struct model *m, const struct live_block *block,
			     struct trace_event *event)
{
	uint64_t size_bytes = block->size_bytes;
	struct stack_hot *stack = stacks_hot(&m->stacks, block->slot);
	stacks_touch(&m->stacks, stack, block->slot, m->epoch);
	stack->live_bytes -= size_bytes;
	stack->live_blocks--;
	uint32_t bucket = model_bucket(m->now_us - block->birth_us);
	if (UNLIKELY(!count_beside(stack->lives, bucket)))
		defer_cell(m, cell_key(block->slot, CELL_LIFE, bucket), 1, 0);
	if (LIKELY(block->birth_slice == m->slice.slice_id)) {
		stack->deaths++;
		stack->death_bytes += size_bytes;
	} else {
		defer_cell(m, cell_key(block->slot, CELL_DEATH, block->birth_slice), 1, size_bytes);
		event->flags |= TRACE_EVENT_OLD;
	}
	m->live_blocks--;
	m->live_bytes -= size_bytes;
	if (m->live_bytes < m->slice.min_bytes)
		m->slice.min_bytes = m->live_bytes;
}

/* A block is born or comes back where another one still seems to live. */
static void end_unseen(struct model *m, const struct live_place *place)
{
	struct trace_event unseen = {0};
	end_block(m, live_place_block(&m->live, place), &unseen);
	live_remove(&m->live, place);
	m->freed_unseen++;
}

static struct live_block *insert_block(struct model *m, uint64_t mixed)
{
	struct live_place place = live_find(&m->live, mixed);
	if (UNLIKELY(place.slot)) {
		end_unseen(m, &place);
		place = live_find(&m->live, mixed);
	}
	return live_add(&m->live, &place, mixed);
}

/* The sum of all sizes saturates, and with it every smaller sum stays in range. */
static uint64_t clamp_size(struct model *m, uint64_t size_bytes)
{
	uint64_t most = UINT64_MAX - m->allocated_bytes;
	if (most > LIVE_48_BITS)
		most = LIVE_48_BITS;
	if (size_bytes <= most)
		return size_bytes;
	m->saturated = true;
	return most;
}

static inline void apply_alloc(struct model *m, struct trace_event *event, uint64_t mixed,
			       uint32_t slot)
{
	uint64_t size_bytes = event->size_bytes;
	if (UNLIKELY(size_bytes > LIVE_48_BITS || size_bytes > UINT64_MAX - m->allocated_bytes))
		event->size_bytes = size_bytes = clamp_size(m, size_bytes);
	if (!m->by_block)
		event->block_id = m->allocations;
	struct live_block *block = insert_block(m, mixed);
	block->slot = slot;
	block->size_bytes = size_bytes;
	block->thread_low = event->thread_id & 0xffff;
	block->thread_high = event->thread_id >> 16;
	block->birth_us = m->now_us;
	block->other = (m->by_block ? event->address : event->block_id) & LIVE_48_BITS;
	block->birth_slice = m->slice.slice_id & 0xffff;

	struct stack_hot *stack = stacks_hot(&m->stacks, slot);
	stacks_touch(&m->stacks, stack, slot, m->epoch);
	stack->live_bytes += size_bytes;
	stack->live_blocks++;
	stack->birth_bytes += size_bytes;
	if (UNLIKELY(stack->births++ == 0) && stacks_cold(&m->stacks, slot)->births == 0)
		m->stack_count++;
	uint32_t bucket = model_bucket(size_bytes);
	if (UNLIKELY(!count_beside(stack->sizes, bucket)))
		defer_cell(m, cell_key(slot, CELL_SIZE, bucket), 1, 0);
	m->allocations++;
	m->allocated_bytes += size_bytes;
	struct thread_state *thread = threads_at(&m->threads, event->thread_id);
	thread->last_block = event->block_id + 1;
	if (event->op == TRACE_REALLOC_ALLOC && thread->pending)
		thread->pending->valid = false;
	raise_live(m, size_bytes);
}

/* What an event that ends an unknown block becomes. */
static void apply_unknown(struct model *m, struct trace_event *event)
{
	if (event->op !=
	    TRACE_REALLOC_FREE) /* a realloc keeps its chain, with no block at its begin */
		event->op = TRACE_FREE_OLDER;
	event->block_id = TRACE_NO_BLOCK;
	event->stack_id = 0;
	event->size_bytes = 0;
	m->freed_older++;
}

static inline void apply_free(struct model *m, struct trace_event *event, uint64_t mixed)
{
	struct thread_state *thread = threads_at(&m->threads, event->thread_id);
	struct live_place place = live_find(&m->live, mixed);
	event->flags &= (uint8_t) ~(TRACE_EVENT_TEMPORARY | TRACE_EVENT_OLD);
	if (UNLIKELY(!place.slot)) {
		thread->last_block = THREAD_NO_BLOCK;
		if (event->op == TRACE_REALLOC_FREE)
			thread->pending->valid = false;
		apply_unknown(m, event);
		return;
	}
	struct live_block *block = live_place_block(&m->live, &place);
	struct stack_hot *stack = stacks_hot(&m->stacks, block->slot);
	if (!m->by_block)
		event->block_id = block->other;
	event->stack_id = stack->stack_id;
	event->size_bytes = block->size_bytes;
	end_block(m, block, event);
	if (LIKELY(event->op == TRACE_FREE)) {
		if (thread->last_block == event->block_id + 1) {
			event->flags |= TRACE_EVENT_TEMPORARY;
			stack->temporary++;
			m->temporary++;
		}
		thread->last_block = THREAD_NO_BLOCK;
	} else if (event->op == TRACE_REALLOC_FREE) {
		*thread->pending = (struct thread_pending){
			.valid = true,
			.key = m->by_block ? event->block_id : event->address,
			.block = *block,
			.death_us = m->now_us,
		};
		thread->last_block = THREAD_NO_BLOCK;
	} else {
		m->freed_unseen++;
	}
	live_remove(&m->live, &place);
}

static void count_failed(struct model *m, uint32_t slot)
{
	stacks_touch(&m->stacks, stacks_hot(&m->stacks, slot), slot, m->epoch);
	stacks_cold(&m->stacks, slot)->open_failed++;
	m->failed++;
}

/* The block of a failed realloc lives on, as if it had never ended. */
static void revive(struct model *m, const struct thread_pending *pending)
{
	struct live_block *block = insert_block(m, live_mix(&m->live, pending->key));
	uint32_t low = block->low;
	*block = pending->block;
	block->low = low;
	struct stack_hot *stack = stacks_hot(&m->stacks, block->slot);
	stacks_touch(&m->stacks, stack, block->slot, m->epoch);
	stack->live_bytes += block->size_bytes;
	stack->live_blocks++;
	if (block->birth_slice == m->slice.slice_id) {
		stack->deaths--;
		stack->death_bytes -= block->size_bytes;
	} else {
		/* The death may stand in an earlier slice: sums over slices come out right. */
		defer_cell(m, cell_key(block->slot, CELL_DEATH, block->birth_slice), UINT64_MAX,
			   -(uint64_t)block->size_bytes);
	}
	uint32_t bucket = model_bucket(pending->death_us - block->birth_us);
	if (!take_back_beside(stack->lives, bucket))
		defer_cell(m, cell_key(block->slot, CELL_LIFE, bucket), UINT64_MAX, 0);
	raise_live(m, block->size_bytes);
}

static void apply_undo(struct model *m, struct trace_event *event, uint32_t slot)
{
	struct thread_state *thread = threads_at(&m->threads, event->thread_id);
	struct thread_pending *pending = thread->pending;
	thread->last_block = THREAD_NO_BLOCK;
	event->block_id = TRACE_NO_BLOCK;
	if (pending && pending->valid) {
		event->block_id = m->by_block ? pending->key : pending->block.other;
		pending->valid = false;
		revive(m, pending);
	}
	count_failed(m, slot);
}

static inline void apply_one(struct model *m, struct trace_event *event, const struct group *group,
			     size_t i)
{
	uint64_t now_us = event->time_ns / 1000;
	if (LIKELY(now_us > m->now_us))
		m->now_us = LIKELY(now_us < LIVE_48_BITS) ? now_us : LIVE_48_BITS;
	m->events++;
	switch ((enum trace_op)event->op) {
	case TRACE_ALLOC:
	case TRACE_REALLOC_ALLOC:
		apply_alloc(m, event, group->mixed[i], group->slot[i]);
		break;
	case TRACE_FREE:
	case TRACE_REALLOC_FREE:
	case TRACE_FREE_UNSEEN:
		apply_free(m, event, group->mixed[i]);
		break;
	case TRACE_REALLOC_UNDO:
		apply_undo(m, event, group->slot[i]);
		break;
	case TRACE_ALLOC_FAIL:
		event->block_id = TRACE_NO_BLOCK;
		count_failed(m, group->slot[i]);
		break;
	case TRACE_FREE_OLDER:
	case TRACE_OP_COUNT:
		threads_at(&m->threads, event->thread_id)->last_block = THREAD_NO_BLOCK;
		apply_unknown(m, event);
		break;
	}
}

/*
 * What was live at the sample with the largest RSS: after all events of its
 * time or earlier. Tells how many of these events come before that moment.
 */
static size_t settle_rss(struct model *m, const struct trace_event *events, size_t count)
{
	if (LIKELY(m->rss.heap_known) || events[count - 1].time_ns / 1000 <= m->rss.time_us)
		return count;
	size_t before = 0;
	while (events[before].time_ns / 1000 <= m->rss.time_us)
		before++;
	if (before == 0) {
		m->rss.heap_known = true;
		m->rss.heap_bytes = m->live_bytes;
		return count;
	}
	return before;
}

int model_apply(struct model *m, struct trace_event *events, size_t count, struct tm_error *err)
{
	struct group group;
	if (count > 0 && m->events == m->slice.first_event)
		m->slice.clock_us = events[0].time_ns / 1000;
	while (count > 0) {
		size_t part = settle_rss(m, events, count < MODEL_GROUP ? count : MODEL_GROUP);
		int rc = prepare(m, events, part, &group, err);
		if (rc)
			return rc;
		if (m->live.count > WARM_BLOCKS || m->stacks.slot_count > WARM_STACKS)
			warm(m, events, part, &group);
		for (size_t i = 0; i < part; i++)
			apply_one(m, &events[i], &group, i);
		settle_cells(m);
		events += part;
		count -= part;
	}
	return 0;
}
