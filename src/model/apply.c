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
	uint64_t mixed[AHEAD_RING];   /* a stale one is a useless hint */
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
		const struct young *young = young_at(&m->young, key);
		size_t at = ahead->lines % AHEAD_RING;
		ahead->found[at] = young_holds(young, key) ? &young->block : NULL;
		if (!ends_block(event) && young_is_used(young))
			live_prefetch(&m->live, live_mix(&m->live, young->key));
		if (ahead->found[at] || !young_has_older(young))
			continue;
		ahead->mixed[at] = live_mix(&m->live, key);
		live_prefetch(&m->live, ahead->mixed[at]);
	}
}

static void warm_blocks(const struct model *m, const struct trace_event *events, size_t end,
			struct ahead *ahead)
{
	for (; ahead->blocks < end; ahead->blocks++) {
		const struct trace_event *event = &events[ahead->blocks];
		size_t at = ahead->blocks % AHEAD_RING;
		if (!ends_block(event))
			ahead->found[at] = NULL;
		if (!ends_block(event) || ahead->found[at])
			continue;
		ahead->found[at] = likely_block(&m->live, ahead->mixed[at]);
		if (ahead->found[at])
			__builtin_prefetch(ahead->found[at], 1);
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

/* The block of this place moves to the live table. Nothing changes on failure. */
static int move_older(struct model *m, struct young *young)
{
	uint64_t mixed = live_mix(&m->live, young->key);
	struct live_page *page = live_page_of(&m->live, mixed);
	if (UNLIKELY(live_page_is_full(page))) {
		int rc = live_split_page(&m->live, mixed);
		if (rc)
			return rc;
		page = live_page_of(&m->live, mixed);
	}
	struct live_block *block = live_add(&m->live, page, mixed);
	block->slot = young->block.slot;
	block->size_thread = young->block.size_thread;
	block->birth_thread = young->block.birth_thread;
	block->other_slice = young->block.other_slice;
	young_leave(&m->young, young);
	young_add_older(young);
	return 0;
}

/* ---- apply ---- */

static __attribute__((noinline)) struct live_place find_older(const struct model *m, uint64_t key)
{
	uint64_t mixed = live_mix(&m->live, key);
	return live_find(&m->live, live_page_of(&m->live, mixed), mixed);
}

/* A place in the live table's lines, or a young one without a line. */
HOT struct live_place find_block(const struct model *m, struct young *young, uint64_t key)
{
	if (LIKELY(young_holds(young, key)))
		return (struct live_place){.block = &young->block};
	return young_has_older(young) ? find_older(m, key) : (struct live_place){0};
}

static __attribute__((noinline)) void remove_older(struct model *m, struct young *young,
						   uint64_t key, struct live_place place)
{
	uint64_t mixed = live_mix(&m->live, key);
	live_remove(&m->live, live_page_of(&m->live, mixed), mixed, place);
	young_drop_older(young);
}

HOT void remove_block(struct model *m, struct young *young, uint64_t key, struct live_place place)
{
	if (LIKELY(!place.line))
		young_leave(&m->young, young);
	else
		remove_older(m, young, key, place);
}

/*
 * The place is not free, or the key may be in the live table. A block that still
 * seems to live there ends unseen.
 */
static __attribute__((noinline)) int make_place(struct model *m, struct young *young, uint64_t key)
{
	if (young_is_used(young) && young->key != key) {
		int rc = move_older(m, young);
		if (rc)
			return rc;
	}
	struct live_place place = find_block(m, young, key);
	if (UNLIKELY(place.block)) {
		account_end(m, place.block, stacks_hot(&m->stacks, place.block->slot));
		remove_block(m, young, key, place);
		m->freed_unseen++;
	}
	return 0;
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

HOT int apply_alloc(struct model *m, struct trace_event *event, bool by_block)
{
	struct thread_state *thread = thread_of(&m->threads, event->thread_id);
	uint32_t slot = slot_of(m, event->stack_id) - 1;
	if (UNLIKELY(!thread) || UNLIKELY(slot == UINT32_MAX))
		return -ENOMEM;
	uint64_t key = by_block ? event->block_id : event->address;
	struct young *young = young_at(&m->young, key);
	if (UNLIKELY(young->block.low)) {
		int rc = make_place(m, young, key);
		if (rc)
			return rc;
	}
	young_use(&m->young, young, key);
	uint64_t size_bytes = event->size_bytes;
	if (UNLIKELY(size_bytes > m->size_limit))
		event->size_bytes = size_bytes = clamp_size(m, size_bytes);
	if (!by_block)
		event->block_id = m->allocations;
	/* Gathered only now: before, they would take registers that the insertion needs. */
	struct live_facts facts = {
		.slot = slot,
		.thread_id = event->thread_id,
		.birth_slice = m->slice.slice_id,
		.size_bytes = size_bytes,
		.birth_us = m->now_us,
		.other = by_block ? event->address : event->block_id,
	};
	live_describe(&young->block, &facts);
	thread->last_block = event->block_id + 1;
	account_birth(m, slot, size_bytes);
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
	if (thread->last_block == event->block_id + 1) {
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

HOT int apply_free(struct model *m, struct trace_event *event, bool by_block, enum trace_op op)
{
	struct thread_state *thread = thread_of(&m->threads, event->thread_id);
	if (UNLIKELY(!thread) || (op == TRACE_REALLOC_FREE && !thread->pending &&
				  threads_reserve_pending(&m->threads, event->thread_id)))
		return -ENOMEM;
	uint64_t key = by_block ? event->block_id : event->address;
	struct young *young = young_at(&m->young, key);
	struct live_place place = find_block(m, young, key);
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
	if (UNLIKELY(account_end(m, place.block, stack)))
		event->flags |= TRACE_EVENT_OLD;
	if (op == TRACE_FREE)
		end_plain(m, event, stack, thread);
	else if (op == TRACE_REALLOC_FREE)
		end_realloc(m, key, place.block, thread);
	else
		m->freed_unseen++;
	remove_block(m, young, key, place);
	return 0;
}

/* The block of a failed realloc lives on. */
static int bring_back(struct model *m, struct trace_event *event, struct thread_pending *pending)
{
	struct young *young = young_at(&m->young, pending->key);
	int rc = young->block.low ? make_place(m, young, pending->key) : 0;
	if (rc)
		return rc;
	pending->valid = false;
	event->block_id = m->by_block ? pending->key : live_other(&pending->block);
	young_use(&m->young, young, pending->key);
	pending->block.low = young->block.low;
	young->block = pending->block;
	account_return(m, &young->block, pending->death_us);
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
		rc = apply_group(m, events + done, part);
		if (rc)
			return fail(m, rc, err);
		done += part;
	}
	return 0;
}
