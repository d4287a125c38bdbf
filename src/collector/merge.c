/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/merge.h"

#include <errno.h>

#include "base/memory.h"
#include "collector/extra.h"
#include "collector/take.h"

enum { ROW_MAX = 12 }; /* streams up to which a row of stamps is faster than a heap */

int merge_init(struct merge *merge, struct cursors *cursors, struct feed *feed, struct extra *extra)
{
	*merge = (struct merge){.cursors = cursors, .feed = feed, .extra = extra};
	merge->heap_room = cursors->map->stream_count;
	merge->heap = tm_alloc_array(merge->heap_room, sizeof *merge->heap);
	return merge->heap ? 0 : -ENOMEM;
}

void merge_done(struct merge *merge)
{
	merge->heap = tm_free(merge->heap);
}

static void sift_down(struct merge *merge, uint32_t at)
{
	struct cursor **heap = merge->heap;
	struct cursor *moving = heap[at];
	for (;;) {
		uint32_t child = 2 * at + 1;
		if (child >= merge->heap_count)
			break;
		if (child + 1 < merge->heap_count && heap[child + 1]->stamp < heap[child]->stamp)
			child++;
		if (moving->stamp <= heap[child]->stamp)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = moving;
}

static void build_heap(struct merge *merge)
{
	struct cursors *cursors = merge->cursors;
	merge->heap_count = 0;
	for (uint32_t i = 0; i < cursors->followed_count; i++) {
		struct cursor *cursor = &cursors->all[cursors->followed[i]];
		if (!cursor->second_words || cursor->at >= cursor->end)
			continue;
		cursor->stamp = stamp_extend(&merge->feed->clock, take_load(cursor->at));
		merge->heap[merge->heap_count++] = cursor;
	}
	for (uint32_t at = merge->heap_count / 2; at-- > 0;)
		sift_down(merge, at);
}

/* Smallest stamp of all cursors but the first. */
static uint64_t second_stamp(const struct merge *merge)
{
	uint64_t stamp = CURSOR_DRY;
	for (uint32_t i = 1; i < 3 && i < merge->heap_count; i++)
		if (merge->heap[i]->stamp < stamp)
			stamp = merge->heap[i]->stamp;
	return stamp;
}

/* Words that are no event: the rest of the chunk cannot be read. */
static const uint64_t *skip_bad(struct merge *merge, struct cursor *cursor)
{
	merge->feed->bad_events++;
	return cursor->end;
}

struct decoded {
	uint64_t address, size_bytes;
	uint32_t node, free_node;
	uint8_t op, align_log2, flags;
};

/* The fields of a heap event of `words` words whose second word is w1. */
static inline struct decoded decode(uint64_t w0, uint64_t w1, const uint64_t *at)
{
	struct decoded out = {.address = w1};
	uint64_t w2;
	switch ((enum wire_op)(w0 & 15)) {
	case WIRE_OP_ALLOC:
	case WIRE_OP_REALLOC_END:
		w2 = take_load(at + 2);
		out.op = (w0 & 15) == WIRE_OP_ALLOC ? TRACE_ALLOC : TRACE_REALLOC_ALLOC;
		out.node = (uint32_t)(w2 >> 32);
		out.size_bytes = (uint32_t)w2;
		break;
	case WIRE_OP_ALLOC_WIDE:
	case WIRE_OP_REALLOC_END_WIDE:
		w2 = take_load(at + 2);
		out.op = (w0 & 15) == WIRE_OP_ALLOC_WIDE ? TRACE_ALLOC : TRACE_REALLOC_ALLOC;
		out.node = (uint32_t)(w2 >> 32);
		out.align_log2 = w2 & 63;
		out.size_bytes = trace_word_make(take_load(at + 3),
						 (unsigned)(w2 >> 8) & WIRE_SAMPLING_LOG2);
		break;
	case WIRE_OP_FREE:
		out.op = TRACE_FREE;
		break;
	case WIRE_OP_FREE_OUTSIDE:
	case WIRE_OP_REALLOC_BEGIN_OUTSIDE:
		out.op = (w0 & 15) == WIRE_OP_FREE_OUTSIDE ? TRACE_FREE : TRACE_REALLOC_FREE;
		out.flags = TRACE_EVENT_OUTSIDE;
		break;
	case WIRE_OP_FREE_STACK:
		out.op = TRACE_FREE;
		out.free_node = (uint32_t)(take_load(at + 2) >> 32);
		break;
	case WIRE_OP_REALLOC_BEGIN:
		out.op = TRACE_REALLOC_FREE;
		break;
	case WIRE_OP_REALLOC_FAIL:
	case WIRE_OP_ALLOC_FAIL:
		out.op = (w0 & 15) == WIRE_OP_ALLOC_FAIL ? TRACE_ALLOC_FAIL : TRACE_REALLOC_UNDO;
		out.node = (uint32_t)(take_load(at + 2) >> 32);
		out.size_bytes = w1;
		out.address = 0;
		break;
	case WIRE_OP_NONE:
	case WIRE_OP_EXTRA:
	case WIRE_OP_BORN:
	case WIRE_OP_PASSED:
		break;
	}
	return out;
}

static inline void put_heap_event(struct feed *feed, const struct cursor *cursor, uint64_t stamp,
				  uint64_t w0, const struct decoded *in)
{
	struct trace_event *event = feed_place(feed, cursor->thread_id);
	uint8_t api = w0 >> 4 & 15;
	*event = (struct trace_event){
		.time_ns = feed_time(feed, stamp),
		.address = in->address,
		.size_bytes = in->size_bytes,
		.block_id = TRACE_NO_BLOCK,
		.stack_id = in->node ? feed_stack(feed, in->node) : 0,
		.free_stack_id = in->free_node ? feed_stack(feed, in->free_node) : 0,
		.thread_id = cursor->thread_id,
		.op = in->op,
		.api = api < TRACE_API_COUNT ? api : TRACE_API_CUSTOM,
		.align_log2 = in->align_log2,
		.flags = in->flags,
	};
}

/*
 * Releases the event at `at`, whose first word is w0, and returns where the next
 * one begins. Words that are no event end the chunk. The long way: see take.h.
 */
static __attribute__((noinline)) const uint64_t *take_event(struct merge *merge,
							    struct cursor *cursor,
							    const uint64_t *at, uint64_t w0,
							    uint64_t stamp)
{
	/* An event has at least two words, and none begins with the last of a chunk. */
	if (__builtin_expect(cursor->end - at < 2, 0))
		return skip_bad(merge, cursor);
	uint64_t w1 = take_load(at + 1);
	unsigned words = wire_event_words(w0, w1);
	if (__builtin_expect(!words || words > (size_t)(cursor->end - at), 0))
		return skip_bad(merge, cursor);
	if (__builtin_expect((w0 & 15) == WIRE_OP_EXTRA, 0)) {
		extra_take(merge->extra, cursor, stamp, at, words);
	} else if (__builtin_expect((w0 & 15) == WIRE_OP_BORN, 0)) {
		feed_born(merge->feed, w1);
	} else if (__builtin_expect((w0 & 15) == WIRE_OP_PASSED, 0)) {
		feed_passed(merge->feed, cursor->thread_id);
	} else {
		struct decoded in = decode(w0, w1, at);
		put_heap_event(merge->feed, cursor, stamp, w0, &in);
	}
	return at + words;
}

/* Releases the cursor's events before `stop` whose stamps do not exceed limit. */
static const uint64_t *take_run(struct merge *merge, struct cursor *cursor, const uint64_t *stop,
				uint64_t limit)
{
	struct feed *feed = merge->feed;
	uint32_t thread_id = cursor->thread_id;
	struct taker taker = take_enter(feed, thread_id);
	const uint64_t *at = cursor->at, *first = at, *end = cursor->end;
	take_turn(&taker, thread_id);
	while (at < stop) {
		uint64_t w0 = take_load(at);
		uint64_t stamp = taker.near + (uint64_t)take_distance(&taker, w0);
		/* The first goes whatever it says now, or a target that flips it could hold us. */
		if (stamp > limit && at != first)
			break;
		unsigned words = 0;
		if (__builtin_expect(end - at >= 3, 1))
			words = take_plain(&taker, &feed->stacks, thread_id, at, w0);
		at += words;
		if (__builtin_expect(words != 0, 1))
			continue;
		take_leave(&taker, feed);
		at = take_event(merge, cursor, at, w0, stamp);
		thread_id = cursor->thread_id;
		taker = take_enter(feed, thread_id);
		take_turn(&taker, thread_id);
	}
	take_leave(&taker, feed);
	return at;
}

/* Accounts for what was read; returns how many words of the first snapshot that were. */
static uint64_t advance(struct cursor *cursor, const uint64_t *at)
{
	uint64_t words = (uint64_t)(at - cursor->at);
	uint64_t first = words < cursor->first_words ? words : cursor->first_words;
	cursor->first_words -= first;
	cursor->second_words -= words < cursor->second_words ? words : cursor->second_words;
	cursor->at = at;
	return first;
}

/* ---- many streams: runs from the top of a heap ---- */

static uint64_t release_run(struct merge *merge, uint64_t first_words)
{
	struct cursor *cursor = merge->heap[0];
	uint64_t others = first_words - cursor->first_words;
	const uint64_t *stop = cursor->end;
	if (!others && cursor->first_words < (uint64_t)(stop - cursor->at))
		stop = cursor->at + cursor->first_words;
	const uint64_t *at = take_run(merge, cursor, stop, second_stamp(merge));
	uint64_t released = advance(cursor, at);
	if (cursor->at < cursor->end || cursor_next_chunk(merge->cursors, cursor))
		cursor->stamp = stamp_extend(&merge->feed->clock, take_load(cursor->at));
	else
		merge->heap[0] = merge->heap[--merge->heap_count];
	if (merge->heap_count)
		sift_down(merge, 0);
	return released;
}

/* ---- few streams: the smallest of a row of stamps, event by event ---- */

/* The choice of the stream is as good as random, so it must not be a branch. */
struct row {
	uint64_t stamps[ROW_MAX];
	uint64_t words[ROW_MAX]; /* first word of the event at `at`: read once */
	const uint64_t *at[ROW_MAX];
	const uint64_t
		*stop[ROW_MAX]; /* end of the chunk's words, or of the first snapshot in it */
	uint32_t count;
};

static inline uint32_t smallest(const struct row *row)
{
	uint64_t best = row->stamps[0];
	uint32_t at = 0;
	for (uint32_t i = 1; i < row->count; i++) {
		bool less = row->stamps[i] < best;
		best = less ? row->stamps[i] : best;
		at = less ? i : at;
	}
	return at;
}

static inline void row_look(struct row *row, const struct stamp_clock *clock, uint32_t i)
{
	row->words[i] = take_load(row->at[i]);
	row->stamps[i] = stamp_extend(clock, row->words[i]);
}

static void row_enter(struct merge *merge, struct row *row, uint32_t i)
{
	struct cursor *cursor = merge->heap[i];
	row->at[i] = cursor->at;
	row->stop[i] = cursor->end;
	if (cursor->first_words && cursor->first_words < (uint64_t)(cursor->end - cursor->at))
		row->stop[i] = cursor->at + cursor->first_words;
	row_look(row, &merge->feed->clock, i);
}

/* Until one of the streams reaches its stop; which one. */
static uint32_t release_row(struct merge *merge, struct row *row)
{
	struct feed *feed = merge->feed;
	uint32_t i = smallest(row);
	struct taker taker = take_enter(feed, merge->heap[i]->thread_id);
	for (;; i = smallest(row)) {
		struct cursor *cursor = merge->heap[i];
		const uint64_t *at = row->at[i];
		uint32_t thread_id = cursor->thread_id;
		unsigned words = 0;
		take_turn(&taker, thread_id);
		if (__builtin_expect(cursor->end - at >= 3, 1))
			words = take_plain(&taker, &feed->stacks, thread_id, at, row->words[i]);
		at += words;
		if (__builtin_expect(words == 0, 0)) {
			take_leave(&taker, feed);
			at = take_event(merge, cursor, at, row->words[i], row->stamps[i]);
			taker = take_enter(feed, cursor->thread_id);
		}
		row->at[i] = at;
		if (at >= row->stop[i])
			break;
		row->words[i] = take_load(at);
		row->stamps[i] = taker.near + (uint64_t)take_distance(&taker, row->words[i]);
	}
	take_leave(&taker, feed);
	return i;
}

/* What remains of the first snapshot when the row is left. */
static uint64_t release_few(struct merge *merge, uint64_t first_words)
{
	struct row row = {.count = merge->heap_count};
	for (uint32_t i = 0; i < row.count; i++)
		row_enter(merge, &row, i);
	while (first_words && row.count > 1) {
		uint32_t i = release_row(merge, &row);
		struct cursor *cursor = merge->heap[i];
		first_words -= advance(cursor, row.at[i]);
		if (cursor->at < cursor->end || cursor_next_chunk(merge->cursors, cursor)) {
			row_enter(merge, &row, i);
			continue;
		}
		/*
		 * The last takes its place; its words are accounted for first. Not if it is
		 * the last itself: it stands in the next chunk now, which has no words yet.
		 */
		uint32_t last = --row.count;
		if (i == last)
			continue;
		first_words -= advance(merge->heap[last], row.at[last]);
		merge->heap[i] = merge->heap[last];
		row_enter(merge, &row, i);
	}
	for (uint32_t i = 0; i < row.count; i++) {
		first_words -= advance(merge->heap[i], row.at[i]);
		merge->heap[i]->stamp = row.stamps[i];
	}
	merge->heap_count = row.count;
	return first_words;
}

void merge_release(struct merge *merge, uint64_t first_words)
{
	if (!first_words)
		return;
	build_heap(merge);
	while (first_words && merge->heap_count) {
		if (merge->heap_count > 1 && merge->heap_count <= ROW_MAX)
			first_words = release_few(merge, first_words);
		else
			first_words -= release_run(merge, first_words);
	}
}
