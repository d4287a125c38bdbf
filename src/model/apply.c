/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hot path: events become figures. Events are taken in groups:
 *
 *   reserve   blocks and cells that the group can need
 *   warm      only when the tables exceed the cache: lines of the index, then
 *             blocks, then their stacks are prefetched
 *   apply     each event in order; first everything that can fail, so that an
 *             event is applied wholly or not at all
 *   settle    the group's cells are added; they were prefetched when noted
 */
#include <errno.h>

#include "model/account.h"
#include "model/state.h"

/* Beyond these the tables exceed a private cache. */
enum { WARM_BLOCKS = 8192, WARM_STACKS = 2048 };

/* ---- warm ---- */

/*
 * How far each kind of prefetch runs ahead of the events that are applied. Each
 * needs what the one before it has fetched: line, then block, then stack.
 */
enum { AHEAD_LINES = 48, AHEAD_BLOCKS = 32, AHEAD_STACKS = 16, AHEAD_RING = 128 };

struct ahead {
	size_t lines, blocks, stacks; /* events of the batch that each has done */
	uint64_t mixed[AHEAD_RING];
	const struct live_block *found[AHEAD_RING];
};

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
HOT void prefetch_stack(const struct model *m, uint32_t slot)
{
	const struct stack_hot *stack = stacks_hot(&m->stacks, slot);
	__builtin_prefetch(stack, 1);
	__builtin_prefetch(stack->sizes, 1);
}

static void warm_lines(const struct model *m, const struct trace_event *events, size_t end,
		       struct ahead *ahead)
{
	for (; ahead->lines < end; ahead->lines++) {
		const struct trace_event *event = &events[ahead->lines];
		uint64_t key = m->by_block ? event->block_id : event->address;
		uint64_t mixed = live_mix(&m->live, key);
		ahead->mixed[ahead->lines % AHEAD_RING] = mixed;
		live_prefetch(&m->live, mixed);
	}
}

static void warm_blocks(const struct model *m, const struct trace_event *events, size_t end,
			struct ahead *ahead)
{
	for (; ahead->blocks < end; ahead->blocks++) {
		const struct trace_event *event = &events[ahead->blocks];
		const struct live_block *block = NULL;
		if (ends_block(event))
			block = likely_block(&m->live, ahead->mixed[ahead->blocks % AHEAD_RING]);
		if (block)
			__builtin_prefetch(block, 1);
		ahead->found[ahead->blocks % AHEAD_RING] = block;
	}
}

static void warm_stacks(const struct model *m, const struct trace_event *events, size_t end,
			struct ahead *ahead)
{
	for (; ahead->stacks < end; ahead->stacks++) {
		const struct live_block *block = ahead->found[ahead->stacks % AHEAD_RING];
		if (block) {
			prefetch_stack(m, block->slot);
		} else if (!ends_block(&events[ahead->stacks])) {
			uint32_t found = stacks_find(&m->stacks, events[ahead->stacks].stack_id);
			if (found)
				prefetch_stack(m, found - 1);
		}
	}
}

/*
 * Before the events up to `next` are applied: what those after them will touch
 * is called for. `ahead` may have fallen behind while the tables were small.
 */
static void warm(const struct model *m, const struct trace_event *events, size_t next, size_t count,
		 struct ahead *ahead)
{
	size_t left = count - next;
	if (ahead->stacks < next - MODEL_GROUP && next > MODEL_GROUP)
		ahead->lines = ahead->blocks = ahead->stacks = next - MODEL_GROUP;
	warm_lines(m, events, next + (left < AHEAD_LINES ? left : AHEAD_LINES), ahead);
	warm_blocks(m, events, next + (left < AHEAD_BLOCKS ? left : AHEAD_BLOCKS), ahead);
	warm_stacks(m, events, next + (left < AHEAD_STACKS ? left : AHEAD_STACKS), ahead);
}

/* ---- what can fail ---- */

static __attribute__((noinline)) struct thread_state *find_thread(struct thread_table *threads,
								  uint32_t thread_id)
{
	if (!threads_has(threads, thread_id) && threads_reserve(threads, thread_id))
		return NULL;
	threads->last_id = thread_id;
	return threads->last = threads_at(threads, thread_id);
}

HOT struct thread_state *thread_of(struct thread_table *threads, uint32_t thread_id)
{
	if (LIKELY(threads->last_id == thread_id && threads->last))
		return threads->last;
	return find_thread(threads, thread_id);
}

HOT int slot_of(struct model *m, uint32_t stack_id, uint32_t *ret_slot)
{
	uint32_t found = stacks_find(&m->stacks, stack_id);
	*ret_slot = found - 1;
	return LIKELY(found) ? 0 : stacks_make_slot(&m->stacks, stack_id, ret_slot);
}

/* The page of a key, with room for it. */
HOT int page_with_room(struct model *m, uint64_t mixed, struct live_page **ret_page)
{
	*ret_page = live_page_of(&m->live, mixed);
	if (LIKELY(!live_page_is_full(*ret_page)))
		return 0;
	int rc = live_split_page(&m->live, mixed);
	*ret_page = live_page_of(&m->live, mixed);
	return rc;
}

/* ---- apply ---- */

/* A block is born or comes back where another one still seems to live. */
static __attribute__((noinline)) void end_unseen(struct model *m, struct live_page *page,
						 uint64_t mixed, struct live_place place)
{
	account_end(m, place.block, stacks_hot(&m->stacks, place.block->slot));
	live_remove(&m->live, page, mixed, place);
	m->freed_unseen++;
}

HOT struct live_block *insert_block(struct model *m, struct live_page *page, uint64_t mixed)
{
	struct live_place place = live_find(&m->live, page, mixed);
	if (UNLIKELY(place.block))
		end_unseen(m, page, mixed, place);
	return live_add(&m->live, page, mixed);
}

/* The sum of all sizes saturates, and with it every smaller sum stays in range. */
static __attribute__((noinline)) uint64_t clamp_size(struct model *m, uint64_t size_bytes)
{
	uint64_t most = UINT64_MAX - m->allocated_bytes;
	if (most > LIVE_48_BITS)
		most = LIVE_48_BITS;
	if (size_bytes <= most)
		return size_bytes;
	m->saturated = true;
	return most;
}

HOT int apply_alloc(struct model *m, struct trace_event *event, uint64_t mixed, bool by_block)
{
	uint32_t slot;
	struct live_page *page;
	struct thread_state *thread = thread_of(&m->threads, event->thread_id);
	if (UNLIKELY(!thread))
		return -ENOMEM;
	int rc = slot_of(m, event->stack_id, &slot);
	if (UNLIKELY(rc) || UNLIKELY((rc = page_with_room(m, mixed, &page))))
		return rc;
	uint64_t size_bytes = event->size_bytes;
	if (UNLIKELY((size_bytes | m->allocated_bytes >> 15) > LIVE_48_BITS))
		event->size_bytes = size_bytes = clamp_size(m, size_bytes);
	if (!by_block)
		event->block_id = m->allocations;
	struct live_block *block = insert_block(m, page, mixed);
	/* Gathered only now: before, they would take registers that the insertion needs. */
	struct live_facts facts = {
		.slot = slot,
		.thread_id = event->thread_id,
		.birth_slice = m->slice.slice_id,
		.size_bytes = size_bytes,
		.birth_us = m->now_us,
		.other = by_block ? event->address : event->block_id,
	};
	live_describe(block, &facts);
	thread->last_block = event->block_id + 1;
	if (event->op == TRACE_REALLOC_ALLOC && thread->pending)
		thread->pending->valid = false;
	account_birth(m, slot, size_bytes);
	return 0;
}

/* What an event that ends an unknown block becomes. */
static __attribute__((noinline)) void apply_unknown(struct model *m, struct trace_event *event,
						    struct thread_state *thread)
{
	thread->last_block = THREAD_NO_BLOCK;
	if (event->op != TRACE_REALLOC_FREE)
		event->op = TRACE_FREE_OLDER;
	else if (thread->pending)
		thread->pending->valid = false; /* the chain goes on, with no block at its begin */
	event->block_id = TRACE_NO_BLOCK;
	event->stack_id = 0;
	event->size_bytes = 0;
	m->freed_older++;
}

HOT void end_temporary(struct model *m, struct trace_event *event, struct stack_hot *stack,
		       struct thread_state *thread)
{
	if (thread->last_block == event->block_id + 1) {
		event->flags |= TRACE_EVENT_TEMPORARY;
		stack->temporary++;
		m->temporary++;
	}
	thread->last_block = THREAD_NO_BLOCK;
}

HOT int apply_free(struct model *m, struct trace_event *event, uint64_t mixed, bool by_block)
{
	struct thread_state *thread = thread_of(&m->threads, event->thread_id);
	if (UNLIKELY(!thread) || (event->op == TRACE_REALLOC_FREE && !thread->pending &&
				  threads_reserve_pending(&m->threads, event->thread_id)))
		return -ENOMEM;
	struct live_page *page = live_page_of(&m->live, mixed);
	struct live_place place = live_find(&m->live, page, mixed);
	event->flags &= (uint8_t) ~(TRACE_EVENT_TEMPORARY | TRACE_EVENT_OLD);
	if (UNLIKELY(!place.block)) {
		apply_unknown(m, event, thread);
		return 0;
	}
	struct stack_hot *stack = stacks_hot(&m->stacks, place.block->slot);
	if (!by_block)
		event->block_id = live_other(place.block);
	event->stack_id = stack->stack_id;
	event->size_bytes = live_size_bytes(place.block);
	if (account_end(m, place.block, stack))
		event->flags |= TRACE_EVENT_OLD;
	if (LIKELY(event->op == TRACE_FREE)) {
		end_temporary(m, event, stack, thread);
	} else if (event->op == TRACE_REALLOC_FREE) {
		*thread->pending = (struct thread_pending){
			.valid = true,
			.key = by_block ? event->block_id : event->address,
			.block = *place.block,
			.death_us = m->now_us,
		};
		thread->last_block = THREAD_NO_BLOCK;
	} else {
		m->freed_unseen++;
	}
	live_remove(&m->live, page, mixed, place);
	return 0;
}

/* The block of a failed realloc lives on. */
static int apply_undo(struct model *m, struct trace_event *event, bool by_block)
{
	uint32_t slot;
	struct thread_state *thread = thread_of(&m->threads, event->thread_id);
	if (!thread || slot_of(m, event->stack_id, &slot))
		return -ENOMEM;
	struct thread_pending *pending = thread->pending;
	event->block_id = TRACE_NO_BLOCK;
	if (pending && pending->valid) {
		uint64_t mixed = live_mix(&m->live, pending->key);
		struct live_page *page;
		int rc = page_with_room(m, mixed, &page);
		if (rc)
			return rc;
		pending->valid = false;
		event->block_id = by_block ? pending->key : live_other(&pending->block);
		struct live_block *block = insert_block(m, page, mixed);
		pending->block.low = block->low;
		*block = pending->block;
		account_return(m, block, pending->death_us);
	}
	thread->last_block = THREAD_NO_BLOCK;
	account_failed(m, slot);
	return 0;
}

static int apply_fail(struct model *m, struct trace_event *event)
{
	uint32_t slot;
	if (slot_of(m, event->stack_id, &slot))
		return -ENOMEM;
	event->block_id = TRACE_NO_BLOCK;
	account_failed(m, slot);
	return 0;
}

static int apply_older(struct model *m, struct trace_event *event)
{
	struct thread_state *thread = thread_of(&m->threads, event->thread_id);
	if (!thread)
		return -ENOMEM;
	apply_unknown(m, event, thread);
	return 0;
}

HOT void pass_time(struct model *m, uint64_t time_ns)
{
	/* Many events fall into the same microsecond: most need no division. */
	if (time_ns - m->now_us * 1000 < 1000)
		return;
	uint64_t now_us = time_ns / 1000;
	if (now_us > m->now_us)
		m->now_us = LIKELY(now_us < LIVE_48_BITS) ? now_us : LIVE_48_BITS;
}

HOT int apply_one(struct model *m, struct trace_event *event, bool by_block)
{
	uint64_t mixed = live_mix(&m->live, by_block ? event->block_id : event->address);
	pass_time(m, event->time_ns);
	if (event->op == TRACE_ALLOC)
		return apply_alloc(m, event, mixed, by_block);
	if (LIKELY(event->op == TRACE_FREE))
		return apply_free(m, event, mixed, by_block);
	switch ((enum trace_op)event->op) {
	case TRACE_ALLOC:
	case TRACE_REALLOC_ALLOC:
		return apply_alloc(m, event, mixed, by_block);
	case TRACE_FREE:
	case TRACE_REALLOC_FREE:
	case TRACE_FREE_UNSEEN:
		return apply_free(m, event, mixed, by_block);
	case TRACE_REALLOC_UNDO:
		return apply_undo(m, event, by_block);
	case TRACE_ALLOC_FAIL:
		return apply_fail(m, event);
	case TRACE_FREE_OLDER:
	case TRACE_OP_COUNT:
		break;
	}
	return apply_older(m, event);
}

/* ---- groups ---- */

static void settle_cells(struct model *m)
{
	for (uint64_t i = 0; i < m->deferred_count; i++)
		cells_add(&m->cells, m->deferred[i].key, m->deferred[i].count,
			  m->deferred[i].bytes);
	m->deferred_count = 0;
}

HOT int apply_group(struct model *m, struct trace_event *events, size_t count, bool by_block)
{
	int rc = 0;
	size_t done = 0;
	while (done < count && LIKELY(!(rc = apply_one(m, &events[done], by_block))))
		done++;
	m->events += done;
	settle_cells(m);
	return rc;
}

static int reserve(struct model *m)
{
	if (m->allocations + MODEL_GROUP > LIVE_48_BITS ||
	    m->events - m->slice.first_event >= MODEL_SLICE_EVENTS_MAX)
		return -EOVERFLOW;
	int rc = live_reserve_blocks(&m->live, MODEL_GROUP);
	return rc ? rc : cells_reserve(&m->cells, MODEL_DEFERRED);
}

static int fail(const struct model *m, int rc, struct tm_error *err)
{
	if (rc == -EOVERFLOW)
		return tm_fail(err, rc, "too many blocks or events for the model; record in parts");
	return tm_fail(err, rc, "no memory for the model of %llu live blocks and %u stacks",
		       (unsigned long long)model_live_count(m), m->stacks.slot_count);
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
	if (before > 0)
		return before;
	m->rss.heap_known = true;
	m->rss.heap_bytes = m->live_bytes;
	return count;
}

int model_apply(struct model *m, struct trace_event *events, size_t count, struct tm_error *err)
{
	struct ahead ahead;
	ahead.lines = ahead.blocks = ahead.stacks = 0;
	if (count > 0 && m->events == m->slice.first_event)
		m->slice.clock_us = events[0].time_ns / 1000;
	for (size_t done = 0; done < count;) {
		size_t part = count - done < MODEL_GROUP ? count - done : MODEL_GROUP;
		part = settle_rss(m, events + done, part);
		int rc = reserve(m);
		if (rc)
			return fail(m, rc, err);
		if (live_count(&m->live) > WARM_BLOCKS || m->stacks.slot_count > WARM_STACKS)
			warm(m, events, done + part, count, &ahead);
		rc = m->by_block ? apply_group(m, events + done, part, true)
				 : apply_group(m, events + done, part, false);
		if (rc)
			return fail(m, rc, err);
		done += part;
	}
	return 0;
}
