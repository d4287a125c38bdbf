/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rotation: one piece of a recording ends and the next begins, with no event
 * lost or seen twice. The drain thread of the old piece stops between two
 * passes and gives away what it drains (shared memory, cursors) and what it has
 * learnt (stacks, modules, threads, the live set); then it finishes its own
 * file. The new piece's thread goes on with the very next event. Meanwhile the
 * program writes into the pool as ever.
 */
#include "collector/section_state.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"

enum { PATIENCE_S = 1 };
#define FIRST_NS 1000 /* what lived before has time 0, what happens after has more */

void section_rotate(struct section *section, struct section *next, uint64_t children_recorded)
{
	struct timespec deadline;
	section->heir = next;
	section_end(section, &(struct section_ending){.cause = TRACE_END_ROTATED,
						      .children_recorded = children_recorded});
	clock_gettime(CLOCK_MONOTONIC, &deadline); /* as section->given was made */
	deadline.tv_sec += PATIENCE_S;
	pthread_mutex_lock(&next->lock);
	while (!next->was_given)
		if (pthread_cond_timedwait(&next->given, &next->lock, &deadline))
			break;
	pthread_mutex_unlock(&next->lock);
}

/* ---- what the next piece knows from the start ---- */

static int copy_stacks(struct stack_ids *to, const struct stack_ids *from)
{
	*to = (struct stack_ids){.count = from->count,
				 .written = 1,
				 .canonical_count = from->canonical_count,
				 .rows_room = from->count,
				 .table_mask = from->table_mask};
	size_t table_count = (size_t)from->table_mask + 1;
	to->canonical = tm_alloc_array((size_t)from->canonical_count + 1, sizeof *to->canonical);
	to->rows = tm_alloc_array(from->count, sizeof *to->rows);
	to->table = tm_alloc_array(table_count, sizeof *to->table);
	if (!to->canonical || !to->rows || !to->table)
		return -ENOMEM;
	if (from->canonical)
		memcpy(to->canonical, from->canonical,
		       from->canonical_count * sizeof *to->canonical);
	memcpy(to->rows, from->rows, from->count * sizeof *to->rows);
	memcpy(to->table, from->table, table_count * sizeof *to->table);
	return 0;
}

/* A time of the piece before in the next one. */
static uint64_t later(uint64_t time_ns, uint64_t by_ns)
{
	if (time_ns == UINT64_MAX)
		return time_ns;
	return time_ns > by_ns ? time_ns - by_ns : 0;
}

static int copy_modules(struct modules_seen *to, const struct modules_seen *from, uint64_t by_ns)
{
	modules_seen_init(to);
	for (uint32_t id = 1; id < from->count; id++) {
		struct trace_module facts = from->rows[id];
		facts.unmapped_ns = later(facts.unmapped_ns, by_ns);
		modules_seen_adopt(to, &facts);
	}
	to->adopted = from->adopted;
	to->by_instance =
		tm_alloc_array((size_t)from->by_instance_count + 1, sizeof *to->by_instance);
	if (!to->by_instance || to->no_memory)
		return -ENOMEM;
	if (from->by_instance)
		memcpy(to->by_instance, from->by_instance,
		       from->by_instance_count * sizeof *to->by_instance);
	to->by_instance_count = from->by_instance_count;
	return 0;
}

static int copy_threads(struct feed *to, const struct feed *from, uint64_t by_ns)
{
	to->threads = tm_alloc_array((size_t)from->thread_count + 1, sizeof *to->threads);
	if (!to->threads)
		return -ENOMEM;
	to->thread_count = from->thread_count;
	to->thread_room = from->thread_count + 1;
	for (uint32_t id = 0; id < from->thread_count; id++) {
		to->threads[id] = from->threads[id];
		to->threads[id].start_ns = later(from->threads[id].start_ns, by_ns);
		to->threads[id].end_ns = later(from->threads[id].end_ns, by_ns);
	}
	return 0;
}

static int copy_feed(struct section *to, struct feed *from)
{
	struct feed *feed = &to->feed;
	uint64_t now_ns = clock_steady_ns(), by_ns = now_ns - from->clock.origin_ns;
	memset(feed, 0, offsetof(struct feed, batch));
	feed->map = &to->shm.map;
	feed->clock = from->clock;
	feed->clock.origin_ns = now_ns;
	feed->clock.base_ns -= (int64_t)by_ns;
	feed->last_ns = FIRST_NS;
	to->piece_start_ns = to->elder->piece_start_ns + by_ns;
	feed->paused = from->paused;
	feed->paused.births = feed->paused.frees = 0;
	from->paused = (struct paused){0};
	/* Who switches tells both of us; we do not take back what was told to this one. */
	pthread_mutex_lock(&to->mode_lock->mutex);
	feed->sampled = from->sampled;
	pthread_mutex_unlock(&to->mode_lock->mutex);
	from->sampled.threads = NULL;
	from->sampled.thread_room = 0;
	feed->late = from->late;
	feed->strangers = from->strangers;
	feed->strangers_seen = feed->sampled.strangers; /* the new model has seen none */
	feed->heaps = from->heaps;
	from->heaps = NULL;
	feed->repair = repair_new();
	int error = copy_stacks(&feed->stacks, &from->stacks);
	if (!error)
		error = copy_modules(&feed->modules, &from->modules, by_ns);
	if (!error)
		error = copy_threads(feed, from, by_ns);
	if (!error)
		error = feed_make_model(feed, to->options.cull_ns, NULL);
	return error || feed->repair ? error : -ENOMEM;
}

/* ---- giving and taking ---- */

void section_hand_over(struct section *section)
{
	struct section *heir = section->heir;
	heir->shm = section->shm;
	section->shm = (struct shm){.fd = -1};
	heir->box = inherit_box_share(section->box);
	heir->cursors = section->cursors;
	heir->cursors.map = &heir->shm.map;
	section->cursors = (struct cursors){0};
	extra_take_over(&heir->extra, &section->extra);
	heir->counted = cursors_counters(&heir->cursors);
	heir->lost_before = atomic_load(&heir->control->lost);
	heir->usr1_told = section->usr1_told;
	heir->shrink = section->shrink;
	heir->shrink.checked_bytes = 0;
	heir->sleep_ns = section->sleep_ns;
	heir->fill_passes = section->fill_passes;
	heir->feed.error = copy_feed(heir, &section->feed);
	heir->elder_model = section->feed.model;
	section->feed.model = NULL;
	atomic_store(&heir->origin_ns, heir->feed.clock.origin_ns);
	pthread_mutex_lock(&heir->lock);
	heir->was_given = true;
	pthread_cond_broadcast(&heir->given);
	pthread_mutex_unlock(&heir->lock);
}

int section_take_over(struct section *section)
{
	pthread_mutex_lock(&section->lock);
	while (!section->was_given)
		pthread_cond_wait(&section->given, &section->lock);
	pthread_mutex_unlock(&section->lock);
	int error = section->feed.error;
	return error ? error : section_connect(section, &section->feed.why);
}

static int put_map(void *ctx, const struct trace_map_event *event)
{
	feed_map_event(ctx, event);
	return 0;
}

void section_resume(struct section *section, struct resume *resume)
{
	struct feed *feed = &section->feed;
	struct heaps *heaps = feed->heaps;
	feed->heaps = NULL; /* they know of these blocks already */
	for (uint32_t id = 0; id < feed->thread_count; id++)
		trace_writer_thread(feed->writer, &feed->threads[id]);
	feed_write_names(feed);
	if (section->elder_model)
		resume_maps(section->elder_model, put_map, feed);
	section->elder_model = model_free(section->elder_model);
	while (resume && (feed->count = resume_events(resume, feed->batch, FEED_BATCH_ALONE)) > 0) {
		feed->mixed = false;
		feed_flush(feed, true);
		/* Who waits for room must see that somebody is at work. */
		atomic_fetch_add_explicit(&section->control->progress, 1, memory_order_relaxed);
	}
	if (resume && resume_blocks(resume))
		feed_close_slice(feed);
	feed->heaps = heaps;
	if (section_state(section) == WIRE_PAUSED)
		feed_moment(feed, &(struct trace_moment){.kind = TRACE_MOMENT_PAUSE, .text = ""});
}
