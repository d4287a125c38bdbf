/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The short way from words in a chunk to an event in the batch, for plain
 * allocations and frees: nearly all events are. What is anything else, or
 * cannot be done without a call (a new stack, a full batch), is left to the
 * caller. Inline: this runs for every event, and a call costs as much as it does.
 */
#pragma once

#include "collector/feed.h"

#include <stddef.h>
#include <string.h>

#define TAKE_HOT static inline __attribute__((always_inline))

/* The end of an event is written as one word. The collector runs on x86-64 only. */
_Static_assert(offsetof(struct trace_event, op) == offsetof(struct trace_event, thread_id) + 4 &&
		       offsetof(struct trace_event, api) == offsetof(struct trace_event, op) + 1 &&
		       offsetof(struct trace_event, flags) ==
			       offsetof(struct trace_event, op) + 3 &&
		       TRACE_ALLOC == 0 && TRACE_FREE == 1,
	       "last word of an event");

/* What the loops over events keep in registers: its address must not escape. */
struct taker {
	struct trace_event *next, *end; /* free places of the batch */
	uint64_t last_ns;
	uint32_t last_thread; /* of the event before; that of the next if there is none */
	uint32_t mixed;       /* not 0 when several threads were seen */
	/* The clock, which stands still while events are released: see stamp.h. */
	uint64_t near, near_word;
	int64_t base_distance, base_ns, mult;
};

/* Each word is read once: the target may change it under our eyes. */
TAKE_HOT uint64_t take_load(const uint64_t *word)
{
	return *(const volatile uint64_t *)word;
}

/* thread_id: whose event is next. */
TAKE_HOT struct taker take_enter(struct feed *feed, uint32_t thread_id)
{
	const struct stamp_clock *clock = &feed->clock;
	struct taker taker = {
		.next = feed->batch + feed->count,
		.end = feed->batch + feed_room(feed),
		.last_ns = feed->last_ns,
		.mixed = feed->mixed,
		.near = clock->near,
		.near_word = clock->near << 8,
		.base_distance = (int64_t)(clock->near - clock->base_stamp),
		.base_ns = clock->base_ns,
		.mult = (int64_t)clock->mult,
	};
	if (taker.end < taker.next)
		taker.end = taker.next;
	taker.last_thread = feed->count ? taker.next[-1].thread_id : thread_id;
	return taker;
}

TAKE_HOT void take_leave(const struct taker *taker, struct feed *feed)
{
	size_t count = (size_t)(taker->next - feed->batch);
	feed->fresh |= count != feed->count;
	feed->count = count;
	feed->last_ns = taker->last_ns;
	feed->mixed = taker->mixed != 0;
}

/* How far the stamp in an event's first word is from `near`. As stamp_extend(). */
TAKE_HOT int64_t take_distance(const struct taker *taker, uint64_t w0)
{
	return (int64_t)(w0 - taker->near_word) >> 8;
}

/* Time of such a distance, never less than that of the event before. As feed_time(). */
TAKE_HOT uint64_t take_time(struct taker *taker, int64_t distance)
{
	__int128 scaled = (__int128)(distance + taker->base_distance) * taker->mult;
	int64_t ns = taker->base_ns + (int64_t)(scaled >> 32);
	if (ns > (int64_t)taker->last_ns)
		taker->last_ns = (uint64_t)ns;
	return taker->last_ns;
}

TAKE_HOT void take_turn(struct taker *taker, uint32_t thread_id)
{
	taker->mixed |= taker->last_thread ^ thread_id;
	taker->last_thread = thread_id;
}

/*
 * By the lower byte of an event's first word: the last word of the event, but
 * for the thread, where TAKE_PLAIN stands. 0: it is not plain.
 */
enum { TAKE_PLAIN = 1 };
#define TAKE_TAILS(api)                                                                            \
	[(api) << 4 | WIRE_OP_ALLOC] = TAKE_PLAIN | (uint64_t)(api) << 40,                         \
	[(api) << 4 | WIRE_OP_FREE] = TAKE_PLAIN | 1ull << 32 | (uint64_t)(api) << 40
static const uint64_t take_tails[256] = {
	TAKE_TAILS(TRACE_API_MALLOC),   TAKE_TAILS(TRACE_API_CALLOC),
	TAKE_TAILS(TRACE_API_REALLOC),  TAKE_TAILS(TRACE_API_ALIGNED),
	TAKE_TAILS(TRACE_API_NEW),      TAKE_TAILS(TRACE_API_JEMALLOC),
	TAKE_TAILS(TRACE_API_MIMALLOC), TAKE_TAILS(TRACE_API_TCMALLOC),
	TAKE_TAILS(TRACE_API_CUSTOM),
};

/*
 * Puts the event at `at`, of which three words can be read, into the batch.
 * Returns its words, or 0 when it must be done the long way; then nothing has
 * changed.
 */
TAKE_HOT unsigned take_plain(struct taker *taker, const struct stack_ids *stacks,
			     uint32_t thread_id, const uint64_t *at, uint64_t w0)
{
	struct trace_event *event = taker->next;
	uint64_t tail = take_tails[w0 & 0xff], w2 = 0;
	uint32_t stack_id = 0;
	unsigned words = 2;
	if (__builtin_expect(event == taker->end, 0) || __builtin_expect(!tail, 0))
		return 0;
	if ((w0 & 15) == WIRE_OP_ALLOC) {
		w2 = take_load(at + 2);
		stack_id = stack_ids_known(stacks, (uint32_t)(w2 >> 32));
		if (__builtin_expect(!stack_id, 0))
			return 0;
		words = 3;
	}
	tail += (uint64_t)thread_id - TAKE_PLAIN;
	event->time_ns = take_time(taker, take_distance(taker, w0));
	event->address = take_load(at + 1);
	event->size_bytes = (uint32_t)w2;
	event->stack_id = stack_id;
	event->free_stack_id = 0;
	memcpy((char *)event + offsetof(struct trace_event, thread_id), &tail, sizeof tail);
	taker->next = event + 1;
	return words;
}
