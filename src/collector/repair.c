/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/repair.h"

#include <string.h>

#include "base/memory.h"

enum {
	SLOT_COUNT = 2 * REPAIR_EVENTS_MAX, /* a power of two */
	NONE = UINT16_MAX,
};

enum state { DEAD = 0, LIVE = 1, UNKNOWN = 2 };

/* What this batch has done to an address so far. */
struct slot {
	uint64_t address;
	uint16_t generation;  /* of the scan; another: empty */
	uint16_t last;        /* index of its last event */
	uint8_t before_last;  /* enum state before `last` */
	uint8_t now;          /* enum state, in reorder() */
};

/* A thread whose next event cannot be yet. */
struct waiting {
	uint32_t thread_id;
	uint16_t first, last; /* its events, linked by next[] */
};

struct repair {
	uint16_t generation;
	uint16_t next[REPAIR_EVENTS_MAX];
	struct waiting waiting[REPAIR_EVENTS_MAX];
	size_t waiting_count;
	struct slot slots[SLOT_COUNT];
	struct trace_event out[REPAIR_EVENTS_MAX];
	size_t out_count;
	uint64_t times[REPAIR_EVENTS_MAX];
};

struct repair *repair_new(void)
{
	return tm_alloc(sizeof(struct repair));
}

struct repair *repair_free(struct repair *repair)
{
	return tm_free(repair);
}

static bool begins(const struct trace_event *event)
{
	return event->op == TRACE_ALLOC || event->op == TRACE_REALLOC_ALLOC;
}

static bool ends(const struct trace_event *event)
{
	return event->op == TRACE_FREE || event->op == TRACE_REALLOC_FREE;
}

static void next_generation(struct repair *repair)
{
	if (++repair->generation == 0) {
		memset(repair->slots, 0, sizeof repair->slots);
		repair->generation = 1;
	}
}

/* The address's slot; *ret_new when this scan has not seen it before. */
static inline struct slot *find_slot(struct repair *repair, uint64_t address, bool *ret_new)
{
	uint32_t at = (uint32_t)((address >> 4) * 0x9e3779b97f4a7c15ull >> 40) % SLOT_COUNT;
	for (;; at = (at + 1) % SLOT_COUNT) {
		struct slot *slot = &repair->slots[at];
		if (slot->generation != repair->generation) {
			slot->address = address;
			slot->generation = repair->generation;
			*ret_new = true;
			return slot;
		}
		if (slot->address == address) {
			*ret_new = false;
			return slot;
		}
	}
}

/* ---- is anything wrong? ---- */

/* Two neighbours on one address, of different threads: do they contradict what was before? */
static bool contradicts(const struct model *model, const struct slot *slot,
			const struct trace_event *last, const struct trace_event *event)
{
	if (last->thread_id == event->thread_id ||
	    event->time_ns - last->time_ns > REPAIR_WINDOW_NS)
		return false;
	if (begins(last) == begins(event))
		return true;
	bool was_live = slot->before_last == UNKNOWN ? model_is_live(model, slot->address)
						     : slot->before_last == LIVE;
	return was_live == begins(last);
}

static bool is_wrong(struct repair *repair, const struct model *model,
		     const struct trace_event *events, size_t count)
{
	next_generation(repair);
	for (size_t i = 0; i < count; i++) {
		bool is_new;
		if (!begins(&events[i]) && !ends(&events[i]))
			continue;
		struct slot *slot = find_slot(repair, events[i].address, &is_new);
		if (is_new) {
			slot->before_last = UNKNOWN;
		} else {
			const struct trace_event *last = &events[slot->last];
			if (contradicts(model, slot, last, &events[i]))
				return true;
			slot->before_last = begins(last) ? LIVE : DEAD;
		}
		slot->last = (uint16_t)i;
	}
	return false;
}

/* ---- putting it right ---- */

static struct waiting *find_waiting(struct repair *repair, uint32_t thread_id)
{
	for (size_t i = 0; i < repair->waiting_count; i++)
		if (repair->waiting[i].thread_id == thread_id)
			return &repair->waiting[i];
	return NULL;
}

static struct slot *state_of(struct repair *repair, const struct model *model, uint64_t address)
{
	bool is_new;
	struct slot *slot = find_slot(repair, address, &is_new);
	if (is_new)
		slot->now = model_is_live(model, address) ? LIVE : DEAD;
	return slot;
}

static bool is_possible(struct repair *repair, const struct model *model,
			const struct trace_event *event)
{
	if (begins(event))
		return state_of(repair, model, event->address)->now == DEAD;
	return !ends(event) || state_of(repair, model, event->address)->now == LIVE;
}

static void emit(struct repair *repair, const struct model *model, const struct trace_event *event)
{
	if (begins(event) || ends(event))
		state_of(repair, model, event->address)->now = begins(event) ? LIVE : DEAD;
	repair->out[repair->out_count++] = *event;
}

/* The thread's events as far as they go; by_force: the first goes in any case. */
static void resume(struct repair *repair, const struct model *model,
		   const struct trace_event *events, size_t which, bool by_force)
{
	struct waiting *waiting = &repair->waiting[which];
	while (waiting->first != NONE) {
		const struct trace_event *event = &events[waiting->first];
		if (!by_force && !is_possible(repair, model, event))
			return;
		by_force = false;
		emit(repair, model, event);
		waiting->first = repair->next[waiting->first];
	}
	*waiting = repair->waiting[--repair->waiting_count];
}

/* What has become possible goes; what has waited for too long goes by force. */
static void resume_all(struct repair *repair, const struct model *model,
		       const struct trace_event *events, uint64_t now_ns)
{
	for (size_t i = 0; i < repair->waiting_count;) {
		size_t out_before = repair->out_count, waiting_before = repair->waiting_count;
		const struct trace_event *first = &events[repair->waiting[i].first];
		bool late = now_ns - first->time_ns > REPAIR_WINDOW_NS;
		resume(repair, model, events, i, late);
		if (repair->waiting_count < waiting_before || repair->out_count > out_before)
			i = 0; /* it may have made room for another */
		else
			i++;
	}
}

static void wait_behind(struct repair *repair, struct waiting *waiting, size_t at)
{
	repair->next[at] = NONE;
	repair->next[waiting->last] = (uint16_t)at;
	waiting->last = (uint16_t)at;
}

static void begin_waiting(struct repair *repair, uint32_t thread_id, size_t at)
{
	repair->next[at] = NONE;
	repair->waiting[repair->waiting_count++] = (struct waiting){
		.thread_id = thread_id, .first = (uint16_t)at, .last = (uint16_t)at};
}

static unsigned reorder(struct repair *repair, const struct model *model,
			struct trace_event *events, size_t count)
{
	unsigned waited = 0;
	next_generation(repair);
	repair->out_count = repair->waiting_count = 0;
	for (size_t i = 0; i < count; i++) {
		repair->times[i] = events[i].time_ns;
		struct waiting *waiting = find_waiting(repair, events[i].thread_id);
		if (waiting) {
			wait_behind(repair, waiting, i);
		} else if (!is_possible(repair, model, &events[i])) {
			begin_waiting(repair, events[i].thread_id, i);
			waited++;
		} else {
			emit(repair, model, &events[i]);
		}
		if (repair->waiting_count)
			resume_all(repair, model, events, events[i].time_ns);
	}
	for (size_t i = 0; i < repair->waiting_count; i++)
		for (uint16_t at = repair->waiting[i].first; at != NONE; at = repair->next[at])
			repair->out[repair->out_count++] = events[at];
	memcpy(events, repair->out, count * sizeof *events);
	for (size_t i = 0; i < count; i++)
		events[i].time_ns = repair->times[i];
	return waited;
}

unsigned repair_order(struct repair *repair, const struct model *model, struct trace_event *events,
		      size_t count)
{
	return is_wrong(repair, model, events, count) ? reorder(repair, model, events, count) : 0;
}
