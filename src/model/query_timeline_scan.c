/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A timeline from events: points of equal width. Rates and sums at the ends of
 * points come from each chosen block; extremes within points from every move,
 * if it is known at once which blocks are chosen, else from the ends of points.
 */
#include <errno.h>

#include "model/event_scan.h"
#include "model/query_timeline.h"
#include "model/walk.h"

struct scan {
	struct timeline *t;
	struct walk walk;
	uint64_t live_bytes;
	size_t at; /* the point that the walk is in */
	bool exact;
};

static bool in_range(const struct query_range *range, uint64_t ordinal)
{
	return ordinal >= range->first_event && ordinal < range->end_event;
}

/* Births and ends within points; what lives when the range begins stands in front of the first. */
static void add_to_points(const struct scan *scan, struct query_point *points,
			  const struct walk_block *block, const struct walk_end *end)
{
	const struct query_range *range = &scan->t->range;
	if (in_range(range, block->birth_event)) {
		struct query_point *point = &points[timeline_point_at(scan->t, block->birth_ns)];
		point->allocations++;
		point->allocated_bytes += block->size_bytes;
	} else if (block->birth_event < range->first_event && end->event >= range->first_event) {
		points[0].live_blocks++;
		points[0].live_bytes += block->size_bytes;
	}
	if (in_range(range, end->event)) {
		struct query_point *point = &points[timeline_point_at(scan->t, end->time_ns)];
		point->frees++;
		point->freed_bytes += block->size_bytes;
		point->temporary += end->is_temporary;
	}
}

static int add_block(void *ctx, const struct walk_block *block, const struct walk_end *end)
{
	struct scan *scan = ctx;
	struct query_point *curve = timeline_curve(scan->t, block->stack_id);
	add_to_points(scan, scan->t->out->points, block, end);
	if (curve)
		add_to_points(scan, curve, block, end);
	return 0;
}

static void pass_points(struct scan *scan, uint64_t time_ns)
{
	struct query_point *points = scan->t->out->points;
	while (scan->at + 1 < scan->t->out->point_count && points[scan->at].end_ns < time_ns) {
		scan->at++;
		points[scan->at].min_live_bytes = scan->live_bytes;
		points[scan->at].max_live_bytes = scan->live_bytes;
		points[scan->at].max_live_time_ns = points[scan->at].start_ns;
	}
}

static void note_move(void *ctx, uint64_t ordinal, const struct walk_block *block, int direction)
{
	struct scan *scan = ctx;
	const struct query_range *range = &scan->t->range;
	struct query_point *point = &scan->t->out->points[scan->at];
	if (ordinal >= range->end_event)
		return;
	if (ordinal >= range->first_event) {
		pass_points(scan, scan->walk.last_ns);
		point = &scan->t->out->points[scan->at];
	}
	scan->live_bytes += direction > 0 ? block->size_bytes : -block->size_bytes;
	if (ordinal < range->first_event) {
		point->min_live_bytes = point->max_live_bytes = scan->live_bytes;
		return;
	}
	if (scan->live_bytes < point->min_live_bytes)
		point->min_live_bytes = scan->live_bytes;
	if (scan->live_bytes > point->max_live_bytes) {
		point->max_live_bytes = scan->live_bytes;
		point->max_live_time_ns = scan->walk.last_ns;
	}
}

static int add_events(void *ctx, size_t index, const struct trace_event_block *facts,
		      struct trace_event *events)
{
	struct scan *scan = ctx;
	struct timeline *t = scan->t;
	(void)index;
	int rc = walk_events(&scan->walk, facts, events, facts->event_count);
	return rc ? rc
		  : query_tell_progress(&t->options->progress, facts->first_event,
					t->section->stored_events, t->err);
}

/* Rates add up to what lives at the end of each point. */
static void add_up(const struct timeline *t, struct query_point *points, bool extremes)
{
	uint64_t bytes = points[0].live_bytes, blocks = points[0].live_blocks;
	for (size_t i = 0; i < t->out->point_count; i++) {
		struct query_point *point = &points[i];
		uint64_t before = bytes;
		bytes += point->allocated_bytes - point->freed_bytes;
		blocks += point->allocations - point->frees;
		point->live_bytes = bytes;
		point->live_blocks = blocks;
		point->start_ns = t->out->points[i].start_ns;
		point->end_ns = t->out->points[i].end_ns;
		if (extremes) {
			point->min_live_bytes = before < bytes ? before : bytes;
			point->max_live_bytes = before < bytes ? bytes : before;
			point->max_live_time_ns = before < bytes ? point->end_ns : point->start_ns;
		}
	}
}

static int run(struct scan *scan)
{
	struct timeline *t = scan->t;
	struct query_section *s = t->section;
	struct event_scan_counts counts = {0};
	bool ends = t->options->filter && filter_needs_ends(t->options->filter);
	struct event_scan events = {
		.reader = s->reader,
		.end = ends ? s->part_count : range_part_of_event(s, t->range.end_event),
		.addresses = t->options->filter && filter_needs_addresses(t->options->filter),
		.threads = s->threads,
		.fn = add_events,
		.ctx = scan,
	};
	if (events.end < s->part_count)
		events.end++;
	uint64_t before = trace_reader_bytes_read(s->reader);
	scan->exact = !ends;
	scan->walk = (struct walk){
		.filter = t->options->filter,
		.cuts = {[WALK_CUT_END] = t->range.end_event},
		.now_ns = t->range.to_ns,
		.now_event = t->range.end_event,
		.end_ns = s->duration_ns,
		.chosen = add_block,
		.moved = scan->exact ? note_move : NULL,
		.ctx = scan,
	};
	int rc = event_scan_run(&events, &counts, t->err);
	if (!rc)
		rc = walk_finish(&scan->walk);
	walk_done(&scan->walk);
	t->out->way = QUERY_FROM_SCAN;
	t->out->event_blocks += counts.blocks;
	t->out->bytes_read += trace_reader_bytes_read(s->reader) - before;
	return rc;
}

int timeline_by_scan(struct timeline *t, size_t count)
{
	struct scan scan = {.t = t};
	uint64_t from = t->range.from_ns, width = t->range.to_ns - from;
	if (timeline_make_points(t, count))
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		struct query_point *point = &t->out->points[i];
		point->start_ns = from + (uint64_t)((unsigned __int128)width * i / count);
		point->end_ns = from + (uint64_t)((unsigned __int128)width * (i + 1) / count);
	}
	int rc = run(&scan);
	if (rc)
		return rc;
	pass_points(&scan, UINT64_MAX);
	add_up(t, t->out->points, !scan.exact);
	for (size_t i = 0; i < t->out->curve_count; i++)
		add_up(t, t->out->curves[i].points, true);
	return 0;
}
