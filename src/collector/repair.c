/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/repair.h"

#include <string.h>

#include "base/memory.h"

enum {
	SLOT_COUNT = 2 * REPAIR_EVENTS_MAX, /* a power of two */
	MOVES_MAX = 32,                     /* per batch: more is no skew but nonsense */
};

enum state { DEAD = 0, LIVE = 1, UNKNOWN = 2 };

/* What this batch has done to an address so far. */
struct slot {
	uint64_t address;
	uint16_t generation; /* of the batch; another: empty */
	uint16_t last;       /* index of its last event */
	uint16_t begin;      /* index + 1 of its last allocation; 0 none */
	uint8_t before_last; /* enum state before `last` */
	uint8_t before_begin;
};

struct repair {
	uint16_t generation;
	struct slot slots[SLOT_COUNT];
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

/* The address's slot; *ret_new when this batch has not seen it before. */
static struct slot *find_slot(struct repair *repair, uint64_t address, bool *ret_new)
{
	uint32_t at = (uint32_t)((address >> 4) * 0x9e3779b97f4a7c15ull >> 40) % SLOT_COUNT;
	for (;; at = (at + 1) % SLOT_COUNT) {
		struct slot *slot = &repair->slots[at];
		if (slot->generation != repair->generation) {
			*slot = (struct slot){.address = address, .generation = repair->generation};
			*ret_new = true;
			return slot;
		}
		if (slot->address == address) {
			*ret_new = false;
			return slot;
		}
	}
}

static bool crossed_by(const struct trace_event *events, size_t from, size_t to, uint32_t thread_id)
{
	for (size_t i = from + 1; i < to; i++)
		if (events[i].thread_id == thread_id)
			return true;
	return false;
}

/*
 * Events i < j change their order. The one moves whose thread did nothing in
 * between, so that each thread's own order stays.
 */
static void exchange(struct trace_event *events, size_t i, size_t j)
{
	uint64_t times[REPAIR_EVENTS_MAX];
	struct trace_event moving;
	for (size_t k = i; k <= j; k++)
		times[k] = events[k].time_ns;
	if (crossed_by(events, i, j, events[j].thread_id) &&
	    !crossed_by(events, i, j, events[i].thread_id)) {
		moving = events[i];
		memmove(events + i, events + i + 1, (j - i) * sizeof *events);
		events[j] = moving;
	} else {
		moving = events[j];
		memmove(events + i + 1, events + i, (j - i) * sizeof *events);
		events[i] = moving;
	}
	for (size_t k = i; k <= j; k++)
		events[k].time_ns = times[k];
}

static bool is(const struct model *model, const struct slot *slot, uint8_t state, enum state wanted)
{
	if (state == UNKNOWN)
		return model_is_live(model, slot->address) == (wanted == LIVE);
	return state == wanted;
}

static bool near(const struct trace_event *a, const struct trace_event *b)
{
	return a->thread_id != b->thread_id && b->time_ns - a->time_ns <= REPAIR_WINDOW_NS;
}

/* Must event `at` come before an earlier one? Its index, or SIZE_MAX. */
static size_t misplaced(const struct model *model, const struct slot *slot,
			const struct trace_event *events, size_t at)
{
	const struct trace_event *event = &events[at], *last = &events[slot->last];
	if (begins(event)) {
		/* A free of a block that is not there, then its allocation. */
		if (ends(last) && near(last, event) && is(model, slot, slot->before_last, DEAD))
			return slot->last;
		return SIZE_MAX;
	}
	/* An allocation where a block is, then that block's free. */
	if (begins(last) && near(last, event) && is(model, slot, slot->before_last, LIVE))
		return slot->last;
	/* The same, but the new block was freed as well meanwhile. */
	if (ends(last) && slot->begin && near(&events[slot->begin - 1], event) &&
	    is(model, slot, slot->before_begin, LIVE))
		return slot->begin - 1;
	return SIZE_MAX;
}

static void note(struct slot *slot, const struct trace_event *events, size_t at, bool is_new)
{
	uint8_t before = is_new ? UNKNOWN : begins(&events[slot->last]) ? LIVE : DEAD;
	slot->before_last = before;
	slot->last = (uint16_t)at;
	if (begins(&events[at])) {
		slot->before_begin = before;
		slot->begin = (uint16_t)(at + 1);
	}
}

/* Goes through until something is moved. True: go through again. */
static bool move_one(struct repair *repair, const struct model *model, struct trace_event *events,
		     size_t count)
{
	next_generation(repair);
	for (size_t i = 0; i < count; i++) {
		bool is_new;
		if (!begins(&events[i]) && !ends(&events[i]))
			continue;
		struct slot *slot = find_slot(repair, events[i].address, &is_new);
		if (!is_new) {
			size_t before = misplaced(model, slot, events, i);
			if (before != SIZE_MAX) {
				exchange(events, before, i);
				return true;
			}
		}
		note(slot, events, i, is_new);
	}
	return false;
}

unsigned repair_order(struct repair *repair, const struct model *model, struct trace_event *events,
		      size_t count)
{
	unsigned moves = 0;
	while (moves < MOVES_MAX && move_one(repair, model, events, count))
		moves++;
	return moves;
}
