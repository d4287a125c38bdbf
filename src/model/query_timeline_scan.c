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
	if (in_range(range, end->event))
		points[timeline_point_at(scan->t, end->time_ns)].temporary += end->is_temporary;
	if (scan->exact)
		return; /* the rest was counted as it moved */
	if (in_range(range, block->birth_event)) {
		struct query_point *point = &points[timeline_point_at(scan->t, block->birth_ns)];
		point->allocations += block->weight.count;
		point->allocated_bytes += block->weight.bytes;
	} else if (block->birth_event < range->first_event && end->event >= range->first_event) {
		points[0].live_blocks += block->weight.count;
		points[0].live_bytes += block->weight.bytes;
	}
	if (in_range(range, end->event)) {
		struct query_point *point = &points[timeline_point_at(scan->t, end->time_ns)];
		point->frees += block->weight.count;
		point->freed_bytes += block->weight.bytes;
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

/* What lives before the range stands in front of the first point. */
static void count_move(struct query_point *points, size_t at, bool before,
		       const struct walk_block *block, enum walk_move move)
{
	struct query_point *point = &points[at];
	uint64_t sign = move == WALK_RETURNS ? UINT64_MAX : 1;
	if (before) {
		points[0].live_blocks +=
			move == WALK_ENDS ? -block->weight.count : block->weight.count;
		points[0].live_bytes +=
			move == WALK_ENDS ? -block->weight.bytes : block->weight.bytes;
	} else if (move == WALK_BEGINS) {
		point->allocations += block->weight.count;
		point->allocated_bytes += block->weight.bytes;
	} else {
		point->frees += sign * block->weight.count;
		point->freed_bytes += sign * block->weight.bytes;
	}
}

static void note_move(void *ctx, uint64_t ordinal, const struct walk_block *block,
		      enum walk_move move)
{
	struct scan *scan = ctx;
	const struct query_range *range = &scan->t->range;
	struct query_point *points = scan->t->out->points;
	struct query_point *curve = timeline_curve(scan->t, block->stack_id);
	bool before = ordinal < range->first_event;
	if (ordinal >= range->end_event)
		return;
	if (!before)
		timeline_pass(scan->t, &scan->at, scan->live_bytes, scan->walk.last_ns);
	count_move(points, scan->at, before, block, move);
	if (curve)
		count_move(curve, scan->at, before, block, move);
	scan->live_bytes += move == WALK_ENDS ? -block->weight.bytes : block->weight.bytes;
	struct query_point *point = &points[scan->at];
	if (before || scan->live_bytes < point->min_live_bytes)
		point->min_live_bytes = scan->live_bytes;
	if (before || scan->live_bytes > point->max_live_bytes) {
		point->max_live_bytes = scan->live_bytes;
		point->max_live_time_ns = before ? point->start_ns : scan->walk.last_ns;
	}
}

static void add_mapping_to(const struct scan *scan, struct query_point *points,
			   const struct mapping *mapping)
{
	const struct query_range *range = &scan->t->range;
	if (mapping->birth_ns < range->from_ns && mapping->end_ns >= range->from_ns) {
		points[0].live_blocks++;
		points[0].live_bytes += mapping->bytes;
	} else if (mapping->birth_ns >= range->from_ns && mapping->birth_ns <= range->to_ns) {
		struct query_point *point = &points[timeline_point_at(scan->t, mapping->birth_ns)];
		point->allocations++;
		point->allocated_bytes += mapping->bytes;
	}
	if (mapping->end_ns >= range->from_ns && mapping->end_ns <= range->to_ns) {
		struct query_point *point = &points[timeline_point_at(scan->t, mapping->end_ns)];
		point->frees++;
		point->freed_bytes += mapping->bytes;
	}
}

static int add_mapping(void *ctx, const struct mapping *mapping)
{
	struct scan *scan = ctx;
	struct query_point *curve = timeline_curve(scan->t, mapping->stack_id);
	add_mapping_to(scan, scan->t->out->points, mapping);
	if (curve)
		add_mapping_to(scan, curve, mapping);
	return 0;
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
	/* Mappings have no place among the moves. */
	scan->exact = !ends && !(t->options->filter && filter_wants_mappings(t->options->filter));
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
	if (!rc)
		rc = query_mappings(s, t->options->filter, t->range.to_ns, add_mapping, scan,
				    t->err);
	walk_done(&scan->walk);
	t->out->way = QUERY_FROM_SCAN;
	t->out->event_blocks += counts.blocks;
	t->out->bytes_read += trace_reader_bytes_read(s->reader) - before;
	return rc;
}

int timeline_by_scan(struct timeline *t, size_t count)
{
	struct scan scan = {.t = t};
	if (timeline_make_points(t, count))
		return -ENOMEM;
	timeline_spread(t);
	int rc = run(&scan);
	if (rc)
		return rc;
	timeline_pass(t, &scan.at, scan.live_bytes, UINT64_MAX);
	timeline_add_up(t, t->out->points, !scan.exact);
	for (size_t i = 0; i < t->out->curve_count; i++)
		timeline_add_up(t, t->out->curves[i].points, true);
	return 0;
}
