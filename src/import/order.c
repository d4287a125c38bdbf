/* SPDX-License-Identifier: Apache-2.0 */
#include "import/order.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"

enum {
	NEAR_MOVES = 4,  /* per event, while sorting by moving neighbours is the faster way */
	LOOK_AHEAD = 64, /* events of one time */
	DIGIT_BITS = 11,
	DIGITS = 1 << DIGIT_BITS,
};
#define TIME_BITS (64 - ORDER_LOG2)

struct order {
	struct events *events;
	size_t count;
	struct trace_event *held;  /* ORDER_EVENTS */
	struct trace_event *spare; /* half of that */
	uint64_t *keys, *other;    /* time << ORDER_LOG2 | place */
	uint32_t *counts;          /* DIGITS */
};

int order_new(struct events *events, struct order **ret_order, struct tm_error *err)
{
	struct order *o = tm_alloc(sizeof *o);
	if (o) {
		o->events = events;
		o->held = tm_grow_array(NULL, ORDER_EVENTS, sizeof *o->held);
		o->spare = tm_grow_array(NULL, ORDER_EVENTS / 2, sizeof *o->spare);
		o->keys = tm_grow_array(NULL, ORDER_EVENTS, sizeof *o->keys);
		o->other = tm_grow_array(NULL, ORDER_EVENTS, sizeof *o->other);
		o->counts = tm_grow_array(NULL, DIGITS, sizeof *o->counts);
	}
	if (!o || !o->held || !o->spare || !o->keys || !o->other || !o->counts) {
		order_free(o);
		return tm_fail(err, -ENOMEM, "no memory to put the events in order");
	}
	*ret_order = o;
	return 0;
}

struct order *order_free(struct order *order)
{
	if (!order)
		return NULL;
	tm_free(order->held);
	tm_free(order->spare);
	tm_free(order->keys);
	tm_free(order->other);
	tm_free(order->counts);
	return tm_free(order);
}

/* ---- sorting ---- */

/* Fast where few are out of order. False: they are many; some are sorted by now. */
static bool sort_near(uint64_t *keys, size_t count)
{
	size_t moves = 0, most = count * NEAR_MOVES;
	for (size_t i = 1; i < count; i++) {
		uint64_t key = keys[i];
		size_t at = i;
		while (at > 0 && keys[at - 1] > key) {
			keys[at] = keys[at - 1];
			at--;
		}
		keys[at] = key;
		moves += i - at;
		if (moves > most)
			return false;
	}
	return true;
}

/* By digits, the lowest first. Places are different, so the order is that of the file. */
static void sort_far(struct order *o)
{
	uint64_t differ = 0;
	for (size_t i = 1; i < o->count; i++)
		differ |= o->keys[i] ^ o->keys[0];
	for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS) {
		if (!(differ >> shift & (DIGITS - 1)))
			continue;
		memset(o->counts, 0, DIGITS * sizeof *o->counts);
		for (size_t i = 0; i < o->count; i++)
			o->counts[o->keys[i] >> shift & (DIGITS - 1)]++;
		uint32_t sum = 0;
		for (size_t i = 0; i < DIGITS; i++) {
			uint32_t count = o->counts[i];
			o->counts[i] = sum;
			sum += count;
		}
		for (size_t i = 0; i < o->count; i++)
			o->other[o->counts[o->keys[i] >> shift & (DIGITS - 1)]++] = o->keys[i];
		uint64_t *sorted = o->other;
		o->other = o->keys;
		o->keys = sorted;
	}
}

static void sort(struct order *o)
{
	for (size_t i = 0; i < o->count; i++) {
		uint64_t us = o->held[i].time_ns / 1000;
		if (us >> TIME_BITS)
			us = (1ull << TIME_BITS) - 1;
		o->keys[i] = us << ORDER_LOG2 | i;
	}
	if (!sort_near(o->keys, o->count))
		sort_far(o);
}

/* ---- going on ---- */

static struct trace_event *at(const struct order *o, size_t place)
{
	return &o->held[o->keys[place] & (ORDER_EVENTS - 1)];
}

/* A free of the address that this allocation gets, of another block and the same time: its place.
 */
static size_t free_behind(const struct order *o, size_t place)
{
	const struct trace_event *birth = at(o, place);
	for (size_t i = place + 1; i < o->count && i - place < LOOK_AHEAD; i++) {
		const struct trace_event *end = at(o, i);
		if (end->time_ns != birth->time_ns)
			break;
		if (end->address == birth->address &&
		    (end->op == TRACE_FREE || end->op == TRACE_REALLOC_FREE))
			return end->block_id && end->block_id != birth->block_id ? i : 0;
	}
	return 0;
}

static void order_ties(struct order *o, size_t place)
{
	const struct trace_event *birth = at(o, place);
	if (!birth->block_id || (birth->op != TRACE_ALLOC && birth->op != TRACE_REALLOC_ALLOC))
		return;
	size_t behind = free_behind(o, place);
	if (!behind)
		return;
	uint64_t key = o->keys[behind];
	memmove(&o->keys[place + 1], &o->keys[place], (behind - place) * sizeof key);
	o->keys[place] = key;
}

static int emit(struct order *o, size_t count, struct tm_error *err)
{
	int code = 0;
	for (size_t i = 0; i < count && !code; i++) {
		order_ties(o, i);
		*events_next(o->events) = *at(o, i);
		code = events_put(o->events, err);
	}
	return code;
}

int order_add(struct order *order, const struct trace_event *event, struct tm_error *err)
{
	order->held[order->count++] = *event;
	if (order->count < ORDER_EVENTS)
		return 0;
	enum { HALF = ORDER_EVENTS / 2 };
	sort(order);
	int code = emit(order, HALF, err);
	if (code)
		return code;
	for (size_t i = 0; i < HALF; i++)
		order->spare[i] = *at(order, HALF + i);
	memcpy(order->held, order->spare, HALF * sizeof *order->held);
	order->count = HALF;
	return 0;
}

int order_finish(struct order *order, struct tm_error *err)
{
	sort(order);
	int code = emit(order, order->count, err);
	order->count = 0;
	return code;
}
