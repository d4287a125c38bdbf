/* SPDX-License-Identifier: Apache-2.0 */
#include "model/query_ticks.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/memory.h"
#include "model/event_scan.h"

/* A tick ends after so many events, or after this share of its block's time. */
enum { SPANS = 32, PARTS_PER_THREAD = 4, PARTS_AHEAD_MAX = 128, ROOM_LEAST = 256 };

/* Makes ticks; the making thread's own. */
struct maker {
	struct edges *edges;
	uint32_t *row_of; /* by stack; what it says must be checked */
	struct ticks *ticks;
	size_t room, row_room;
	struct tick *tick; /* the open one */
	uint64_t tick_first, span_ns;
	int64_t live_bytes; /* since its start */
	bool rows;          /* are wanted */
	int error;
};

/* ---- making ---- */

static int begin_tick(struct maker *maker, const struct edge_event *event)
{
	struct ticks *ticks = maker->ticks;
	if (ticks->count == maker->room) {
		size_t room = maker->room ? 2 * maker->room : SPANS;
		void *list = tm_grow_array(ticks->list, room, sizeof *ticks->list);
		if (!list)
			return -ENOMEM;
		ticks->list = list;
		maker->room = room;
	}
	maker->tick = &ticks->list[ticks->count++];
	*maker->tick = (struct tick){.start_ns = event->time_ns,
				     .end_ns = event->time_ns,
				     .high_ns = event->time_ns,
				     .first_row = (uint32_t)ticks->row_count};
	maker->tick_first = event->ordinal;
	maker->live_bytes = 0;
	return 0;
}

static struct tick_row *row_at(struct maker *maker, uint32_t stack_id)
{
	struct ticks *ticks = maker->ticks;
	if (stack_id >= maker->edges->section->stack_count)
		stack_id = 0;
	uint32_t at = maker->row_of[stack_id];
	if (at >= maker->tick->first_row && at < ticks->row_count &&
	    ticks->rows[at].stack_id == stack_id)
		return &ticks->rows[at];
	if (ticks->row_count == maker->row_room) {
		size_t room = maker->row_room ? 2 * maker->row_room : ROOM_LEAST;
		void *rows = tm_grow_array(ticks->rows, room, sizeof *ticks->rows);
		if (!rows)
			return NULL;
		ticks->rows = rows;
		maker->row_room = room;
	}
	maker->row_of[stack_id] = (uint32_t)ticks->row_count;
	maker->tick->row_count++;
	struct tick_row *row = &ticks->rows[ticks->row_count++];
	*row = (struct tick_row){.stack_id = stack_id};
	return row;
}

static void count_row(struct tick_row *row, const struct edge_event *event)
{
	switch (event->kind) {
	case EDGE_BIRTH:
		row->births += event->weight.count;
		row->birth_bytes += event->weight.bytes;
		break;
	case EDGE_END:
		row->deaths += (int64_t)event->weight.count;
		row->death_bytes += (int64_t)event->weight.bytes;
		row->temporary += event->is_temporary;
		break;
	case EDGE_RETURN:
		row->deaths -= (int64_t)event->weight.count;
		row->death_bytes -= (int64_t)event->weight.bytes;
		break;
	case EDGE_FAILED:
		break;
	}
}

static void count_all(struct tick_sums *sums, const struct edge_event *event)
{
	struct tick_row row = {0};
	count_row(&row, event);
	sums->births += row.births;
	sums->birth_bytes += row.birth_bytes;
	sums->temporary += row.temporary;
	sums->deaths += row.deaths;
	sums->death_bytes += row.death_bytes;
}

/* Events of one moment are never parted. */
static bool is_due(const struct maker *maker, const struct edge_event *event)
{
	uint64_t most = tick_store_events(maker->edges->section->ticks);
	if (!maker->tick)
		return true;
	return event->time_ns > maker->tick->end_ns &&
	       (event->ordinal - maker->tick_first >= most ||
		event->time_ns - maker->tick->start_ns > maker->span_ns);
}

static void visit(void *ctx, const struct edge_event *event)
{
	struct maker *maker = ctx;
	if (!maker->error && is_due(maker, event))
		maker->error = begin_tick(maker, event);
	if (maker->error)
		return;
	maker->tick->end_ns = event->time_ns;
	if (event->kind == EDGE_FAILED)
		return;
	struct tick_row *row = maker->rows ? row_at(maker, event->stack_id) : NULL;
	if (maker->rows && !row) {
		maker->error = -ENOMEM;
		return;
	}
	if (row)
		count_row(row, event);
	count_all(&maker->tick->sums, event);
	maker->live_bytes += event->kind == EDGE_END ? -(int64_t)event->weight.bytes
						     : (int64_t)event->weight.bytes;
	if (maker->live_bytes < maker->tick->low_bytes)
		maker->tick->low_bytes = maker->live_bytes;
	if (maker->live_bytes > maker->tick->high_bytes) {
		maker->tick->high_bytes = maker->live_bytes;
		maker->tick->high_ns = event->time_ns;
	}
}

/* NULL: maker->error says why. */
static struct ticks *make(struct maker *maker, size_t part, uint64_t first, uint64_t end)
{
	const struct query_section *s = maker->edges->section;
	struct ticks *ticks = tm_alloc(sizeof *ticks);
	maker->error = ticks ? 0 : -ENOMEM;
	if (!ticks)
		return NULL;
	ticks->first_event = first;
	ticks->end_event = end;
	ticks->has_rows = maker->rows;
	maker->ticks = ticks;
	maker->room = maker->row_room = 0;
	maker->tick = NULL;
	maker->span_ns = (s->parts[part].end_ns - s->parts[part].start_ns) / SPANS;
	int rc = edges_visit(maker->edges, first, end, visit, maker);
	if (rc)
		maker->error = rc;
	return maker->error ? ticks_free(ticks) : ticks;
}

static int maker_init(struct maker *maker, struct edges *edges, bool rows)
{
	*maker = (struct maker){.edges = edges, .rows = rows};
	if (!rows)
		return 0;
	maker->row_of = tm_alloc_array(edges->section->stack_count + 1, sizeof *maker->row_of);
	return maker->row_of ? 0 : -ENOMEM;
}

static void maker_done(struct maker *maker)
{
	tm_free(maker->row_of);
}

/* ---- several threads ahead ---- */

struct ahead {
	struct query_section *section;
	_Atomic size_t next; /* part that a thread takes next */
	size_t end;
	bool rows;
};

/* What fails here is made again, and told, by the one that asks. */
static void *work(void *ctx)
{
	struct ahead *ahead = ctx;
	struct query_section *s = ahead->section;
	struct tm_error err = {0};
	struct edges edges;
	struct maker maker;
	size_t part;
	edges_init(&edges, s, &err);
	int rc = maker_init(&maker, &edges, ahead->rows);
	while (!rc && (part = atomic_fetch_add(&ahead->next, 1)) < ahead->end) {
		uint64_t first = s->parts[part].first_event;
		uint64_t end = first + s->parts[part].event_count;
		const struct ticks *there = tick_store_take(s->ticks, first, end, ahead->rows);
		struct ticks *made = there ? NULL : make(&maker, part, first, end);
		rc = maker.error;
		if (made && edges.unread_events)
			ticks_free(made);
		else if (made)
			there = tick_store_put(s->ticks, made);
		if (there)
			tick_store_give(s->ticks, there);
		edges_done(&edges); /* its decoded events are not needed again */
		edges_init(&edges, s, &err);
	}
	maker_done(&maker);
	edges_done(&edges);
	return NULL;
}

static size_t missing(struct query_section *s, size_t first, size_t end, bool rows)
{
	size_t count = 0;
	for (size_t i = first; i < end; i++) {
		uint64_t event = s->parts[i].first_event;
		const struct ticks *there =
			tick_store_take(s->ticks, event, event + s->parts[i].event_count, rows);
		if (there)
			tick_store_give(s->ticks, there);
		else
			count++;
	}
	return count;
}

/* Whole parts [first, end), by all cores, so that they are there when they are asked for. */
static void make_ahead(struct query_section *s, size_t first, size_t end, bool rows)
{
	struct ahead ahead = {.section = s, .end = end, .rows = rows};
	pthread_t helpers[EVENT_SCAN_THREADS_MAX];
	size_t threads = event_scan_threads(s->threads), count = 0;
	size_t wanted = end - first > PARTS_AHEAD_MAX ? 0 : missing(s, first, end, rows);
	if (threads > wanted / PARTS_PER_THREAD + 1)
		threads = wanted / PARTS_PER_THREAD + 1;
	if (threads < 2)
		return;
	atomic_init(&ahead.next, first);
	while (count + 1 < threads && !pthread_create(&helpers[count], NULL, work, &ahead))
		count++;
	work(&ahead);
	for (size_t i = 0; i < count; i++)
		pthread_join(helpers[i], NULL);
}

/* ---- visiting ---- */

struct walk {
	struct maker maker;
	uint64_t first, end;
	tick_fn fn;
	void *ctx;
};

static int tell(const struct walk *walk, const struct ticks *ticks)
{
	int rc = 0;
	for (size_t i = 0; i < ticks->count && !rc; i++)
		rc = walk->fn(walk->ctx, ticks, &ticks->list[i]);
	return rc;
}

static int visit_part(struct walk *walk, size_t part)
{
	struct query_section *s = walk->maker.edges->section;
	uint64_t begin = s->parts[part].first_event, stop = begin + s->parts[part].event_count;
	uint64_t first = begin < walk->first ? walk->first : begin;
	uint64_t end = stop > walk->end ? walk->end : stop;
	bool whole = first == begin && end == stop;
	uint64_t unread = walk->maker.edges->unread_events;
	const struct ticks *ticks =
		whole ? tick_store_take(s->ticks, first, end, walk->maker.rows) : NULL;
	struct ticks *made = NULL;
	if (!ticks) {
		made = make(&walk->maker, part, first, end);
		if (!made)
			return walk->maker.error;
		ticks = made;
	}
	if (made && whole && walk->maker.edges->unread_events == unread) {
		ticks = tick_store_put(s->ticks, made);
		made = NULL;
	}
	int rc = tell(walk, ticks);
	if (made)
		ticks_free(made);
	else
		tick_store_give(s->ticks, ticks);
	return rc;
}

int ticks_visit(struct edges *edges, uint64_t first, uint64_t end, bool rows,
		const struct query_progress *progress, tick_fn fn, void *ctx)
{
	struct query_section *s = edges->section;
	struct walk walk = {.first = first, .end = end, .fn = fn, .ctx = ctx};
	if (first >= end)
		return 0;
	size_t part = range_part_of_event(s, first), last = range_part_of_event(s, end);
	size_t whole = part + (part < s->part_count && s->parts[part].first_event < first);
	if (whole < last)
		make_ahead(s, whole, last, rows);
	int rc = maker_init(&walk.maker, edges, rows);
	for (; part < s->part_count && s->parts[part].first_event < end && !rc; part++) {
		rc = visit_part(&walk, part);
		if (!rc)
			rc = query_tell_progress(progress, s->parts[part].first_event,
						 s->stored_events, edges->err);
	}
	maker_done(&walk.maker);
	return rc;
}
