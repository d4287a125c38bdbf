/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model from a trace. model_load() takes the sums over slices, which say everything
 * up to the end of the last one, and replays the few events after it. Frees
 * there may end blocks whose birth lies before; the trace says their stack and
 * size, or the event block of their birth does.
 */
#include <errno.h>

#include "base/memory.h"
#include "model/event_scan.h"
#include "model/history.h"
#include "model/state.h"
#include "model/tally.h"

/* Slices are cut after half a million events at most in files of this size. */
enum { TAIL_EVENTS_MAX = 4 << 20 };
/* What a file that is being written has after its last whole block of events. */
enum { JOURNAL_EVENTS_MAX = 1 << 17 };

struct loader {
	struct trace_reader *reader;
	struct model *m;
	struct history history;
	size_t stack_count;
	uint32_t slice_count;
	uint64_t first_event, first_block; /* that the slices do not cover */
	uint64_t all_events;
	const struct model_load_options *options;
	struct tm_error *err;
};

/* ---- slices ---- */

static int bad_slice(const struct loader *l, const char *what)
{
	return tm_fail(l->err, -EBADMSG, "slice %u of the trace is damaged: %s", l->slice_count,
		       what);
}

static int add_sum(struct loader *l, const struct trace_sum *sum)
{
	struct model *m = l->m;
	uint32_t slot;
	if (sum->stack_id >= l->stack_count)
		return bad_slice(l, "a stack that is not in the trace");
	if (stacks_make_slot(&m->stacks, sum->stack_id, &slot))
		return tm_fail(l->err, -ENOMEM, "no memory for the figures of a stack");
	struct stack_hot *hot = stacks_hot(&m->stacks, slot);
	struct stack_cold *cold = stacks_cold(&m->stacks, slot);
	uint64_t live_blocks = sum->births - sum->deaths;
	uint64_t live_bytes = sum->birth_bytes - sum->death_bytes;
	if (live_blocks > UINT32_MAX || live_bytes > sum->birth_bytes ||
	    sum->peak_count > UINT32_MAX)
		return bad_slice(l, "more blocks end than began");
	if (sum->births) {
		hot->flags |= STACK_BORE;
		m->stack_count++;
	}
	cold->births = sum->births;
	cold->birth_bytes = sum->birth_bytes;
	cold->temporary = sum->temporary;
	cold->failed = sum->failed;
	hot->base_blocks = (uint32_t)live_blocks;
	hot->base_bytes = live_bytes;
	hot->epoch = m->epoch;
	hot->saved_blocks = (uint32_t)sum->peak_count;
	hot->saved_bytes = sum->peak_bytes;
	m->unlisted += live_blocks;
	m->live_bytes += live_bytes;
	m->allocations += sum->births; /* of sampled blocks: not their number, see first_unseen() */
	m->temporary += sum->temporary;
	m->failed += sum->failed;
	if (__builtin_add_overflow(m->allocated_bytes, sum->birth_bytes, &m->allocated_bytes))
		return bad_slice(l, "sizes beyond any memory");
	return 0;
}

/* The slices' own numbers: each goes on where the one before ended. */
static int add_facts(struct loader *l, const struct trace_slice *slice)
{
	struct model *m = l->m;
	if (slice->first_event != m->events)
		return bad_slice(l, "slices are missing before it");
	m->events += slice->event_count;
	m->now_us = slice->end_ns / 1000;
	m->peak_bytes = slice->peak_bytes;
	m->peak_blocks = slice->peak_blocks;
	m->peak_us = slice->peak_time_ns / 1000;
	m->freed_unseen = slice->freed_unseen;
	m->freed_older = slice->freed_older;
	l->slice_count++;
	/* Later slices repeat it; the one of the largest sample of all is meant. */
	if (!m->rss.heap_known && slice->rss_time_ns / 1000 == m->rss.time_us) {
		m->rss.heap_known = true;
		m->rss.heap_bytes = slice->rss_heap_bytes;
	}
	return 0;
}

static int add_slices(struct loader *l)
{
	struct trace_slice *facts = NULL;
	struct trace_sum *sums = NULL;
	size_t facts_count = 0, sums_count = 0;
	int rc = trace_reader_curve(l->reader, &facts, &facts_count, l->err);
	for (size_t i = 0; i < facts_count && !rc; i++)
		rc = add_facts(l, &facts[i]);
	if (!rc)
		rc = trace_reader_sums(l->reader, facts_count, &sums, &sums_count, l->err);
	for (size_t i = 0; i < sums_count && !rc; i++)
		rc = add_sum(l, &sums[i]);
	if (!rc && facts_count > 0 &&
	    (l->m->live_bytes != facts[facts_count - 1].live_bytes ||
	     model_live_count(l->m) != facts[facts_count - 1].live_blocks))
		rc = bad_slice(l, "its rows do not add up");
	tm_free(facts);
	tm_free(sums);
	return rc;
}

/* ---- events after the slices ---- */

/* An event whose stack is its own, and must be one of the trace's. */
static bool brings_stack(const struct trace_event *event)
{
	return event->op == TRACE_ALLOC || event->op == TRACE_REALLOC_ALLOC ||
	       event->op == TRACE_REALLOC_UNDO || event->op == TRACE_ALLOC_FAIL;
}

static int check_event(const struct loader *l, const struct trace_event *event)
{
	if (event->op >= TRACE_OP_COUNT ||
	    (brings_stack(event) && event->stack_id >= l->stack_count))
		return tm_fail(l->err, -EBADMSG, "an event of the trace has no valid %s",
			       event->op >= TRACE_OP_COUNT ? "kind" : "stack");
	return 0;
}

static bool thread_is_new(const struct model *m, uint32_t thread_id)
{
	return !threads_has(&m->threads, thread_id) ||
	       threads_at(&m->threads, thread_id)->last_block == 0;
}

/* Whether this thread began a realloc in what was replayed. */
static bool has_pending(const struct model *m, uint32_t thread_id)
{
	return threads_has(&m->threads, thread_id) && threads_at(&m->threads, thread_id)->pending;
}

/* Stack and size of an old block; false if the trace does not know them. */
static int find_birth(struct loader *l, const struct trace_event *event,
		      struct trace_event *ret_birth, bool *ret_known)
{
	*ret_known = true;
	if (event->flags & TRACE_EVENT_OLD) {
		*ret_birth = *event;
		return 0;
	}
	const struct trace_event *birth;
	int rc = history_birth(&l->history, event->block_id, &birth, l->err);
	if (rc)
		return rc;
	*ret_known = birth != NULL;
	if (birth)
		*ret_birth = *birth;
	return 0;
}

/* The block must be among what the slices left alive, or the figures would go below zero. */
static bool may_end(const struct model *m, const struct trace_event *birth)
{
	uint32_t found = stacks_find(&m->stacks, birth->stack_id);
	if (!found)
		return false;
	const struct stack_hot *stack = stacks_hot(&m->stacks, found - 1);
	struct trace_weight weight = trace_weigh(birth->size_bytes, birth->block_id);
	return stack->base_blocks >= weight.count && stack->base_bytes >= weight.bytes;
}

static int adopt_ending(struct loader *l, const struct trace_event *event)
{
	struct model *m = l->m;
	struct trace_event birth;
	bool known;
	int rc = find_birth(l, event, &birth, &known);
	if (rc || !known || !may_end(m, &birth))
		return rc;
	bool idle = false;
	if (event->op == TRACE_FREE && thread_is_new(m, event->thread_id)) {
		rc = history_idle_since_birth(&l->history, event->block_id, event->thread_id,
					      l->first_event, &idle, l->err);
		if (rc)
			return rc;
	}
	if (model_adopt(m, &birth) || threads_reserve(&m->threads, event->thread_id))
		return tm_fail(l->err, -ENOMEM, "no memory to replay the trace");
	if (idle)
		threads_at(&m->threads, event->thread_id)->last_block = event->block_id + 1;
	return 0;
}

/* A realloc that began before the replay and failed in it. */
static int adopt_undone(struct loader *l, const struct trace_event *event)
{
	const struct trace_event *last;
	int rc = history_last_realloc(&l->history, event->thread_id, l->first_event, &last, l->err);
	if (rc || !last || last->op != TRACE_REALLOC_FREE || last->block_id == TRACE_NO_BLOCK)
		return rc;
	struct trace_event birth, ended = *last;
	bool known;
	rc = find_birth(l, &ended, &birth, &known);
	if (rc || !known || birth.stack_id >= l->stack_count)
		return rc;
	birth.block_id = ended.block_id;
	if (model_adopt_pending(l->m, &birth, event->thread_id))
		return tm_fail(l->err, -ENOMEM, "no memory to replay the trace");
	return 0;
}

static int replay_one(struct loader *l, const struct trace_event *event)
{
	struct model *m = l->m;
	struct trace_event copy = *event;
	int rc = check_event(l, event);
	bool ends = event->op == TRACE_FREE || event->op == TRACE_REALLOC_FREE ||
		    event->op == TRACE_FREE_UNSEEN;
	if (!rc && ends && event->block_id < l->first_block)
		rc = adopt_ending(l, event);
	else if (!rc && event->op == TRACE_REALLOC_UNDO && !has_pending(m, event->thread_id))
		rc = adopt_undone(l, event);
	if (!rc)
		rc = model_apply(m, &copy, 1, l->err);
	if (!rc && model_slice_due(m))
		model_slice_fold(m);
	return rc;
}

/* A block of events that cannot be decoded is left out if it is damaged; else it is an error. */
static int skip_damaged(struct loader *l, size_t index)
{
	struct trace_event_block facts;
	if (l->history.error != -EBADMSG || trace_reader_event_block(l->reader, index, &facts))
		return l->history.error;
	l->m->unread_events += facts.event_count;
	return 0;
}

static int replay_block(struct loader *l, size_t index)
{
	for (uint64_t done = 0;; done++) {
		/* Asked anew each time: looking at older blocks may have dropped it. */
		const struct history_part *part = history_part(&l->history, index, l->err);
		if (!part)
			return skip_damaged(l, index);
		if (done == 0 && part->facts.first_event < l->first_event)
			done = l->first_event - part->facts.first_event;
		if (done >= part->facts.event_count)
			return 0;
		int rc = replay_one(l, &part->events[done]);
		if (rc)
			return rc;
	}
}

/* The number of the first block that is born in or after event l->first_event, as events have it.
 */
static uint64_t first_unseen(struct loader *l)
{
	size_t index = history_index_of_event(&l->history, l->first_event);
	const struct history_part *part = index < trace_reader_event_block_count(l->reader)
						  ? history_part(&l->history, index, l->err)
						  : NULL;
	if (!part || part->facts.first_event > l->first_event)
		return l->m->allocations;
	uint64_t number = part->facts.first_block_id;
	for (uint64_t i = 0;
	     i < part->facts.event_count && part->facts.first_event + i < l->first_event; i++)
		if (part->events[i].op == TRACE_ALLOC || part->events[i].op == TRACE_REALLOC_ALLOC)
			number = part->events[i].block_id + 1;
	return number;
}

/* All events that the slices do not cover. */
static int replay(struct loader *l)
{
	l->first_event = l->m->events;
	size_t count = trace_reader_event_block_count(l->reader);
	int rc = 0;
	l->first_block = first_unseen(l);
	for (size_t i = history_index_of_event(&l->history, l->first_event); i < count && !rc; i++)
		rc = replay_block(l, i);
	return rc;
}

/* ---- the two ways ---- */

/* Samples first, then mappings: what was mapped at the largest sample comes out of itself. */
static int add_samples_and_maps(struct loader *l)
{
	const struct trace_sample *samples;
	const struct trace_map_event *maps;
	size_t sample_count, map_count;
	int rc = trace_reader_samples(l->reader, &samples, &sample_count, l->err);
	if (!rc)
		rc = trace_reader_maps(l->reader, &maps, &map_count, l->err);
	if (rc)
		return rc;
	for (size_t i = 0; i < sample_count; i++)
		model_apply_sample(l->m, &samples[i]);
	for (size_t i = 0; i < map_count && !rc; i++)
		rc = model_apply_map(l->m, &maps[i], l->err);
	return rc;
}

/* ---- all events ---- */

static int rebuild_events(void *ctx, size_t index, const struct trace_event_block *facts,
			  struct trace_event *events)
{
	struct loader *l = ctx;
	(void)index;
	int rc = 0;
	for (uint64_t i = 0; !rc && i < facts->event_count; i++)
		rc = check_event(l, &events[i]);
	if (!rc)
		rc = model_apply(l->m, events, facts->event_count, l->err);
	if (!rc && model_slice_due(l->m))
		model_slice_fold(l->m);
	const struct model_load_options *options = l->options;
	if (!rc && options->progress &&
	    options->progress(options->ctx, facts->first_event + facts->event_count, l->all_events))
		rc = tm_fail(l->err, -ECANCELED, "stopped");
	return rc;
}

static int rebuild_damaged(void *ctx, size_t index, const struct trace_event_block *facts)
{
	struct loader *l = ctx;
	(void)index;
	l->m->unread_events += facts->event_count;
	return 0;
}

static uint64_t all_events(const struct loader *l)
{
	size_t count = trace_reader_event_block_count(l->reader);
	struct trace_event_block last;
	if (count == 0 || trace_reader_event_block(l->reader, count - 1, &last))
		return 0;
	return last.first_event + last.event_count;
}

/* Decoded by several threads, applied in order by this one. */
static int rebuild(struct loader *l)
{
	struct event_scan_counts counts = {0};
	struct event_scan scan = {
		.reader = l->reader,
		.end = trace_reader_event_block_count(l->reader),
		.addresses = l->options->addresses,
		.threads = l->options->threads,
		.fn = rebuild_events,
		.damaged = rebuild_damaged,
		.ctx = l,
	};
	l->all_events = all_events(l);
	const struct trace_end *end;
	if (!trace_reader_end(l->reader, &end, NULL))
		l->m->unread_events += end->culled_events;
	return event_scan_run(&scan, &counts, l->err);
}

static int take_tally(struct loader *l, const struct tally *tally)
{
	struct model *m = l->m;
	int rc = 0;
	m->events = tally->events;
	m->now_us = tally->last_us;
	m->peak_bytes = tally->peak_bytes;
	m->peak_blocks = tally->peak_blocks;
	m->peak_us = tally->peak_us;
	m->freed_unseen = tally->freed_unseen;
	m->freed_older = tally->freed_older;
	if (!m->rss.heap_known && tally->rss_known) {
		m->rss.heap_known = true;
		m->rss.heap_bytes = tally->rss_heap_bytes;
	}
	for (size_t i = 0; i < tally->count && !rc; i++)
		rc = add_sum(l, &tally->sums[i]);
	m->loaded = tally->events > 0;
	model_slice_begin(m, m->loaded);
	return rc;
}

/* The same by sums of each block of events, as far as those have what is needed; -EBADMSG. */
static int rebuild_by_tally(struct loader *l)
{
	struct tally tally = {0};
	struct tally_options options = {
		.blocks = tally_reach(l->reader),
		.rss_us = l->m->rss.time_us,
		.most_bytes = LIVE_48_BITS,
		.threads = l->options->threads,
		.all_events = l->all_events = all_events(l),
		.progress = l->options->progress,
		.ctx = l->options->ctx,
	};
	struct trace_event_block next;
	if (!trace_reader_event_block(l->reader, options.blocks, &next) &&
	    options.all_events - next.first_event > JOURNAL_EVENTS_MAX)
		return -EBADMSG;
	int rc = tally_run(l->reader, &options, &tally, l->err);
	if (!rc)
		rc = take_tally(l, &tally);
	tm_free(tally.sums);
	return rc ? rc : replay(l);
}

static int from_trace(struct trace_reader *r, int (*feed)(struct loader *l),
		      const struct model_load_options *options, struct model **ret_model,
		      struct tm_error *err)
{
	struct loader l = {.reader = r, .options = options, .err = err};
	const struct trace_meta *meta;
	const struct trace_stack *stacks;
	int rc = trace_reader_meta(r, &meta, err);
	if (!rc)
		rc = trace_reader_stacks(r, &stacks, &l.stack_count, err);
	if (rc)
		return rc;
	struct model_options model_options = {.page_bytes = meta->page_bytes};
	rc = model_new(&model_options, &l.m, err);
	if (rc)
		return rc;
	l.m->by_block = true;
	history_init(&l.history, r);
	rc = add_samples_and_maps(&l);
	if (!rc)
		rc = feed(&l);
	history_done(&l.history);
	if (rc) {
		model_free(l.m);
		return rc;
	}
	*ret_model = l.m;
	return 0;
}

/* So many events without slices are not the tail of a file that is being written. */
static bool slices_are_missing(const struct loader *l)
{
	return all_events(l) > l->m->events + TAIL_EVENTS_MAX;
}

static int load_aggregates(struct loader *l)
{
	int rc = add_slices(l);
	if (rc)
		return rc;
	if (slices_are_missing(l))
		return bad_slice(l, "the slices after it are missing");
	l->m->loaded = l->slice_count > 0;
	model_slice_begin(l->m, l->slice_count > 0);
	return replay(l);
}

int model_load_with(struct trace_reader *r, const struct model_load_options *options,
		    struct model **ret_model, bool *ret_rebuilt, struct tm_error *err)
{
	int rc = options->anew ? -EBADMSG : from_trace(r, load_aggregates, options, ret_model, err);
	bool rebuilt = rc == -EBADMSG;
	if (rebuilt && !options->addresses)
		rc = from_trace(r, rebuild_by_tally, options, ret_model, err);
	if (rebuilt && rc == -EBADMSG)
		rc = from_trace(r, rebuild, options, ret_model, err);
	if (!rc && ret_rebuilt)
		*ret_rebuilt = rebuilt;
	return rc;
}

int model_load(struct trace_reader *r, struct model **ret_model, struct tm_error *err)
{
	const struct model_load_options options = {0};
	return model_load_with(r, &options, ret_model, NULL, err);
}

int model_rebuild(struct trace_reader *r, struct model **ret_model, struct tm_error *err)
{
	const struct model_load_options options = {.addresses = true};
	return from_trace(r, rebuild, &options, ret_model, err);
}
