/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/repair.h"

#include <string.h>

#include "base/memory.h"

enum {
	SLOT_COUNT = 2 * REPAIR_EVENTS_MAX, /* a power of two */
	NONE = UINT16_MAX,
};

enum state { DEAD = 0, LIVE = 1, UNKNOWN = 2 };

/*
 * For the quick look at every batch: what it has done to an address so far.
 * Addresses are known by 44 bits of their hash; two that share them are at worst
 * taken for a contradiction, which reorder() then does not find.
 */
struct trail {
	uint32_t tag;  /* of the address */
	uint16_t last; /* index of its last event */
	uint16_t mark; /* generation << 2 | enum state before `last`; another generation: empty */
};

/* For putting it right: exact. */
struct slot {
	uint64_t address;
	uint16_t generation; /* of the scan; another: empty */
	uint16_t maker; /* index of the event that made it so, or NONE: it was so before this batch
			 */
	uint8_t now;    /* enum state */
};

/* A thread whose next event cannot be yet. */
struct waiting {
	uint32_t thread_id;
	bool gave_way;        /* its first event ends what is to come, for certain */
	uint16_t first, last; /* its events, linked by next[] */
};

struct repair {
	bool strangers;
	bool has_undone; /* some UNDO of the batch has the address of the block that comes back */
	unsigned doubtful;
	uint16_t trail_generation; /* 14 bits */
	struct trail trails[SLOT_COUNT];
	uint16_t generation;
	uint16_t next[REPAIR_EVENTS_MAX];
	struct waiting waiting[REPAIR_EVENTS_MAX];
	size_t waiting_count;
	struct slot slots[SLOT_COUNT];
	uint16_t out[REPAIR_EVENTS_MAX]; /* indices in their new order */
	size_t out_count;
	struct trace_event copy[REPAIR_EVENTS_MAX];
};

struct repair *repair_new(void)
{
	return tm_alloc(sizeof(struct repair));
}

struct repair *repair_free(struct repair *repair)
{
	return tm_free(repair);
}

/* A failed realloc begins its old block again, where that is known: find_undone(). */
static bool begins(const struct trace_event *event)
{
	return event->op == TRACE_ALLOC || event->op == TRACE_REALLOC_ALLOC ||
	       (event->op == TRACE_REALLOC_UNDO && event->address);
}

static bool ends(const struct trace_event *event)
{
	return event->op == TRACE_FREE || event->op == TRACE_REALLOC_FREE;
}

/*
 * An end that may be that of a block nobody recorded: whether it is depends on what was there, and
 * it waits for nothing.
 */
static bool may_be_none(const struct repair *repair, const struct trace_event *event)
{
	return (event->flags & TRACE_EVENT_OUTSIDE) || (repair->strangers && ends(event));
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

_Static_assert(TRACE_ALLOC < 4 && TRACE_FREE < 4 && TRACE_REALLOC_FREE < 4 &&
		       TRACE_REALLOC_ALLOC == 3 && TRACE_REALLOC_UNDO == 4,
	       "the operations that begin or end a block are the first five");

/*
 * The failure of a realloc does not tell of which block: of the one that its thread's last
 * REALLOC_FREE ended. Until repair_order() is done the event has its address.
 */
static void find_undone(struct repair *repair, const struct model *model,
			struct trace_event *events, size_t at)
{
	uint32_t thread_id = events[at].thread_id;
	repair->has_undone = true;
	for (size_t i = at; i-- > 0;)
		if (events[i].thread_id == thread_id && events[i].op >= TRACE_REALLOC_FREE &&
		    events[i].op <= TRACE_REALLOC_UNDO) {
			bool begun = events[i].op == TRACE_REALLOC_FREE;
			events[at].address = begun ? events[i].address : 0;
			return;
		}
	events[at].address = model_realloc_address(model, thread_id);
}

static void forget_undone(struct repair *repair, struct trace_event *events, size_t count)
{
	for (size_t i = 0; repair->has_undone && i < count; i++)
		if (events[i].op == TRACE_REALLOC_UNDO)
			events[i].address = 0;
	repair->has_undone = false;
}

static void next_trails(struct repair *repair)
{
	repair->trail_generation = (repair->trail_generation + 1) & 0x3fff;
	if (repair->trail_generation == 0) {
		memset(repair->trails, 0, sizeof repair->trails);
		repair->trail_generation = 1;
	}
}

/* Two neighbours on one address: do they contradict each other, or what was before? */
static bool contradicts(struct repair *repair, const struct model *model, enum state before,
			const struct trace_event *last, const struct trace_event *event)
{
	if (last->thread_id == event->thread_id ||
	    event->time_ns - last->time_ns > REPAIR_WINDOW_NS)
		return false;
	if (begins(last) == begins(event))
		return !may_be_none(repair, event);
	bool was_live = before == UNKNOWN ? model_is_live(model, event->address) : before == LIVE;
	if (was_live != begins(last))
		return false;
	bool none = may_be_none(repair, last);
	repair->doubtful += none && repair->strangers;
	return !none;
}

static bool is_wrong(struct repair *repair, const struct model *model, struct trace_event *events,
		     size_t count)
{
	next_trails(repair);
	for (size_t i = 0; i < count; i++) {
		if (events[i].op == TRACE_REALLOC_UNDO)
			find_undone(repair, model, events, i);
		if (events[i].op > TRACE_REALLOC_ALLOC && !begins(&events[i]))
			continue;
		uint64_t hash = (events[i].address >> 3) * 0x9e3779b97f4a7c15ull;
		uint32_t tag = (uint32_t)(hash >> 32), at = (uint32_t)(hash >> 20) % SLOT_COUNT;
		struct trail *trail = &repair->trails[at];
		while (trail->mark >> 2 == repair->trail_generation && trail->tag != tag)
			trail = &repair->trails[at = (at + 1) % SLOT_COUNT];
		enum state before = UNKNOWN;
		if (trail->mark >> 2 == repair->trail_generation) {
			const struct trace_event *last = &events[trail->last];
			if (contradicts(repair, model, trail->mark & 3, last, &events[i]))
				return true;
			before = begins(last) ? LIVE : DEAD;
		}
		*trail = (struct trail){.tag = tag,
					.last = (uint16_t)i,
					.mark = (uint16_t)(repair->trail_generation << 2 | before)};
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
	if (is_new) {
		slot->now = model_is_live(model, address) ? LIVE : DEAD;
		slot->maker = NONE;
	}
	return slot;
}

/* Its address is as it must be before a begin or an end. */
static bool fits(struct repair *repair, const struct model *model, const struct trace_event *event)
{
	return state_of(repair, model, event->address)->now == (begins(event) ? DEAD : LIVE);
}

static bool is_possible(struct repair *repair, const struct model *model,
			const struct trace_event *event)
{
	if (!begins(event) && (!ends(event) || may_be_none(repair, event)))
		return true;
	return fits(repair, model, event);
}

static void emit(struct repair *repair, const struct model *model, const struct trace_event *events,
		 size_t at)
{
	const struct trace_event *event = &events[at];
	if (begins(event) || ends(event)) {
		struct slot *slot = state_of(repair, model, event->address);
		if (begins(event) || slot->now == LIVE || !may_be_none(repair, event)) {
			slot->now = begins(event) ? LIVE : DEAD;
			slot->maker = (uint16_t)at;
		}
	}
	repair->out[repair->out_count++] = (uint16_t)at;
}

/* The thread's events as far as they go; by_force: the first goes in any case. */
static void resume(struct repair *repair, const struct model *model,
		   const struct trace_event *events, size_t which, bool by_force)
{
	struct waiting *waiting = &repair->waiting[which];
	while (waiting->first != NONE) {
		const struct trace_event *event = &events[waiting->first];
		bool possible = waiting->gave_way ? fits(repair, model, event)
						  : is_possible(repair, model, event);
		if (!by_force && !possible)
			return;
		by_force = waiting->gave_way = false;
		emit(repair, model, events, waiting->first);
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

/*
 * After event `at`, within the window: the first that does the contrary to its
 * address. count if there is none.
 */
static size_t next_contrary(const struct trace_event *events, size_t count, size_t at)
{
	bool wanted_begin = ends(&events[at]);
	for (size_t i = at + 1; i < count; i++) {
		if (events[i].time_ns - events[at].time_ns > REPAIR_WINDOW_NS)
			return count;
		if (events[i].address == events[at].address &&
		    (wanted_begin ? begins(&events[i]) : ends(&events[i])))
			return i;
	}
	return count;
}

/*
 * Two threads in a row did the same to an address, `at` and before it what its
 * slot names. Which one is early? If the thread of `at` is also the next to do
 * the contrary, then it did both in one go, and the other one came after them:
 *
 *   allocations   B makes it, A makes and frees it: A's block was there first
 *   frees         B frees it, A frees and makes it again: it is A's second
 *                 block that B frees
 *
 * The other then waits instead, provided its thread has done nothing since.
 */
static bool other_gives_way(struct repair *repair, const struct model *model,
			    const struct trace_event *events, size_t count, size_t at)
{
	struct slot *slot = state_of(repair, model, events[at].address);
	size_t other = slot->maker, place = repair->out_count;
	if (other == NONE || events[other].thread_id == events[at].thread_id ||
	    events[at].time_ns - events[other].time_ns > REPAIR_WINDOW_NS)
		return false;
	size_t contrary = next_contrary(events, count, at);
	if (contrary == count || events[contrary].thread_id != events[at].thread_id)
		return false;
	while (place > 0 && repair->out[place - 1] != other)
		if (events[repair->out[--place]].thread_id == events[other].thread_id)
			return false;
	if (place == 0 || find_waiting(repair, events[other].thread_id))
		return false;
	memmove(repair->out + place - 1, repair->out + place,
		(repair->out_count - place) * sizeof *repair->out);
	repair->out_count--;
	slot->now = begins(&events[at]) ? DEAD : LIVE;
	slot->maker = NONE;
	begin_waiting(repair, events[other].thread_id, other);
	repair->waiting[repair->waiting_count - 1].gave_way = true;
	emit(repair, model, events, at);
	return true;
}

static unsigned reorder(struct repair *repair, const struct model *model,
			struct trace_event *events, size_t count)
{
	unsigned waited = 0;
	next_generation(repair);
	repair->out_count = repair->waiting_count = 0;
	for (size_t i = 0; i < count; i++)
		if (events[i].op == TRACE_REALLOC_UNDO)
			find_undone(repair, model, events, i);
	for (size_t i = 0; i < count; i++) {
		struct waiting *waiting = find_waiting(repair, events[i].thread_id);
		if (waiting) {
			wait_behind(repair, waiting, i);
		} else if (is_possible(repair, model, &events[i])) {
			emit(repair, model, events, i);
		} else {
			waited++;
			if (!other_gives_way(repair, model, events, count, i))
				begin_waiting(repair, events[i].thread_id, i);
		}
		if (repair->waiting_count)
			resume_all(repair, model, events, events[i].time_ns);
	}
	for (size_t i = 0; i < repair->waiting_count; i++)
		for (uint16_t at = repair->waiting[i].first; at != NONE; at = repair->next[at])
			repair->out[repair->out_count++] = at;
	memcpy(repair->copy, events, count * sizeof *events);
	for (size_t i = 0; i < count; i++) {
		events[i] = repair->copy[repair->out[i]];
		events[i].time_ns = repair->copy[i].time_ns;
	}
	return waited;
}

unsigned repair_order(struct repair *repair, const struct model *model, bool strangers,
		      struct trace_event *events, size_t count)
{
	unsigned waited = 0;
	repair->strangers = strangers;
	repair->doubtful = 0;
	if (is_wrong(repair, model, events, count))
		waited = reorder(repair, model, events, count);
	forget_undone(repair, events, count);
	return waited;
}

unsigned repair_doubtful(const struct repair *repair)
{
	return repair->doubtful;
}
