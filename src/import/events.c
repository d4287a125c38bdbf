/* SPDX-License-Identifier: Apache-2.0 */
#include "import/events.h"

#include <errno.h>

#include "base/hash.h"
#include "base/memory.h"
#include "model/known.h"
#include "model/model.h"

enum {
	OUT_ROOM = 2 * EVENTS_BATCH, /* each may bring the end of another block */
	PLACES = 4 * EVENTS_BATCH,   /* of addresses that a batch has seen; a power of two */
};

/* What a batch did with an address. */
struct place {
	uint64_t address;
	uint32_t round; /* of the batch; another one's: empty */
	bool live;
};

struct events_state {
	struct import_job *job;
	struct trace_writer *writer;
	struct model *model;
	bool known;
	uint32_t round;
	/* known: the first block of each slice so far. */
	uint64_t *first_blocks;
	uint32_t slice_count, slice_room;
	uint64_t births;
	struct events_counts counts;
	struct place places[PLACES];
	struct trace_event out[OUT_ROOM];
};

int events_new(struct import_job *job, const struct events_options *options,
	       struct events **ret_events, struct tm_error *err)
{
	const struct model_options how = {.page_bytes = options->page_bytes};
	struct events *events = tm_alloc(sizeof *events);
	struct events_state *s = tm_alloc(sizeof *s);
	int code = events && s ? model_new(&how, &s->model, err)
			       : tm_fail(err, -ENOMEM, "no memory to import the file");
	if (code) {
		tm_free(events);
		tm_free(s);
		return code;
	}
	s->job = job;
	s->writer = import_writer(job);
	s->known = options->known;
	events->state = s;
	*ret_events = events;
	return 0;
}

struct events *events_free(struct events *events)
{
	if (events) {
		model_free(events->state->model);
		tm_free(events->state->first_blocks);
		tm_free(events->state);
	}
	return tm_free(events);
}

/* ---- allocations on live addresses ---- */

static struct place *place_of(struct events_state *s, uint64_t address)
{
	size_t at = hash_u64(address) % PLACES;
	while (s->places[at].round == s->round && s->places[at].address != address)
		at = (at + 1) % PLACES;
	struct place *place = &s->places[at];
	if (place->round != s->round)
		*place = (struct place){.address = address,
					.round = s->round,
					.live = model_is_live(s->model, address)};
	return place;
}

static bool is_birth(const struct trace_event *event)
{
	return event->op == TRACE_ALLOC || event->op == TRACE_REALLOC_ALLOC;
}

static bool is_end(const struct trace_event *event)
{
	return event->op == TRACE_FREE || event->op == TRACE_REALLOC_FREE;
}

/* The batch with an end before each allocation on a live address. Returns its length. */
static size_t end_unseen(struct events_state *s, const struct trace_event *in, size_t count)
{
	size_t used = 0;
	s->round++;
	for (size_t i = 0; i < count; i++) {
		if (is_birth(&in[i])) {
			struct place *place = place_of(s, in[i].address);
			if (place->live)
				s->out[used++] = (struct trace_event){.time_ns = in[i].time_ns,
								      .address = in[i].address,
								      .thread_id = in[i].thread_id,
								      .op = TRACE_FREE_UNSEEN};
			place->live = true;
		} else if (is_end(&in[i])) {
			place_of(s, in[i].address)->live = false;
		}
		s->out[used++] = in[i];
	}
	return used;
}

/* ---- known blocks ---- */

/* The open slice is the last: it begins with the next block. */
static int begin_slice(struct events_state *s)
{
	if (s->slice_count == s->slice_room) {
		uint32_t room = s->slice_room * 2 + 64;
		void *grown = tm_grow_array(s->first_blocks, room, sizeof *s->first_blocks);
		if (!grown)
			return -ENOMEM;
		s->first_blocks = grown;
		s->slice_room = room;
	}
	s->first_blocks[s->slice_count++] = s->births;
	return 0;
}

static uint32_t slice_of(const struct events_state *s, uint64_t block_id)
{
	uint32_t low = 0, high = s->slice_count - 1;
	if (block_id >= s->first_blocks[high])
		return high;
	while (low < high) {
		uint32_t middle = low + (high - low + 1) / 2;
		if (s->first_blocks[middle] <= block_id)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* Frees get the slice of their block's birth where the model looks for it. */
static int apply_known(struct events_state *s, struct trace_event *events, size_t count,
		       struct tm_error *err)
{
	if (!s->slice_count && begin_slice(s))
		return tm_fail(err, -ENOMEM, "no memory for the slices of the trace");
	for (size_t i = 0; i < count; i++) {
		if (events[i].op == TRACE_ALLOC)
			s->births++;
		else
			events[i].address = slice_of(s, events[i].block_id);
	}
	int code = model_apply_known(s->model, events, count, err);
	for (size_t i = 0; i < count; i++)
		events[i].address = 0;
	return code;
}

/* ---- batches ---- */

static void keep_order(struct events_state *s, struct trace_event *events, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (events[i].time_ns < s->counts.last_ns) {
			events[i].time_ns = s->counts.last_ns;
			s->counts.late++;
		}
		s->counts.last_ns = events[i].time_ns;
	}
}

static int cut_slice(struct events_state *s, struct tm_error *err)
{
	struct trace_slice slice;
	int code = model_slice_take(s->model, &slice, err);
	if (code)
		return code;
	code = trace_writer_slice(s->writer, &slice);
	if (code)
		return import_write_failed(code, err);
	return s->known && begin_slice(s) ? tm_fail(err, -ENOMEM, "no memory for a slice") : 0;
}

static int write_batch(struct events_state *s, struct trace_event *events, size_t count,
		       struct tm_error *err)
{
	int code = s->known ? apply_known(s, events, count, err)
			    : model_apply(s->model, events, count, err);
	if (code)
		return code;
	code = trace_writer_events(s->writer, events, count);
	if (code)
		return import_write_failed(code, err);
	s->counts.events += count;
	return model_slice_due(s->model) ? cut_slice(s, err) : 0;
}

int events_flush(struct events *events, struct tm_error *err)
{
	struct events_state *s = events->state;
	struct trace_event *batch = events->batch;
	size_t count = events->count;
	events->count = 0;
	keep_order(s, batch, count);
	if (!s->known) {
		count = end_unseen(s, batch, count);
		batch = s->out;
	}
	int code = count ? write_batch(s, batch, count, err) : 0;
	return code ? code : import_tick(s->job, err);
}

int events_map(struct events *events, const struct trace_map_event *map, struct tm_error *err)
{
	struct events_state *s = events->state;
	int code = events_flush(events, err);
	if (!code)
		code = model_apply_map(s->model, map, err);
	if (code)
		return code;
	code = trace_writer_maps(s->writer, map, 1);
	return code ? import_write_failed(code, err) : 0;
}

int events_sample(struct events *events, const struct trace_sample *sample, struct tm_error *err)
{
	struct events_state *s = events->state;
	int code = events_flush(events, err);
	if (code)
		return code;
	model_apply_sample(s->model, sample);
	code = trace_writer_sample(s->writer, sample);
	return code ? import_write_failed(code, err) : 0;
}

int events_finish(struct events *events, struct events_counts *ret_counts, struct tm_error *err)
{
	struct events_state *s = events->state;
	struct model_totals totals;
	int code = events_flush(events, err);
	if (!code)
		code = cut_slice(s, err);
	if (code)
		return code;
	model_totals(s->model, &totals);
	s->counts.unseen = totals.freed_unseen;
	s->counts.older = totals.freed_older;
	*ret_counts = s->counts;
	return 0;
}
