/* SPDX-License-Identifier: Apache-2.0 */
#include "import/events.h"

#include <errno.h>

#include "base/memory.h"
#include "model/known.h"
#include "model/model.h"

enum { EVENTS_BATCH = 256 }; /* stays in the first cache through model and encoder */

struct events_state {
	struct import_job *job;
	struct belt *belt;
	/* What follows is the work's: see belt_settle(). */
	struct trace_writer *writer;
	struct model *model;
	bool known;
	/* known: the first block of each slice so far. */
	uint64_t *first_blocks;
	uint32_t slice_count, slice_room;
	uint64_t births;
	struct events_counts counts;
};

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

/*
 * Frees get the slice of their block's birth where the model looks for it; such a
 * trace has no addresses, and the writer looks at none.
 */
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
	return model_apply_known(s->model, events, count, err);
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

static int store(void *ctx, const struct trace_event *events, size_t count)
{
	return trace_writer_events(ctx, events, count);
}

static int write_batch(struct events_state *s, struct trace_event *events, size_t count,
		       struct tm_error *err)
{
	int code = s->known ? apply_known(s, events, count, err)
			    : model_apply(s->model, events, count, err);
	if (code)
		return code;
	uint64_t stored = 0;
	code = model_weave_unseen(s->model, events, count, store, s->writer, &stored);
	if (code)
		return import_write_failed(code, err);
	s->counts.events += stored;
	return model_slice_due(s->model) ? cut_slice(s, err) : 0;
}

/* ---- chunks ---- */

static int write_events(struct events_state *s, struct trace_event *events, size_t count,
			struct tm_error *err)
{
	int code = 0;
	for (size_t done = 0; done < count && !code; done += EVENTS_BATCH) {
		struct trace_event *batch = events + done;
		size_t some = count - done < EVENTS_BATCH ? count - done : EVENTS_BATCH;
		if (!s->known)
			keep_order(s, batch, some);
		code = write_batch(s, batch, some, err);
	}
	return code;
}

static int write_step(struct events_state *s, const struct belt_step *step, struct tm_error *err)
{
	int code = step->is_map ? model_apply_map(s->model, &step->map, err) : 0;
	if (code)
		return code;
	if (step->is_map) {
		code = trace_writer_maps(s->writer, &step->map, 1);
	} else {
		model_apply_sample(s->model, &step->sample);
		code = trace_writer_sample(s->writer, &step->sample);
	}
	return code ? import_write_failed(code, err) : 0;
}

/* The work of the belt. */
static int write_chunk(void *ctx, struct belt_chunk *chunk, struct tm_error *err)
{
	struct events_state *s = ctx;
	size_t done = 0;
	int code = 0;
	if (chunk->stack_count) {
		code = trace_writer_stacks(s->writer, chunk->stacks, chunk->stack_count);
		if (code)
			return import_write_failed(code, err);
	}
	for (size_t i = 0; i < chunk->step_count && !code; i++) {
		const struct belt_step *step = &chunk->steps[i];
		code = write_events(s, chunk->events + done, step->before - done, err);
		done = step->before;
		if (!code)
			code = write_step(s, step, err);
	}
	return code ? code : write_events(s, chunk->events + done, chunk->event_count - done, err);
}

/* ---- the reader's side ---- */

int events_new(struct import_job *job, const struct events_options *options,
	       struct events **ret_events, struct tm_error *err)
{
	/* Allocations on live addresses: what was there ended, and nobody told of it. */
	const struct model_options how = {.page_bytes = options->page_bytes, .tells_unseen = true};
	struct events *events = tm_alloc(sizeof *events);
	struct events_state *s = tm_alloc(sizeof *s);
	if (!events || !s) {
		tm_free(events);
		tm_free(s);
		return tm_fail(err, -ENOMEM, "no memory to import the file");
	}
	events->state = s;
	s->job = job;
	s->writer = import_writer(job);
	s->known = options->known;
	int code = model_new(&how, &s->model, err);
	if (!code)
		code = belt_new(write_chunk, s, &s->belt, &events->chunk, err);
	if (code) {
		events_free(events);
		return code;
	}
	import_events(job, events);
	*ret_events = events;
	return 0;
}

struct events *events_free(struct events *events)
{
	if (events) {
		import_events(events->state->job, NULL);
		belt_free(events->state->belt);
		model_free(events->state->model);
		tm_free(events->state->first_blocks);
		tm_free(events->state);
	}
	return tm_free(events);
}

int events_pass(struct events *events, struct tm_error *err)
{
	struct events_state *s = events->state;
	int code = belt_pass(s->belt, &events->chunk, err);
	return code ? code : import_tick(s->job, err);
}

void events_settle(struct events *events)
{
	struct tm_error ignored = {0};
	(void)!belt_settle(events->state->belt, &events->chunk, &ignored);
}

int events_stacks(struct events *events, const struct trace_stack *stacks, size_t count,
		  struct tm_error *err)
{
	int code = 0;
	for (size_t i = 0; i < count && !code; i++) {
		events->chunk->stacks[events->chunk->stack_count++] = stacks[i];
		if (events->chunk->stack_count == BELT_STACKS)
			code = events_pass(events, err);
	}
	return code;
}

static int put_step(struct events *events, struct belt_step step, struct tm_error *err)
{
	struct belt_chunk *chunk = events->chunk;
	step.before = chunk->event_count;
	chunk->steps[chunk->step_count++] = step;
	return chunk->step_count < BELT_STEPS ? 0 : events_pass(events, err);
}

int events_map(struct events *events, const struct trace_map_event *map, struct tm_error *err)
{
	return put_step(events, (struct belt_step){.is_map = true, .map = *map}, err);
}

int events_sample(struct events *events, const struct trace_sample *sample, struct tm_error *err)
{
	return put_step(events, (struct belt_step){.sample = *sample}, err);
}

int events_finish(struct events *events, struct events_counts *ret_counts, struct tm_error *err)
{
	struct events_state *s = events->state;
	struct model_totals totals;
	int code = belt_settle(s->belt, &events->chunk, err);
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
