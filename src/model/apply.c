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
#include "model/warm.h"

/* ---- what can fail ---- */

COLD struct thread_state *find_thread(struct thread_table *threads, uint32_t thread_id)
{
	if (!threads_has(threads, thread_id) && threads_reserve(threads, thread_id))
		return NULL;
	return threads_at(threads, thread_id);
}

HOT struct thread_state *thread_of(struct thread_table *threads, uint32_t thread_id)
{
	if (LIKELY(thread_id < threads->first_count))
		return &threads->first[thread_id];
	return find_thread(threads, thread_id);
}

COLD uint32_t make_slot(struct model *m, uint32_t stack_id)
{
	uint32_t slot;
	return stacks_make_slot(&m->stacks, stack_id, &slot) ? 0 : slot + 1;
}

/* Slot + 1; 0 without memory. */
HOT uint32_t slot_of(struct model *m, uint32_t stack_id)
{
	uint32_t found = stacks_find(&m->stacks, stack_id);
	return LIKELY(found) ? found : make_slot(m, stack_id);
}

/* The page of a key, with room for it; NULL and *ret_error when there is none. */
HOT struct live_page *page_with_room(struct model *m, uint64_t mixed, int *ret_error)
{
	struct live_page *page = live_page_of(&m->live, mixed);
	if (LIKELY(!live_page_is_full(page)))
		return page;
	*ret_error = live_split_page(&m->live, mixed);
	return *ret_error ? NULL : live_page_of(&m->live, mixed);
}

/* The block of this place moves to the live table. Nothing changes on failure. */
static int move_older(struct model *m, struct young *young)
{
	int error = 0;
	uint64_t mixed = live_mix(&m->live, young->key);
	struct live_page *page = page_with_room(m, mixed, &error);
	if (!page)
		return error;
	struct live_block *block = live_add(&m->live, page, mixed);
	block->slot = young->block.slot;
	block->size_thread = young->block.size_thread;
	block->birth_thread = young->block.birth_thread;
	block->other_slice = young->block.other_slice;
	young_leave(&m->young, young);
	young_add_older(young);
	stacks_grew_old(stacks_hot(&m->stacks, block->slot));
	return 0;
}

/* ---- blocks of the live table ---- */

/* Takes it out, and notes whether it was right to put it there. */
HOT void remove_older(struct model *m, struct young *young, uint64_t mixed, struct live_place place,
		      uint64_t block_id)
{
	struct stack_hot *stack = stacks_hot(&m->stacks, place.block->slot);
	if (m->allocations - block_id < YOUNG_COUNT)
		stacks_died_young(stack);
	else
		stacks_grew_old(stack);
	live_remove(&m->live, live_page_of(&m->live, mixed), mixed, place);
	young_drop_older(young);
}

/* Notes the end of this block as an event, to be stored before `event`. */
COLD void tell_unseen(struct model *m, const struct trace_event *event,
		      const struct trace_event *end)
{
	m->unseen.ends[m->unseen.count++] = (struct model_unseen){
		.ordinal = m->events + (uint64_t)(event - m->group),
		.event = *end,
	};
	m->events++;
}

/*
 * A block is born or comes back where one still seems to live: that one ended unseen. 0, or
 * -ENOMEM: nothing has changed.
 */
COLD int end_unseen(struct model *m, const struct trace_event *event, struct young *young,
		    uint64_t key, struct live_place place)
{
	struct stack_hot *stack = stacks_hot(&m->stacks, place.block->slot);
	struct trace_event end = {
		.op = TRACE_FREE_UNSEEN,
		.time_ns = event->time_ns,
		.thread_id = event->thread_id,
		.address = m->by_block ? live_other(place.block) : key,
		.block_id = m->by_block ? key : live_other(place.block),
		.stack_id = stack->stack_id,
		.size_bytes = live_size_bytes(place.block),
	};
	if (unseen_reserve(&m->unseen))
		return -ENOMEM;
	if (account_end(m, place.block, stack, end.block_id))
		end.flags |= TRACE_EVENT_OLD;
	if (m->unseen.wanted)
		tell_unseen(m, event, &end);
	if (place.line)
		remove_older(m, young, live_mix(&m->live, key), place, 0);
	else
		young_leave(&m->young, young);
	m->freed_unseen++;
	return 0;
}

/* Puts a block that is expected to last there. NULL and *ret_error. */
HOT struct live_block *insert_older(struct model *m, const struct trace_event *event,
				    struct young *young, uint64_t key, int *ret_error)
{
	uint64_t mixed = live_mix(&m->live, key);
	struct live_page *page = page_with_room(m, mixed, ret_error);
	if (UNLIKELY(!page))
		return NULL;
	struct live_place place = {0};
	if (UNLIKELY(young_holds(young, key)))
		place.block = &young->block;
	else if (young_has_older(young))
		place = live_find(&m->live, page, mixed);
	if (UNLIKELY(place.block) && (*ret_error = end_unseen(m, event, young, key, place)))
		return NULL;
	young_add_older(young);
	return live_add(&m->live, page, mixed);
}

/* The place of a young block, which is not free, or the key may be in the live table. */
static struct live_block *insert_young(struct model *m, const struct trace_event *event,
				       struct young *young, uint64_t key, int *ret_error)
{
	struct live_place place = {0};
	if (young_holds(young, key))
		place.block = &young->block;
	else if (young_is_used(young) && UNLIKELY((*ret_error = move_older(m, young))))
		return NULL;
	if (!place.block && young_has_older(young)) {
		uint64_t mixed = live_mix(&m->live, key);
		place = live_find(&m->live, live_page_of(&m->live, mixed), mixed);
	}
	if (UNLIKELY(place.block) && (*ret_error = end_unseen(m, event, young, key, place)))
		return NULL;
	young_use(&m->young, young, key);
	return &young->block;
}

/* ---- apply ---- */

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

/* A block is born in this place. */
HOT void begin_block(struct model *m, struct trace_event *event, struct live_block *block,
		     struct stack_hot *stack, uint32_t slot, bool by_block)
{
	uint64_t size_bytes = event->size_bytes;
	if (UNLIKELY(size_bytes > m->size_limit))
		event->size_bytes = size_bytes = clamp_size(m, size_bytes);
	if (!by_block)
		event->block_id = m->allocations;
	struct live_facts facts = {
		.slot = slot,
		.thread_id = event->thread_id,
		.birth_slice = m->slice.slice_id,
		.size_bytes = size_bytes,
		.birth_us = m->now_us,
		.other = by_block ? event->address : event->block_id,
	};
	live_describe(block, &facts);
	account_birth(m, stack, slot, size_bytes, event->block_id);
}

static __attribute__((noinline)) int alloc_slowly(struct model *m, struct trace_event *event,
						  struct stack_hot *stack, uint32_t slot,
						  bool by_block)
{
	int error = 0;
	uint64_t key = by_block ? event->block_id : event->address;
	struct young *young = young_at(&m->young, key);
	struct live_block *block = stack->flags & STACK_LASTS
					   ? insert_older(m, event, young, key, &error)
					   : insert_young(m, event, young, key, &error);
	if (UNLIKELY(!block))
		return error;
	begin_block(m, event, block, stack, slot, by_block);
	return 0;
}

HOT int apply_alloc(struct model *m, struct trace_event *event, bool by_block)
{
	struct thread_state *thread = thread_of(&m->threads, event->thread_id);
	uint32_t slot = slot_of(m, event->stack_id) - 1;
	if (UNLIKELY(!thread) || UNLIKELY(slot == UINT32_MAX))
		return -ENOMEM;
	uint64_t key = by_block ? event->block_id : event->address;
	struct young *young = young_at(&m->young, key);
	struct stack_hot *stack = stacks_hot(&m->stacks, slot);
	if (UNLIKELY(young->block.low | (stack->flags & STACK_LASTS))) {
		int rc = alloc_slowly(m, event, stack, slot, by_block);
		if (rc)
			return rc;
	} else {
		young_use(&m->young, young, key);
		begin_block(m, event, &young->block, stack, slot, by_block);
	}
	thread->last_block = event->block_id + 1;
	return 0;
}

static int apply_realloc(struct model *m, struct trace_event *event, bool by_block)
{
	int rc = apply_alloc(m, event, by_block);
	struct thread_pending *pending =
		rc ? NULL : threads_at(&m->threads, event->thread_id)->pending;
	if (pending)
		pending->valid = false;
	return rc;
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

/* What a block's end means for what its thread does next. */
HOT void end_plain(struct model *m, struct trace_event *event, struct stack_hot *stack,
		   struct thread_state *thread)
{
	/* Of a sampled block nobody knows what else its thread did since. */
	if (thread->last_block == event->block_id + 1 && !trace_word_sampled(event->size_bytes)) {
		event->flags |= TRACE_EVENT_TEMPORARY;
		stack->temporary++;
		m->temporary++;
	}
	thread->last_block = THREAD_NO_BLOCK;
}

static void end_realloc(struct model *m, uint64_t key, const struct live_block *block,
			struct thread_state *thread)
{
	*thread->pending = (struct thread_pending){
		.valid = true,
		.key = key,
		.block = *block,
		.death_us = m->now_us,
	};
	thread->last_block = THREAD_NO_BLOCK;
}

/* The event becomes the end of this block; it is still in its place. Returns whose it was. */
HOT struct stack_hot *end_block(struct model *m, struct trace_event *event,
				struct thread_state *thread, const struct live_block *block,
				bool by_block, enum trace_op op)
{
	struct stack_hot *stack = stacks_hot(&m->stacks, block->slot);
	uint64_t key = by_block ? event->block_id : event->address;
	if (!by_block)
		event->block_id = live_other(block);
	event->stack_id = stack->stack_id;
	event->size_bytes = live_size_bytes(block);
	if (UNLIKELY(account_end(m, block, stack, event->block_id)))
		event->flags |= TRACE_EVENT_OLD;
	if (op == TRACE_FREE)
		end_plain(m, event, stack, thread);
	else if (op == TRACE_REALLOC_FREE)
		end_realloc(m, key, block, thread);
	else
		m->freed_unseen++;
	return stack;
}

/* The block is not among the young. */
HOT void free_older(struct model *m, struct trace_event *event, struct thread_state *thread,
		    bool by_block, enum trace_op op)
{
	uint64_t key = by_block ? event->block_id : event->address;
	uint64_t mixed = live_mix(&m->live, key);
	struct young *young = young_at(&m->young, key);
	struct live_place place = {0};
	if (young_has_older(young))
		place = live_find(&m->live, live_page_of(&m->live, mixed), mixed);
	if (UNLIKELY(!place.block)) {
		apply_unknown(m, event, thread);
		return;
	}
	end_block(m, event, thread, place.block, by_block, op);
	remove_older(m, young, mixed, place, event->block_id);
}

static __attribute__((noinline)) void free_plain_older(struct model *m, struct trace_event *event,
						       struct thread_state *thread, bool by_block)
{
	free_older(m, event, thread, by_block, TRACE_FREE);
}

HOT int apply_free(struct model *m, struct trace_event *event, bool by_block, enum trace_op op)
{
	struct thread_state *thread = thread_of(&m->threads, event->thread_id);
	if (UNLIKELY(!thread) || (op == TRACE_REALLOC_FREE && !thread->pending &&
				  threads_reserve_pending(&m->threads, event->thread_id)))
		return -ENOMEM;
	uint64_t key = by_block ? event->block_id : event->address;
	struct young *young = young_at(&m->young, key);
	event->flags &= (uint8_t) ~(TRACE_EVENT_TEMPORARY | TRACE_EVENT_OLD);
	if (LIKELY(young_holds(young, key))) {
		stacks_died_young(end_block(m, event, thread, &young->block, by_block, op));
		young_leave(&m->young, young);
	} else if (op == TRACE_FREE) {
		free_plain_older(m, event, thread, by_block);
	} else {
		free_older(m, event, thread, by_block, op);
	}
	return 0;
}

/* The block of a failed realloc lives on. */
static int bring_back(struct model *m, struct trace_event *event, struct thread_pending *pending)
{
	int error = 0;
	struct young *young = young_at(&m->young, pending->key);
	struct live_block *block = insert_young(m, event, young, pending->key, &error);
	if (!block)
		return error;
	pending->valid = false;
	event->block_id = m->by_block ? pending->key : live_other(&pending->block);
	pending->block.low = block->low;
	*block = pending->block;
	account_return(m, block, pending->death_us, event->block_id);
	return 0;
}

static int apply_undo(struct model *m, struct trace_event *event)
{
	struct thread_state *thread = thread_of(&m->threads, event->thread_id);
	uint32_t slot = slot_of(m, event->stack_id) - 1;
	if (!thread || slot == UINT32_MAX)
		return -ENOMEM;
	event->block_id = TRACE_NO_BLOCK;
	if (thread->pending && thread->pending->valid) {
		int rc = bring_back(m, event, thread->pending);
		if (rc)
			return rc;
	}
	thread->last_block = THREAD_NO_BLOCK;
	account_failed(m, slot);
	return 0;
}

static int apply_fail(struct model *m, struct trace_event *event)
{
	uint32_t slot = slot_of(m, event->stack_id) - 1;
	if (slot == UINT32_MAX)
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

/* All but plain allocations and frees. */
static __attribute__((noinline)) int apply_other(struct model *m, struct trace_event *event)
{
	switch ((enum trace_op)event->op) {
	case TRACE_REALLOC_ALLOC:
		return apply_realloc(m, event, m->by_block);
	case TRACE_REALLOC_FREE:
		return apply_free(m, event, m->by_block, TRACE_REALLOC_FREE);
	case TRACE_FREE_UNSEEN:
		return apply_free(m, event, m->by_block, TRACE_FREE_UNSEEN);
	case TRACE_REALLOC_UNDO:
		return apply_undo(m, event);
	case TRACE_ALLOC_FAIL:
		return apply_fail(m, event);
	case TRACE_ALLOC:
	case TRACE_FREE:
	case TRACE_FREE_OLDER:
	case TRACE_OP_COUNT:
		break;
	}
	return apply_older(m, event);
}

static __attribute__((noinline)) void next_us(struct model *m, uint64_t time_ns)
{
	uint64_t now_us = time_ns / 1000;
	if (now_us > m->now_us)
		m->now_us = LIKELY(now_us < LIVE_48_BITS) ? now_us : LIVE_48_BITS;
	m->next_us_ns = now_us < LIVE_48_BITS ? now_us * 1000 + 1000 : 0;
}

HOT int apply_one(struct model *m, struct trace_event *event, bool by_block)
{
	/* Many events fall into the same microsecond: most need no division. */
	if (UNLIKELY(event->time_ns >= m->next_us_ns))
		next_us(m, event->time_ns);
	if (event->op == TRACE_ALLOC)
		return apply_alloc(m, event, by_block);
	if (LIKELY(event->op == TRACE_FREE))
		return apply_free(m, event, by_block, TRACE_FREE);
	return apply_other(m, event);
}

/* ---- groups ---- */

static void settle_cells(struct model *m)
{
	for (uint64_t i = 0; i < m->deferred_count; i++)
		cells_add(&m->cells, m->deferred[i].key, m->deferred[i].count,
			  m->deferred[i].bytes);
	m->deferred_count = 0;
}

HOT int apply_events(struct model *m, struct trace_event *events, size_t count, bool by_block)
{
	int rc = 0;
	struct trace_event *event = events, *end = events + count;
	m->group = events;
	while (event < end && LIKELY(!(rc = apply_one(m, event, by_block))))
		event++;
	m->events += (uint64_t)(event - events);
	return rc;
}

/* Functions of their own, so that all registers are theirs. */
static __attribute__((noinline)) int apply_by_address(struct model *m, struct trace_event *events,
						      size_t count)
{
	return apply_events(m, events, count, false);
}

static __attribute__((noinline)) int apply_by_block(struct model *m, struct trace_event *events,
						    size_t count)
{
	return apply_events(m, events, count, true);
}

static int apply_group(struct model *m, struct trace_event *events, size_t count)
{
	int rc =
		m->by_block ? apply_by_block(m, events, count) : apply_by_address(m, events, count);
	settle_cells(m);
	return rc;
}

static int reserve(struct model *m)
{
	if (m->allocations + MODEL_GROUP > LIVE_48_BITS ||
	    m->events - m->slice.first_event >= MODEL_SLICE_EVENTS_MAX)
		return -EOVERFLOW;
	m->size_limit = m->allocated_bytes >> 62 ? 0 : LIVE_48_BITS;
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
	struct warm_ahead ahead;
	ahead.lines = ahead.blocks = ahead.stacks = 0;
	if (count > 0 && m->events == m->slice.first_event)
		m->slice.clock_us = events[0].time_ns / 1000;
	for (size_t done = 0; done < count;) {
		size_t part = count - done < MODEL_GROUP ? count - done : MODEL_GROUP;
		part = settle_rss(m, events + done, part);
		int rc = reserve(m);
		if (rc)
			return fail(m, rc, err);
		if (warm_helps(m))
			warm_tables(m, events, done + part, count, &ahead);
		rc = apply_group(m, events + done, part);
		if (rc)
			return fail(m, rc, err);
		done += part;
	}
	return 0;
}
