/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The far end of the drain thread: events in their final order are gathered in
 * a batch, applied to the model, and written. One per section; used by one
 * thread only.
 */
#pragma once

#include "base/error.h"
#include "collector/cull.h"
#include "collector/heaps.h"
#include "collector/modules_seen.h"
#include "collector/paused.h"
#include "collector/repair.h"
#include "collector/sampled.h"
#include "collector/stack_ids.h"
#include "collector/stamp.h"
#include "model/model.h"
#include "trace/trace.h"
#include "wire/pool.h"

enum {
	FEED_BATCH = REPAIR_EVENTS_MAX,
	FEED_BATCH_ALONE = 256, /* of one thread: as many as stay in the first cache */
};

struct feed {
	const struct wire_map *map;
	struct model *model;
	struct trace_writer *writer; /* borrowed; set when the section's turn comes */
	struct stamp_clock clock;
	struct stack_ids stacks;
	struct modules_seen modules;
	struct trace_thread *threads; /* threads[thread_id] */
	uint32_t thread_count, thread_room;
	uint64_t moment_ns;   /* of the last moment */
	uint64_t last_ns;     /* time never falls from event to event */
	uint64_t events;      /* heap events applied */
	uint64_t bad_events;  /* words that were no event */
	uint64_t dropped;     /* events for which there was no memory */
	uint64_t repaired;    /* events whose order was put right */
	struct paused paused; /* blocks born in pauses */
	struct sampled sampled;
	struct repair *repair;
	uint64_t strangers_seen, strangers; /* ends of unknown blocks: all, and of late */
	bool late;                          /* set before the first event: it began late */
	struct heaps *heaps;                /* NULL: no named heap needs them */
	struct cull *cull;                  /* NULL: every block is stored */
	uint64_t looked_events;             /* with cull: what the journal's slice has */
	bool mixed;                         /* the batch has events of several threads */
	bool fresh; /* something was put into the batch since the last tick */
	int error;  /* sticky: of the model or for lack of memory; the writer keeps its own */
	struct tm_error why;
	size_t count; /* events in batch[] */
	struct trace_event batch[FEED_BATCH];
};

/* The writer is set by the caller before the first event. */
TM_MUST_CHECK int feed_init(struct feed *feed, const struct wire_map *map, bool tsc,
			    const struct stamp_pair *earlier, uint64_t cull_ns,
			    struct tm_error *err);
void feed_done(struct feed *feed);
/* No more events: what only they need is given back. Stacks, modules and threads stay. */
void feed_rest(struct feed *feed);
/* It begins late: ends of blocks that it does not know will come. */
void feed_expect_strangers(struct feed *feed);
/* A model for the feed; blocks that live shorter than cull_ns (0: none) are not stored. */
TM_MUST_CHECK int feed_make_model(struct feed *feed, uint64_t cull_ns, struct tm_error *err);

/*
 * Applies and writes the batch. Unless `all`, the last microsecond of it stays:
 * an event that belongs before it may come in the next pass.
 */
void feed_flush(struct feed *feed, bool all);

/* Events in their final order to the model and the writer, the batch apart. */
void feed_apply(struct feed *feed, struct trace_event *events, size_t count);
/* Makes the lack of memory the feed's sticky error. */
void feed_out_of_memory(struct feed *feed);

/* Events that the batch should hold before it is flushed. */
static inline size_t feed_room(const struct feed *feed)
{
	return feed->mixed ? FEED_BATCH : FEED_BATCH_ALONE;
}

/* The next place in the batch, to be filled by the caller: all but block_id, which the model does.
 */
static inline struct trace_event *feed_place(struct feed *feed, uint32_t thread_id)
{
	if (__builtin_expect(feed->count >= feed_room(feed), 0))
		feed_flush(feed, false);
	if (feed->count && feed->batch[feed->count - 1].thread_id != thread_id)
		feed->mixed = true;
	feed->fresh = true;
	return &feed->batch[feed->count++];
}

/* New stacks and modules to the writer: before the events that refer to them. */
void feed_write_names(struct feed *feed);

/* stack_id of a wire node, learning it if need be. */
uint32_t feed_learn_stack(struct feed *feed, uint32_t node);
static inline uint32_t feed_stack(struct feed *feed, uint32_t node)
{
	uint32_t id = stack_ids_known(&feed->stacks, node);
	return __builtin_expect(id != 0, 1) ? id : feed_learn_stack(feed, node);
}

/* Time of a stamp, never less than that of the event before. */
static inline uint64_t feed_time(struct feed *feed, uint64_t stamp)
{
	uint64_t ns = stamp_to_ns(&feed->clock, stamp);
	feed->last_ns = ns > feed->last_ns ? ns : feed->last_ns;
	return feed->last_ns;
}

/* The realloc that a thread has begun made a block that is not recorded: it was a free. */
void feed_passed(struct feed *feed, uint32_t thread_id);
/* A block was allocated in a pause. */
void feed_born(struct feed *feed, uint64_t address);
/* A mark, or a pause or its end. Times that fall are raised. */
void feed_moment(struct feed *feed, const struct trace_moment *moment);
/* A new thread; its id. */
uint32_t feed_thread(struct feed *feed, uint32_t tid, uint64_t time_ns);
void feed_thread_name(struct feed *feed, uint32_t thread_id, const char name[16]);
void feed_thread_end(struct feed *feed, uint32_t thread_id, uint64_t time_ns);
void feed_map_event(struct feed *feed, const struct trace_map_event *event);
void feed_sample(struct feed *feed, const struct trace_sample *sample);
/* What is buffered becomes durable. Twice in 100 ms, since an event may miss one. */
void feed_tick(struct feed *feed);
/* All so far, with its aggregates, is sealed and forced to the disk. Does not wait for that. */
void feed_snapshot(struct feed *feed);
/* The last slice. Symbols and the end record are the caller's. */
void feed_close_slice(struct feed *feed);
