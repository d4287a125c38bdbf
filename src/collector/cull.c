/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/cull.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
	ROOM_FIRST = 1 << 12, /* events that wait, at first; powers of two */
	ROOM_MOST = 1 << 17,
	ROOM_SHRUNK = 1 << 14,
	BATCH = 256, /* events that go to the writer together */
};
#define SLICE_LEAST_NS 250000000ull
#define SLICE_MOST_NS  5000000000ull
#define SLICE_LIVES    16 /* lifetimes in a slice, if it may be that long */
#define NOWHERE        UINT64_MAX

/* An event that waits. Places count all events that ever came. */
struct waiting {
	struct trace_event event;
	uint64_t before; /* of a birth by realloc: place of the birth that it continues */
	uint64_t end;    /* of a birth: place of its end */
	bool stays;      /* a birth that must not be culled */
	bool is_gone;
};

struct thread {
	uint64_t pending;    /* place of the birth whose block its last realloc has ended */
	uint64_t last_birth; /* block_id + 1 of what it was last seen to do by a reader */
	uint32_t row;        /* in rows[], plus 1 */
};

struct cull {
	uint64_t life_us;
	struct waiting *ring; /* [room], by place */
	uint64_t *birth;      /* [room], by block_id: its place */
	uint64_t first, end;  /* places */
	size_t room, most;
	struct thread *threads;
	size_t thread_room;
	struct trace_culled_thread *rows; /* [thread_room], of the open slice */
	size_t row_count;
	uint64_t culled; /* events, of all slices */
	bool is_lost;    /* no memory: nothing is stored any more */
	size_t count;
	struct trace_event batch[BATCH];
};

struct cull *cull_new(uint64_t lifetime_ns)
{
	struct cull *cull = tm_alloc(sizeof *cull);
	if (!cull)
		return NULL;
	cull->life_us = lifetime_ns / 1000;
	cull->most = ROOM_MOST;
	return cull;
}

struct cull *cull_free(struct cull *cull)
{
	if (!cull)
		return NULL;
	tm_free(cull->ring);
	tm_free(cull->birth);
	tm_free(cull->threads);
	tm_free(cull->rows);
	return tm_free(cull);
}

uint64_t cull_slice_ns(uint64_t lifetime_ns)
{
	if (lifetime_ns > SLICE_MOST_NS / SLICE_LIVES)
		return SLICE_MOST_NS;
	uint64_t wanted = lifetime_ns * SLICE_LIVES;
	return wanted > SLICE_LEAST_NS ? wanted : SLICE_LEAST_NS;
}

static struct waiting *at(const struct cull *cull, uint64_t place)
{
	return &cull->ring[place & (cull->room - 1)];
}

static bool is_birth(const struct trace_event *event)
{
	return event->op == TRACE_ALLOC || event->op == TRACE_REALLOC_ALLOC;
}

/* ---- room ---- */

/* The ring twice as large; false: it must do as it is. */
static bool grow(struct cull *cull)
{
	size_t room = cull->room ? cull->room * 2 : ROOM_FIRST;
	if (room > cull->most && cull->room)
		return false;
	struct waiting *ring = tm_alloc_array(room, sizeof *ring);
	uint64_t *birth = tm_alloc_array(room, sizeof *birth);
	if (!ring || !birth) {
		tm_free(ring);
		tm_free(birth);
		return false;
	}
	for (uint64_t place = cull->first; place < cull->end; place++) {
		ring[place & (room - 1)] = *at(cull, place);
		if (is_birth(&at(cull, place)->event))
			birth[at(cull, place)->event.block_id & (room - 1)] = place;
	}
	tm_free(cull->ring);
	tm_free(cull->birth);
	cull->ring = ring;
	cull->birth = birth;
	cull->room = room;
	return true;
}

static struct thread *thread_of(struct cull *cull, uint32_t thread_id)
{
	if (thread_id < cull->thread_room)
		return &cull->threads[thread_id];
	size_t room = cull->thread_room ? cull->thread_room * 2 : 16;
	while (room <= thread_id)
		room *= 2;
	/* So that row_of() never fails. */
	struct trace_culled_thread *rows = tm_grow_array(cull->rows, room, sizeof *rows);
	if (!rows)
		return NULL;
	cull->rows = rows;
	struct thread *threads = tm_grow_array(cull->threads, room, sizeof *threads);
	if (!threads)
		return NULL;
	for (size_t i = cull->thread_room; i < room; i++)
		threads[i] = (struct thread){.pending = NOWHERE};
	cull->threads = threads;
	cull->thread_room = room;
	return &threads[thread_id];
}

/* The row of a thread in the open slice. */
static struct trace_culled_thread *row_of(struct cull *cull, uint32_t thread_id)
{
	struct thread *thread = &cull->threads[thread_id];
	if (!thread->row) {
		cull->rows[cull->row_count] = (struct trace_culled_thread){.thread_id = thread_id};
		thread->row = (uint32_t)++cull->row_count;
	}
	return &cull->rows[thread->row - 1];
}

/* ---- to the writer ---- */

static void write_batch(struct cull *cull, struct trace_writer *writer)
{
	if (cull->count)
		trace_writer_events(writer, cull->batch, cull->count);
	cull->count = 0;
}

/* What a reader of the stored events alone would take for temporary, and is not. */
static void mark_lasting(struct cull *cull, struct trace_event *event)
{
	struct thread *thread = &cull->threads[event->thread_id];
	if (is_birth(event)) {
		thread->last_birth = event->block_id + 1;
		return;
	}
	if (event->op == TRACE_ALLOC_FAIL ||
	    (event->op == TRACE_FREE_UNSEEN && event->block_id != TRACE_NO_BLOCK))
		return;
	if (event->op == TRACE_FREE && event->block_id != TRACE_NO_BLOCK &&
	    thread->last_birth == event->block_id + 1 && !(event->flags & TRACE_EVENT_TEMPORARY))
		event->flags |= TRACE_EVENT_LASTING;
	thread->last_birth = 0;
}

static void pop(struct cull *cull, struct trace_writer *writer)
{
	const struct waiting *oldest = at(cull, cull->first++);
	if (oldest->is_gone)
		return;
	struct trace_event *event = &cull->batch[cull->count++];
	*event = oldest->event;
	mark_lasting(cull, event);
	if (cull->count == BATCH)
		write_batch(cull, writer);
}

/* Whatever is decided goes on: only a birth that may still be culled makes others wait. */
static void pop_decided(struct cull *cull, struct trace_writer *writer, uint64_t now_us)
{
	while (cull->first < cull->end) {
		const struct waiting *oldest = at(cull, cull->first);
		if (is_birth(&oldest->event) && !oldest->is_gone && !oldest->stays &&
		    now_us < oldest->event.time_ns / 1000 + cull->life_us)
			break;
		pop(cull, writer);
	}
}

/* ---- what is culled ---- */

/* The place of a block's birth, if it waits and has not lived too long; else NOWHERE. */
static uint64_t find_young(const struct cull *cull, const struct trace_event *event)
{
	if (event->block_id == TRACE_NO_BLOCK || cull->first == cull->end)
		return NOWHERE;
	uint64_t place = cull->birth[event->block_id & (cull->room - 1)];
	if (place < cull->first || place >= cull->end)
		return NOWHERE;
	const struct waiting *birth = at(cull, place);
	bool is_it = is_birth(&birth->event) && birth->event.block_id == event->block_id;
	uint64_t life_us = event->time_ns / 1000 - birth->event.time_ns / 1000;
	return is_it && !birth->stays && life_us < cull->life_us ? place : NOWHERE;
}

/* All blocks that were made out of each other, up to this one, are still here. */
static bool is_whole(const struct cull *cull, uint64_t place)
{
	for (; place != NOWHERE; place = at(cull, place)->before)
		if (place < cull->first || at(cull, place)->stays)
			return false;
	return true;
}

static void count_culled(struct cull *cull, const struct trace_event *birth,
			 const struct trace_event *end)
{
	struct trace_weight weight = trace_weigh(birth->size_bytes, birth->block_id);
	struct trace_culled_thread *row = row_of(cull, birth->thread_id);
	row->births += weight.count;
	row->birth_bytes += weight.bytes;
	row = row_of(cull, end->thread_id);
	row->ends += weight.count;
	row->end_bytes += weight.bytes;
	row->foreign_ends += birth->thread_id != end->thread_id ? weight.count : 0;
	row->temporary += !!(end->flags & TRACE_EVENT_TEMPORARY);
	cull->culled += 2;
}

static void cull_chain(struct cull *cull, uint64_t place)
{
	while (place != NOWHERE) {
		struct waiting *birth = at(cull, place);
		struct waiting *end = at(cull, birth->end);
		count_culled(cull, &birth->event, &end->event);
		birth->is_gone = end->is_gone = true;
		place = birth->before;
	}
}

/* What a new event means for those that wait; it is the youngest of them. */
static void look_at(struct cull *cull, struct thread *thread, struct waiting *waiting,
		    uint64_t place)
{
	const struct trace_event *event = &waiting->event;
	uint64_t young;
	switch ((enum trace_op)event->op) {
	case TRACE_ALLOC:
		/* What a piece inherits from the one before was born long ago. */
		waiting->stays = event->time_ns < 1000;
		break;
	case TRACE_REALLOC_ALLOC:
		waiting->before = thread->pending;
		waiting->stays = thread->pending == NOWHERE;
		thread->pending = NOWHERE;
		break;
	case TRACE_FREE:
		young = find_young(cull, event);
		if (young == NOWHERE || !is_whole(cull, young))
			break;
		at(cull, young)->end = place;
		cull_chain(cull, young);
		break;
	case TRACE_REALLOC_FREE:
		thread->pending = find_young(cull, event);
		if (thread->pending != NOWHERE)
			at(cull, thread->pending)->end = place;
		break;
	case TRACE_REALLOC_UNDO:
		/* Both halves of the realloc are stored, so what they are about is. */
		if (thread->pending != NOWHERE && thread->pending >= cull->first)
			at(cull, thread->pending)->stays = true;
		thread->pending = NOWHERE;
		break;
	case TRACE_ALLOC_FAIL:
	case TRACE_FREE_UNSEEN:
	case TRACE_FREE_OLDER:
	case TRACE_OP_COUNT:
		break;
	}
	if (is_birth(event))
		cull->birth[event->block_id & (cull->room - 1)] = place;
}

int cull_events(struct cull *cull, struct trace_writer *writer, const struct trace_event *events,
		size_t count)
{
	for (size_t i = 0; i < count && !cull->is_lost; i++) {
		struct thread *thread = thread_of(cull, events[i].thread_id);
		if (cull->end - cull->first == cull->room && !grow(cull) && cull->room)
			pop(cull, writer);
		if (!thread || !cull->room) {
			cull->is_lost = true;
			break;
		}
		uint64_t place = cull->end++;
		*at(cull, place) =
			(struct waiting){.event = events[i], .before = NOWHERE, .end = NOWHERE};
		look_at(cull, thread, at(cull, place), place);
	}
	if (cull->is_lost)
		return -ENOMEM;
	if (count)
		cull_tick(cull, writer, events[count - 1].time_ns);
	return 0;
}

void cull_tick(struct cull *cull, struct trace_writer *writer, uint64_t now_ns)
{
	pop_decided(cull, writer, now_ns / 1000);
	write_batch(cull, writer);
}

void cull_flush(struct cull *cull, struct trace_writer *writer)
{
	while (cull->first < cull->end)
		pop(cull, writer);
	write_batch(cull, writer);
}

static int compare_rows(const void *a, const void *b)
{
	const struct trace_culled_thread *x = a, *y = b;
	return (x->thread_id > y->thread_id) - (x->thread_id < y->thread_id);
}

void cull_describe(struct cull *cull, struct trace_slice *slice)
{
	if (cull->row_count)
		qsort(cull->rows, cull->row_count, sizeof *cull->rows, compare_rows);
	for (size_t i = 0; i < cull->row_count; i++)
		cull->threads[cull->rows[i].thread_id].row = (uint32_t)i + 1;
	slice->culled_events = cull->culled;
	slice->culled_threads = cull->rows;
	slice->culled_thread_count = (uint32_t)cull->row_count;
}

void cull_next_slice(struct cull *cull)
{
	for (size_t i = 0; i < cull->row_count; i++)
		cull->threads[cull->rows[i].thread_id].row = 0;
	cull->row_count = 0;
}

uint64_t cull_count(const struct cull *cull)
{
	return cull->culled;
}

void cull_shrink(struct cull *cull, struct trace_writer *writer)
{
	cull_flush(cull, writer);
	cull->most = ROOM_SHRUNK;
	cull->ring = tm_free(cull->ring);
	cull->birth = tm_free(cull->birth);
	cull->room = 0;
}

uint64_t cull_memory_bytes(const struct cull *cull)
{
	return cull->room * (sizeof *cull->ring + sizeof *cull->birth) +
	       cull->thread_room * (sizeof *cull->threads + sizeof *cull->rows);
}
