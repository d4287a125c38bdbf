/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/feed.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

enum {
	STRANGERS_LAST = 64, /* batches: so long they are remembered */
	STRANGERS_FEW = 8,   /* of late: then they are nothing unusual */
};

int feed_init(struct feed *feed, const struct wire_map *map, bool tsc,
	      const struct stamp_pair *earlier, uint64_t cull_ns, struct tm_error *err)
{
	memset(feed, 0, offsetof(struct feed, batch));
	feed->map = map;
	modules_seen_init(&feed->modules);
	stamp_clock_init(&feed->clock, tsc, earlier);
	feed->repair = repair_new();
	int error = feed->repair ? stack_ids_init(&feed->stacks) : -ENOMEM;
	if (error)
		tm_fail(err, error, "out of memory for the recording");
	else
		error = feed_make_model(feed, cull_ns, err);
	if (error)
		feed_done(feed);
	return error;
}

int feed_make_model(struct feed *feed, uint64_t cull_ns, struct tm_error *err)
{
	struct model_options options = {.tells_unseen = true, .maps_by_stack = true};
	if (cull_ns) {
		/* What is culled is known by slices alone: they are shorter then. */
		options.slice_ns = cull_slice_ns(cull_ns);
		options.slice_events = CULL_SLICE_EVENTS;
		feed->cull = cull_new(cull_ns);
		if (!feed->cull)
			return tm_fail(err, -ENOMEM, "out of memory for the recording");
	}
	return model_new(&options, &feed->model, err);
}

void feed_rest(struct feed *feed)
{
	feed->model = model_free(feed->model);
	feed->repair = repair_free(feed->repair);
	feed->heaps = heaps_free(feed->heaps);
	feed->cull = cull_free(feed->cull);
	paused_done(&feed->paused);
	sampled_done(&feed->sampled);
}

void feed_done(struct feed *feed)
{
	feed_rest(feed);
	stack_ids_done(&feed->stacks);
	modules_seen_done(&feed->modules);
	feed->threads = tm_free(feed->threads);
}

static void fail(struct feed *feed, int error)
{
	if (!feed->error) {
		feed->error = error;
		if (!feed->why.code)
			tm_fail(&feed->why, error, "the recording is incomplete: %s",
				strerror(-error));
	}
}

uint32_t feed_learn_stack(struct feed *feed, uint32_t node)
{
	uint32_t id = 0;
	int error = stack_ids_learn(&feed->stacks, feed->map, &feed->modules, node, &id);
	if (error)
		fail(feed, error);
	return id;
}

static void write_modules(struct feed *feed)
{
	struct modules_seen *modules = &feed->modules;
	for (uint32_t id = 1; id < modules->count && modules->dirty_count; id++) {
		if (!modules->dirty[id])
			continue;
		modules->dirty[id] = 0;
		modules->dirty_count--;
		trace_writer_module(feed->writer, &modules->rows[id]);
	}
}

void feed_write_names(struct feed *feed)
{
	struct stack_ids *stacks = &feed->stacks;
	if (feed->modules.dirty_count)
		write_modules(feed);
	if (stacks->written < stacks->count) {
		trace_writer_stacks(feed->writer, stacks->rows + stacks->written,
				    stacks->count - stacks->written);
		stacks->written = stacks->count;
	}
}

/* What is stored of a slice and what was culled of it end together. */
static void write_culled_slice(struct feed *feed, struct trace_slice *slice)
{
	cull_describe(feed->cull, slice);
	trace_writer_skip(feed->writer, slice->first_event + slice->event_count,
			  model_next_block(feed->model));
	trace_writer_slice(feed->writer, slice);
	cull_next_slice(feed->cull);
}

static void take_slice(struct feed *feed)
{
	struct trace_slice slice;
	if (feed->cull)
		cull_flush(feed->cull, feed->writer);
	int error = model_slice_take(feed->model, &slice, &feed->why);
	if (error)
		fail(feed, error);
	else if (feed->cull)
		write_culled_slice(feed, &slice);
	else
		trace_writer_slice(feed->writer, &slice);
}

/* Events of the batch that may be applied now. */
static size_t ripe_count(const struct feed *feed, bool all)
{
	size_t count = feed->count;
	if (all || feed->thread_count < 2)
		return count;
	uint64_t end_ns = feed->batch[count - 1].time_ns;
	while (count && feed->batch[count - 1].time_ns + REPAIR_WINDOW_NS > end_ns)
		count--;
	return count ? count : feed->count;
}

void feed_born(struct feed *feed, uint64_t address)
{
	int error = paused_born(&feed->paused, address);
	if (error)
		fail(feed, error);
}

void feed_passed(struct feed *feed, uint32_t thread_id)
{
	for (size_t i = feed->count; i-- > 0;) {
		if (feed->batch[i].thread_id != thread_id)
			continue;
		if (feed->batch[i].op == TRACE_REALLOC_FREE)
			feed->batch[i].op = TRACE_FREE;
		return;
	}
	model_forget_realloc(feed->model, thread_id);
}

/* Of the ends of unknown blocks: those that were born in a pause. */
static void tell_paused(struct feed *feed, const struct trace_event *events, size_t count)
{
	for (size_t i = 0; i < count && feed->paused.used; i++)
		if (events[i].op == TRACE_FREE_OLDER)
			paused_ended(&feed->paused, events[i].address);
}

void feed_moment(struct feed *feed, const struct trace_moment *moment)
{
	struct trace_moment copy = *moment;
	if (copy.time_ns < feed->moment_ns)
		copy.time_ns = feed->moment_ns;
	feed->moment_ns = copy.time_ns;
	trace_writer_moment(feed->writer, &copy);
}

void feed_out_of_memory(struct feed *feed)
{
	fail(feed, -ENOMEM);
}

/* The writer keeps its own errors. */
static int store(void *ctx, const struct trace_event *events, size_t count)
{
	struct feed *feed = ctx;
	if (feed->cull)
		return cull_events(feed->cull, feed->writer, events, count);
	trace_writer_events(feed->writer, events, count);
	return 0;
}

void feed_apply(struct feed *feed, struct trace_event *events, size_t count)
{
	if (!count)
		return;
	feed_write_names(feed);
	uint64_t stored = 0;
	const size_t all = count;
	int error = atomic_load_explicit(&feed->sampled.on, memory_order_relaxed)
			    ? sampled_apply(&feed->sampled, feed->model, feed->map, events, count,
					    &count, &feed->why)
			    : model_apply(feed->model, events, count, &feed->why);
	if (error) {
		const struct model_unseen *none;
		(void)model_take_unseen(feed->model, &none); /* like the events: not stored */
		feed->dropped += all;
		fail(feed, error);
		return;
	}
	if (feed->paused.used)
		tell_paused(feed, events, count);
	error = model_weave_unseen(feed->model, events, count, store, feed, &stored);
	feed->events += stored;
	if (error)
		fail(feed, error);
	if (model_slice_due(feed->model) || trace_writer_wants_slice(feed->writer))
		take_slice(feed);
}

void feed_expect_strangers(struct feed *feed)
{
	feed->late = true;
	feed->strangers = FEED_BATCH * STRANGERS_LAST;
}

/*
 * Do ends of unknown blocks come in numbers? They do after attaching, and after sampling. What is
 * long ago counts less and less.
 */
static bool strangers_end(struct feed *feed)
{
	uint64_t seen = model_freed_older(feed->model) + feed->sampled.strangers;
	uint64_t more = seen - feed->strangers_seen;
	unsigned doubtful = repair_doubtful(feed->repair);
	feed->strangers_seen = seen;
	/* What may just as well be skew says nothing: else it would prove itself. */
	more = more > doubtful ? more - doubtful : 0;
	feed->strangers += (more < FEED_BATCH ? more : FEED_BATCH) * STRANGERS_LAST;
	feed->strangers -= feed->strangers / STRANGERS_LAST;
	return feed->strangers >= STRANGERS_FEW * STRANGERS_LAST;
}

/* What follows may be of another thread: who puts it there compares it with the last of these. */
static bool has_several_threads(const struct trace_event *events, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (events[i].thread_id != events[0].thread_id)
			return true;
	return false;
}

void feed_flush(struct feed *feed, bool all)
{
	if (!feed->count)
		return;
	if (feed->mixed)
		feed->repaired += repair_order(feed->repair, feed->model, strangers_end(feed),
					       feed->batch, feed->count);
	size_t count = ripe_count(feed, all), rest = feed->count - count;
	if (feed->heaps)
		heaps_apply(feed, feed->batch, count);
	else
		feed_apply(feed, feed->batch, count);
	memmove(feed->batch, feed->batch + count, rest * sizeof *feed->batch);
	feed->count = rest;
	feed->mixed = feed->mixed && has_several_threads(feed->batch, rest);
}

uint32_t feed_thread(struct feed *feed, uint32_t tid, uint64_t time_ns)
{
	if (feed->thread_count == feed->thread_room) {
		uint32_t room = feed->thread_room ? feed->thread_room * 2 : 64;
		struct trace_thread *grown =
			tm_grow_array(feed->threads, room, sizeof *feed->threads);
		if (!grown) {
			fail(feed, -ENOMEM);
			return feed->thread_count ? feed->thread_count - 1 : 0;
		}
		feed->threads = grown;
		feed->thread_room = room;
	}
	uint32_t id = feed->thread_count++;
	feed->threads[id] = (struct trace_thread){
		.thread_id = id, .tid = tid, .start_ns = time_ns, .end_ns = UINT64_MAX};
	trace_writer_thread(feed->writer, &feed->threads[id]);
	return id;
}

void feed_thread_name(struct feed *feed, uint32_t thread_id, const char name[16])
{
	char copy[16];
	memcpy(copy, name, sizeof copy);
	copy[sizeof copy - 1] = '\0';
	if (thread_id >= feed->thread_count ||
	    !strncmp(feed->threads[thread_id].name, copy, sizeof copy))
		return;
	memcpy(feed->threads[thread_id].name, copy, sizeof copy);
	trace_writer_thread(feed->writer, &feed->threads[thread_id]);
}

void feed_thread_end(struct feed *feed, uint32_t thread_id, uint64_t time_ns)
{
	if (thread_id >= feed->thread_count || feed->threads[thread_id].end_ns != UINT64_MAX)
		return;
	feed->threads[thread_id].end_ns = time_ns;
	trace_writer_thread(feed->writer, &feed->threads[thread_id]);
}

void feed_map_event(struct feed *feed, const struct trace_map_event *event)
{
	feed_write_names(feed);
	int error = model_apply_map(feed->model, event, &feed->why);
	if (error)
		fail(feed, error);
	else
		trace_writer_maps(feed->writer, event, 1);
}

void feed_sample(struct feed *feed, const struct trace_sample *sample)
{
	model_apply_sample(feed->model, sample);
	trace_writer_sample(feed->writer, sample);
}

/* The journal's events do not have what was culled: the open slice does. */
static void tick_culled(struct feed *feed)
{
	struct trace_slice open = {0};
	cull_tick(feed->cull, feed->writer, clock_steady_ns() - feed->clock.origin_ns);
	if (feed->events != feed->looked_events || trace_writer_renews(feed->writer)) {
		if (model_slice_look(feed->model, &open, NULL))
			return; /* the journal stays as it is until there is memory */
		cull_describe(feed->cull, &open);
		feed->looked_events = feed->events;
	}
	trace_writer_tick_slice(feed->writer, open.event_count ? &open : NULL);
}

void feed_tick(struct feed *feed)
{
	feed_flush(feed, !feed->fresh);
	feed->fresh = false;
	feed_write_names(feed);
	if (model_slice_due(feed->model))
		take_slice(feed);
	if (feed->cull)
		tick_culled(feed);
	else
		trace_writer_tick(feed->writer);
}

void feed_snapshot(struct feed *feed)
{
	feed_flush(feed, false);
	feed_write_names(feed);
	take_slice(feed);
	trace_writer_sync(feed->writer);
}

void feed_close_slice(struct feed *feed)
{
	feed_flush(feed, true);
	feed_write_names(feed);
	take_slice(feed);
}
