/* SPDX-License-Identifier: Apache-2.0 */
#include "model/known.h"

#include <errno.h>

#include "model/account.h"
#include "model/state.h"

#define SUM_MAX (1ull << 62)

static uint32_t slot_of(struct model *m, uint32_t stack_id)
{
	uint32_t found = stacks_find(&m->stacks, stack_id), slot;
	if (LIKELY(found))
		return found;
	return stacks_make_slot(&m->stacks, stack_id, &slot) ? 0 : slot + 1;
}

static void end_block(struct model *m, struct trace_event *event, uint32_t slot)
{
	struct stack_hot *stack = stacks_hot(&m->stacks, slot);
	stacks_touch(&m->stacks, stack, slot, m->epoch);
	m->unlisted--;
	m->live_bytes -= event->size_bytes;
	if (m->live_bytes < m->slice.min_bytes)
		m->slice.min_bytes = m->live_bytes;
	if (event->flags & TRACE_EVENT_TEMPORARY) {
		stack->temporary++;
		m->temporary++;
	}
	if (event->address == m->slice.slice_id) {
		stack->deaths++;
		stack->death_bytes += event->size_bytes;
		return;
	}
	event->flags |= TRACE_EVENT_OLD;
	stack->base_blocks--;
	stack->base_bytes -= event->size_bytes;
	account_defer_cell(m, cell_key(slot, CELL_DEATH, (uint32_t)event->address), 1,
			   event->size_bytes);
}

static int apply_one(struct model *m, struct trace_event *event)
{
	uint32_t slot = slot_of(m, event->stack_id) - 1;
	if (UNLIKELY(slot == UINT32_MAX))
		return -ENOMEM;
	uint64_t now_us = event->time_ns / 1000;
	if (now_us > m->now_us)
		m->now_us = now_us < LIVE_48_BITS ? now_us : LIVE_48_BITS;
	if (event->op == TRACE_FREE) {
		end_block(m, event, slot);
		return 0;
	}
	m->unlisted++;
	account_birth(m, stacks_hot(&m->stacks, slot), slot, event->size_bytes, event->block_id);
	return 0;
}

static int apply_group(struct model *m, struct trace_event *events, size_t count)
{
	int rc = 0;
	size_t i = 0;
	while (i < count && !(rc = apply_one(m, &events[i])))
		i++;
	m->events += i;
	for (uint64_t k = 0; k < m->deferred_count; k++)
		cells_add(&m->cells, m->deferred[k].key, m->deferred[k].count,
			  m->deferred[k].bytes);
	m->deferred_count = 0;
	return rc;
}

/* What was live at the largest sample: see model_apply(). */
static size_t settle_rss(struct model *m, const struct trace_event *events, size_t count)
{
	size_t before = 0;
	if (LIKELY(m->rss.heap_known))
		return count;
	while (before < count && events[before].time_ns / 1000 <= m->rss.time_us)
		before++;
	if (before > 0)
		return before;
	m->rss.heap_known = true;
	m->rss.heap_bytes = m->live_bytes;
	return count;
}

int model_apply_known(struct model *m, struct trace_event *events, size_t count,
		      struct tm_error *err)
{
	if (count > 0 && m->events == m->slice.first_event)
		m->slice.clock_us = events[0].time_ns / 1000;
	for (size_t done = 0; done < count;) {
		size_t part = count - done < MODEL_GROUP ? count - done : MODEL_GROUP;
		part = settle_rss(m, events + done, part);
		int rc = cells_reserve(&m->cells, MODEL_DEFERRED);
		if (m->allocated_bytes > SUM_MAX || m->allocations > LIVE_48_BITS ||
		    m->events - m->slice.first_event >= MODEL_SLICE_EVENTS_MAX)
			rc = -EOVERFLOW;
		if (!rc)
			rc = apply_group(m, events + done, part);
		if (rc)
			return tm_fail(err, rc,
				       rc == -ENOMEM ? "no memory for the figures of the stacks"
						     : "the sums are beyond any memory");
		done += part;
	}
	return 0;
}

uint32_t model_open_slice(const struct model *m)
{
	return m->slice.slice_id;
}
