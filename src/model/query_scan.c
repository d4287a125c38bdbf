/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer from the events themselves: for filters that aggregates cannot
 * answer. Every chosen block is looked at once, with its birth and its end.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/memory.h"
#include "model/event_scan.h"
#include "model/query_buckets.h"
#include "model/query_section.h"
#include "model/query_skip.h"
#include "model/state.h"
#include "model/walk.h"

struct scan {
	struct query_section *section;
	const struct query *query;
	const struct query_range *range;
	struct query_answer *answer;
	struct answer_rows rows;
	struct bucket_set sizes, lives;
	struct query_thread *threads; /* by thread_id */
	struct walk walk;
	struct skip_plan skip;
	uint64_t end_event; /* events from here on are not looked at */
	uint64_t total_bytes;
	struct tm_error *err;
};

static bool in_range(const struct scan *scan, uint64_t ordinal)
{
	return ordinal >= scan->range->first_event && ordinal < scan->range->end_event;
}

/* What a block is to the range. */
struct place {
	bool born, ended; /* in it */
	bool at_start, at_end, at_peak;
	int ends; /* in it, net of failed reallocs */
};

static bool lives_at(const struct walk_block *block, const struct walk_end *end, uint64_t ordinal,
		     unsigned cut)
{
	return block->birth_event < ordinal && end->event >= ordinal && !(block->absent >> cut & 1);
}

/* Ends in the range: its own, and those that failed reallocs left at the edges. */
static int count_ends(const struct scan *scan, const struct walk_block *block,
		      const struct walk_end *end)
{
	return in_range(scan, end->event) + (block->absent >> WALK_CUT_END & 1) -
	       (block->absent >> WALK_CUT_START & 1);
}

static void add_live(uint64_t *blocks, uint64_t *bytes, const struct walk_block *block, bool lives)
{
	*blocks += lives ? block->weight.count : 0;
	*bytes += lives ? block->weight.bytes : 0;
}

/* An end by this thread; modulo 2^64, as one that a failed realloc takes back counts -1. */
static void add_freer(struct scan *scan, const struct walk_block *block, uint32_t thread_id,
		      uint64_t count)
{
	if (thread_id >= scan->section->thread_count)
		return;
	struct query_thread *thread = &scan->threads[thread_id];
	thread->frees += count * block->weight.count;
	thread->freed_bytes += count * block->weight.bytes;
	thread->foreign_frees += thread_id != block->thread_id ? count * block->weight.count : 0;
}

static void add_thread(struct scan *scan, const struct walk_block *block,
		       const struct walk_end *end, const struct place *place)
{
	size_t count = scan->section->thread_count;
	if (block->thread_id < count) {
		struct query_thread *thread = &scan->threads[block->thread_id];
		add_live(&thread->allocations, &thread->allocated_bytes, block, place->born);
		add_live(&thread->end_blocks, &thread->end_bytes, block, place->at_end);
	}
	if (place->ended && end->op != TRACE_FREE_UNSEEN) {
		add_freer(scan, block, end->thread_id, 1);
		if (end->thread_id < count)
			scan->threads[end->thread_id].temporary += end->is_temporary;
	}
	for (size_t i = 0; block->absent && i < scan->walk.gap_count; i++) {
		const struct walk_gap *gap = &scan->walk.gaps[i];
		if (gap->block_id == block->block_id && gap->cut != WALK_CUT_PEAK)
			add_freer(scan, block, gap->thread_id,
				  gap->cut == WALK_CUT_END ? 1 : UINT64_MAX);
	}
}

static int add_life(struct scan *scan, const struct walk_block *block, uint64_t end_ns,
		    uint64_t count)
{
	return buckets_add(&scan->lives, block->stack_id,
			   model_bucket((end_ns - block->birth_ns) / 1000),
			   count * block->weight.count);
}

/* An end that was taken back later counts if the range holds only one half of that realloc. */
static int add_held_lives(struct scan *scan, const struct walk_block *block)
{
	int rc = 0;
	for (size_t i = 0; i < scan->walk.gap_count && !rc; i++) {
		const struct walk_gap *gap = &scan->walk.gaps[i];
		if (gap->block_id == block->block_id && gap->cut != WALK_CUT_PEAK)
			rc = add_life(scan, block, gap->held_ns,
				      gap->cut == WALK_CUT_END ? 1 : UINT64_MAX);
	}
	return rc;
}

static int add_buckets(struct scan *scan, const struct walk_block *block,
		       const struct walk_end *end, const struct place *place)
{
	int rc = 0;
	if (scan->query->want & QUERY_SIZES && place->born)
		rc = buckets_add(&scan->sizes, block->stack_id, model_bucket(block->size_bytes),
				 block->weight.count);
	if (!rc && scan->query->want & QUERY_LIVES && place->ended)
		rc = add_life(scan, block, end->time_ns, 1);
	if (!rc && scan->query->want & QUERY_LIVES && block->absent)
		rc = add_held_lives(scan, block);
	return rc;
}

static int add_placed(struct scan *scan, const struct walk_block *block, const struct walk_end *end,
		      const struct place *place)
{
	struct query_figures *f = rows_at(&scan->rows, block->stack_id);
	if (!f)
		return -ENOMEM;
	if (__builtin_add_overflow(scan->total_bytes, block->weight.bytes, &scan->total_bytes))
		return -EOVERFLOW;
	add_live(&f->allocations, &f->allocated_bytes, block, place->born);
	f->frees += (uint64_t)place->ends * block->weight.count;
	f->freed_bytes += (uint64_t)place->ends * block->weight.bytes;
	f->temporary += end->is_temporary && place->ended;
	add_live(&f->start_blocks, &f->start_bytes, block, place->at_start);
	add_live(&f->end_blocks, &f->end_bytes, block, place->at_end);
	if (scan->query->want & QUERY_KEPT)
		add_live(&f->kept_blocks, &f->kept_bytes, block, place->born && place->at_end);
	if (scan->query->want & QUERY_PEAK)
		add_live(&f->peak_blocks, &f->peak_bytes, block, place->at_peak);
	if (scan->query->want & QUERY_THREADS)
		add_thread(scan, block, end, place);
	return add_buckets(scan, block, end, place);
}

static int add_block(void *ctx, const struct walk_block *block, const struct walk_end *end)
{
	struct scan *scan = ctx;
	const struct query_range *range = scan->range;
	const struct place place = {
		.born = in_range(scan, block->birth_event),
		.ended = in_range(scan, end->event),
		.at_start = lives_at(block, end, range->first_event, WALK_CUT_START),
		.at_end = lives_at(block, end, range->end_event, WALK_CUT_END),
		.at_peak = lives_at(block, end, scan->walk.cuts[WALK_CUT_PEAK], WALK_CUT_PEAK),
		.ends = count_ends(scan, block, end),
	};
	return add_placed(scan, block, end, &place);
}

/* ---- mappings ---- */

/* They have times and no places among the events: those of one microsecond come before these. */
static int add_mapping(void *ctx, const struct mapping *mapping)
{
	struct scan *scan = ctx;
	const struct query_range *range = scan->range;
	uint64_t peak_ns = scan->answer->peak_time_ns;
	const struct walk_block block = {
		.size_bytes = mapping->bytes,
		.weight = {1, mapping->bytes},
		.birth_ns = mapping->birth_ns,
		.stack_id = mapping->stack_id,
		.thread_id = mapping->thread_id,
	};
	const struct walk_end end = {.time_ns = mapping->end_ns,
				     .thread_id = mapping->end_thread_id};
	bool ended = mapping->end_ns >= range->from_ns && mapping->end_ns <= range->to_ns;
	const struct place place = {
		.born = mapping->birth_ns >= range->from_ns && mapping->birth_ns <= range->to_ns,
		.ended = ended,
		.at_start = mapping->birth_ns < range->from_ns && mapping->end_ns >= range->from_ns,
		.at_end = mapping->birth_ns <= range->to_ns && mapping->end_ns > range->to_ns,
		.at_peak = mapping->birth_ns <= peak_ns && mapping->end_ns > peak_ns,
		.ends = ended,
	};
	return add_placed(scan, &block, &end, &place);
}

/* ---- events ---- */

static int add_failed(void *ctx, uint64_t ordinal, const struct trace_event *event)
{
	struct scan *scan = ctx;
	if (!in_range(scan, ordinal))
		return 0;
	struct query_figures *f = rows_at(&scan->rows, event->stack_id);
	if (!f)
		return -ENOMEM;
	f->failed++;
	return 0;
}

static int add_events(void *ctx, size_t index, const struct trace_event_block *facts,
		      struct trace_event *events)
{
	struct scan *scan = ctx;
	(void)index;
	uint64_t count = facts->event_count;
	if (facts->first_event + count > scan->end_event)
		count = scan->end_event > facts->first_event ? scan->end_event - facts->first_event
							     : 0;
	int rc = walk_events(&scan->walk, facts, events, count);
	return rc ? rc
		  : query_tell_progress(&scan->query->progress, facts->first_event + count,
					scan->end_event, scan->err);
}

/* Without the filter looking at ends, what comes after the range does not matter. */
static uint64_t last_event(const struct scan *scan)
{
	if (scan->query->filter && filter_needs_ends(scan->query->filter))
		return scan->section->stored_events;
	return scan->range->end_event;
}

/* Events up to the end of the range that are in slices alone: a filter cannot look at them. */
static uint64_t missing_events(const struct query_section *s, uint64_t end)
{
	uint64_t missing = 0, next = 0;
	for (size_t i = 0; s->has_gaps && i < s->part_count && next < end; i++) {
		uint64_t first = s->parts[i].first_event < end ? s->parts[i].first_event : end;
		missing += first > next ? first - next : 0;
		next = s->parts[i].first_event + s->parts[i].event_count;
	}
	if (s->culled && end > next)
		missing += end - next;
	return missing;
}

static int run(struct scan *scan)
{
	struct query_section *s = scan->section;
	struct event_scan_counts counts = {0};
	struct event_scan events = {
		.reader = s->reader,
		.end = range_part_of_event(s, scan->end_event),
		.addresses = scan->query->filter && filter_needs_addresses(scan->query->filter),
		.threads = s->threads,
		.skip = skip_plan_skips,
		.skip_ctx = &scan->skip,
		.marks = scan->skip.active,
		.fn = add_events,
		.ctx = scan,
	};
	if (events.end < s->part_count && s->parts[events.end].first_event < scan->end_event)
		events.end++;
	scan->walk.marked = scan->skip.active;
	int rc = event_scan_run(&events, &counts, scan->err);
	if (!rc)
		rc = walk_finish(&scan->walk);
	scan->answer->event_blocks += counts.blocks;
	scan->answer->skipped_blocks += counts.skipped;
	scan->answer->unread_events +=
		counts.damaged_events + missing_events(s, scan->range->end_event);
	return rc;
}

static uint64_t at_least_zero(uint64_t net)
{
	return net > UINT64_MAX / 2 ? 0 : net;
}

static int finish(struct scan *scan)
{
	struct query_answer *answer = scan->answer;
	if (answer_rows_finish(&scan->rows, answer) ||
	    buckets_finish(&scan->sizes, &answer->sizes, &answer->size_count) ||
	    buckets_finish(&scan->lives, &answer->lives, &answer->life_count))
		return -ENOMEM;
	if (scan->query->want & QUERY_THREADS) {
		size_t count = 0;
		for (size_t i = 0; i < scan->section->thread_count; i++) {
			struct query_thread thread = scan->threads[i];
			thread.frees = at_least_zero(thread.frees);
			thread.freed_bytes = at_least_zero(thread.freed_bytes);
			thread.foreign_frees = at_least_zero(thread.foreign_frees);
			if (thread.allocations || thread.frees || thread.freed_bytes ||
			    thread.foreign_frees || thread.temporary || thread.end_blocks)
				scan->threads[count++] = thread;
		}
		answer->threads = scan->threads;
		answer->thread_count = count;
		scan->threads = NULL;
	}
	return 0;
}

static int prepare(struct scan *scan)
{
	const struct query_range *range = scan->range;
	scan->end_event = last_event(scan);
	scan->walk = (struct walk){
		.filter = scan->query->filter,
		.cuts = {[WALK_CUT_START] = range->first_event, [WALK_CUT_END] = range->end_event},
		.now_ns = range->to_ns,
		.now_event = range->end_event,
		.end_ns = scan->section->duration_ns,
		.chosen = add_block,
		.failed = add_failed,
		.ctx = scan,
	};
	size_t threads = scan->section->thread_count;
	scan->threads = tm_alloc_array(threads + 1, sizeof *scan->threads);
	if (!scan->threads || rows_init(&scan->rows, scan->section->stack_count) ||
	    skip_plan_make(scan->section, scan->query->filter, &scan->skip))
		return tm_fail(scan->err, -ENOMEM, "no memory to answer");
	for (size_t i = 0; i < threads; i++)
		scan->threads[i].thread_id = (uint32_t)i;
	return 0;
}

int ask_by_scan(struct query_section *section, const struct query *query,
		const struct query_range *range, struct query_answer *ret, struct tm_error *err)
{
	struct scan scan = {
		.section = section, .query = query, .range = range, .answer = ret, .err = err};
	struct query_peak peak = {0};
	int rc = prepare(&scan);
	if (!rc && query->want & QUERY_PEAK) {
		if (query->by_scan || !section->slice_count)
			rc = peak_by_scan(section, range, &query->progress, ret, &peak, err);
		else
			rc = peak_by_slices(section, range, ret, &peak, err);
		scan.walk.cuts[WALK_CUT_PEAK] = peak.event;
		ret->peak_bytes = peak.bytes;
		ret->peak_blocks = peak.blocks;
		ret->peak_time_ns = peak.time_ns;
	}
	if (!rc)
		rc = run(&scan);
	if (!rc)
		rc = query_mappings(section, query->filter, range->to_ns, add_mapping, &scan, err);
	if (!rc)
		rc = finish(&scan);
	if (rc == -ENOMEM)
		tm_fail(err, rc, "no memory to answer; narrow the filter or the range");
	if (rc == -EOVERFLOW)
		tm_fail(err, rc, "the sizes in the trace are beyond any memory: it is damaged");
	ret->way = QUERY_FROM_SCAN;
	walk_done(&scan.walk);
	skip_plan_done(&scan.skip);
	rows_done(&scan.rows);
	buckets_done(&scan.sizes);
	buckets_done(&scan.lives);
	tm_free(scan.threads);
	return rc;
}
