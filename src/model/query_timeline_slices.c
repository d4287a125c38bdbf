/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A timeline without a pass over the events. A long range is told by its whole
 * slices, several of them per point, and the events at its two edges; one of few
 * slices by its ticks, which are made once; a short one by its events, in points
 * of equal width.
 *
 * A series is the overall curve (or that of the filter) or the curve of a group.
 */
#include <errno.h>

#include "base/memory.h"
#include "model/query_ticks.h"
#include "model/query_timeline.h"

enum { SLICES_MIN = 24, TICKS_MIN = 256 };

bool drawing_chooses(const struct drawing *d, uint32_t stack_id)
{
	const struct filter_bound *filter = d->t->options->filter;
	return !filter || filter_stack(filter, stack_id) == FILTER_YES;
}

/* ---- what changes ---- */

void drawing_add_live(struct drawing *d, uint32_t stack_id, uint64_t blocks, uint64_t bytes)
{
	struct query_point *curve = timeline_curve(d->t, stack_id);
	if (!drawing_chooses(d, stack_id))
		return;
	d->t->out->points[0].live_blocks += blocks;
	d->t->out->points[0].live_bytes += bytes;
	d->live_bytes += bytes;
	if (curve) {
		curve[0].live_blocks += blocks;
		curve[0].live_bytes += bytes;
	}
}

static void count(struct query_point *point, const struct edge_event *event)
{
	switch (event->kind) {
	case EDGE_BIRTH:
		point->allocations += event->weight.count;
		point->allocated_bytes += event->weight.bytes;
		break;
	case EDGE_END:
		point->frees += event->weight.count;
		point->freed_bytes += event->weight.bytes;
		point->temporary += event->is_temporary;
		break;
	case EDGE_RETURN:
		point->frees -= event->weight.count;
		point->freed_bytes -= event->weight.bytes;
		break;
	case EDGE_FAILED:
		break;
	}
}

static void note_extremes(struct drawing *d, const struct edge_event *event)
{
	struct query_point *point = &d->t->out->points[d->at];
	if (d->live_bytes < point->min_live_bytes)
		point->min_live_bytes = d->live_bytes;
	if (d->live_bytes > point->max_live_bytes) {
		point->max_live_bytes = d->live_bytes;
		point->max_live_time_ns = event->time_ns;
	}
}

/* ---- events ---- */

/* Before the range, or with `back` in L, where the start is what comes out without it. */
static void visit_start(struct drawing *d, const struct edge_event *event, bool back)
{
	if (event->kind == EDGE_FAILED)
		return;
	uint64_t step = (event->kind == EDGE_END) == back ? 1 : UINT64_MAX;
	drawing_add_live(d, event->stack_id, step * event->weight.count,
			 step * event->weight.bytes);
}

static void visit_before(void *ctx, const struct edge_event *event)
{
	visit_start(ctx, event, false);
}

static void visit_back(void *ctx, const struct edge_event *event)
{
	visit_start(ctx, event, true);
}

static void visit_range(void *ctx, const struct edge_event *event)
{
	struct drawing *d = ctx;
	if (event->kind == EDGE_FAILED || !drawing_chooses(d, event->stack_id))
		return;
	if (d->watch)
		timeline_pass(d->t, &d->at, d->live_bytes, event->time_ns);
	struct query_point *curve = timeline_curve(d->t, event->stack_id);
	count(&d->t->out->points[d->at], event);
	if (curve)
		count(&curve[d->at], event);
	d->live_bytes += event->kind == EDGE_END ? -event->weight.bytes : event->weight.bytes;
	note_extremes(d, event);
}

int drawing_add_sums(struct drawing *d, size_t slice)
{
	struct trace_sum *sums = NULL;
	size_t sum_count = 0;
	int rc = trace_reader_sums(d->t->section->reader, slice, &sums, &sum_count, d->t->err);
	for (size_t i = 0; i < sum_count; i++)
		drawing_add_live(d, sums[i].stack_id, sums[i].births - sums[i].deaths,
				 sums[i].birth_bytes - sums[i].death_bytes);
	tm_free(sums);
	return rc;
}

/* ---- few slices: event by event ---- */

size_t drawing_first_slice(const struct drawing *d)
{
	const struct query_section *s = d->t->section;
	size_t slice = 0;
	while (slice < s->slice_count && fast_boundary(s, slice + 1) <= d->t->range.first_event)
		slice++;
	return slice;
}

static int draw_events(struct drawing *d, size_t point_count)
{
	struct timeline *t = d->t;
	const struct query_section *s = t->section;
	size_t slice = drawing_first_slice(d);
	if (timeline_make_points(t, point_count))
		return -ENOMEM;
	timeline_spread(t);
	int rc = drawing_add_sums(d, slice);
	if (!rc)
		rc = edges_visit(d->fast.edges, fast_boundary(s, slice), t->range.first_event,
				 visit_before, d);
	struct query_point *first = &t->out->points[0];
	first->min_live_bytes = first->max_live_bytes = d->live_bytes;
	first->max_live_time_ns = first->start_ns;
	d->watch = true;
	if (!rc)
		rc = edges_visit(d->fast.edges, t->range.first_event, t->range.end_event,
				 visit_range, d);
	if (!rc)
		timeline_pass(t, &d->at, d->live_bytes, UINT64_MAX);
	return rc;
}

/* ---- many slices ---- */

static void place_points(struct drawing *d)
{
	struct timeline *t = d->t;
	uint64_t start_ns = t->range.from_ns;
	for (size_t i = 0; i < t->out->point_count; i++) {
		size_t end = d->fast.first_slice + (i + 1) * d->per_point;
		struct query_point *point = &t->out->points[i];
		bool last = i + 1 == t->out->point_count;
		point->start_ns = start_ns;
		point->end_ns = last ? t->range.to_ns : t->section->slices[end - 1].end_ns;
		start_ns = point->end_ns;
	}
}

/* Of the whole heap a slice knows everything itself. */
static void add_facts(struct drawing *d, const struct trace_slice *slice)
{
	struct query_point *point = &d->t->out->points[d->at];
	point->allocations += slice->births;
	point->allocated_bytes += slice->birth_bytes;
	point->frees += slice->deaths;
	point->freed_bytes += slice->death_bytes;
	point->temporary += slice->temporary;
	if (slice->min_live_bytes < point->min_live_bytes)
		point->min_live_bytes = slice->min_live_bytes;
	if (slice->max_live_bytes > point->max_live_bytes) {
		point->max_live_bytes = slice->max_live_bytes;
		point->max_live_time_ns = slice->max_live_time_ns;
	}
	d->live_bytes = slice->live_bytes;
}

static void add_row(struct query_point *point, const struct trace_slice_row *row)
{
	point->allocations += row->births;
	point->allocated_bytes += row->birth_bytes;
	point->temporary += row->temporary;
	for (uint32_t i = 0; i < row->death_count; i++) {
		point->frees += row->deaths[i].count;
		point->freed_bytes += row->deaths[i].bytes;
	}
}

static int add_rows(void *ctx, const struct trace_slice *slice)
{
	struct drawing *d = ctx;
	for (uint32_t i = 0; i < slice->row_count; i++) {
		const struct trace_slice_row *row = &slice->rows[i];
		struct query_point *curve = timeline_curve(d->t, row->stack_id);
		if (!drawing_chooses(d, row->stack_id))
			continue;
		if (d->t->options->filter)
			add_row(&d->t->out->points[d->at], row);
		if (curve)
			add_row(&curve[d->at], row);
	}
	return 0;
}

static int add_slice(struct drawing *d, size_t slice)
{
	const struct query_timeline_options *options = d->t->options;
	struct query_section *s = d->t->section;
	size_t at = (slice - d->fast.first_slice) / d->per_point;
	if (at != d->at) {
		d->at = at;
		d->t->out->points[at].min_live_bytes = d->live_bytes;
		d->t->out->points[at].max_live_bytes = d->live_bytes;
		d->t->out->points[at].max_live_time_ns = d->t->out->points[at].start_ns;
	}
	if (!options->filter)
		add_facts(d, &s->slices[slice]);
	if (!options->filter && !options->group_of)
		return 0;
	int rc = trace_reader_plain_slice(s->reader, slice, add_rows, d, d->t->err);
	return rc ? rc
		  : query_tell_progress(&options->progress, fast_boundary(s, slice),
					s->stored_events, d->t->err);
}

static int draw_slices(struct drawing *d, size_t point_count)
{
	struct timeline *t = d->t;
	struct fast *fast = &d->fast;
	size_t slices = fast->end_slice - fast->first_slice;
	d->per_point = (slices + point_count - 1) / point_count;
	if (timeline_make_points(t, (slices + d->per_point - 1) / d->per_point))
		return -ENOMEM;
	place_points(d);
	int rc = drawing_add_sums(d, fast->first_slice);
	if (!rc)
		rc = edges_visit(fast->edges, t->range.first_event, fast->left_end, visit_back, d);
	struct query_point *first = &t->out->points[0];
	first->min_live_bytes = first->max_live_bytes = d->live_bytes;
	first->max_live_time_ns = first->start_ns;
	if (!rc)
		rc = edges_visit(fast->edges, t->range.first_event, fast->left_end, visit_range, d);
	for (size_t i = fast->first_slice; i < fast->end_slice && !rc; i++)
		rc = add_slice(d, i);
	if (!rc)
		rc = edges_visit(fast->edges, fast->right, t->range.end_event, visit_range, d);
	return rc;
}

/* Events that were folded away are known by their slices only. */
static bool is_stored(const struct timeline *t)
{
	const struct query_section *s = t->section;
	uint64_t next = t->range.first_event;
	for (size_t i = range_part_of_event(s, next);
	     i < s->part_count && s->parts[i].first_event <= next; i++)
		next = s->parts[i].first_event + s->parts[i].event_count;
	return next >= t->range.end_event;
}

int timeline_by_slices(struct timeline *t, size_t count)
{
	struct drawing d = {.t = t};
	struct query_section *s = t->section;
	uint64_t before = trace_reader_bytes_read(s->reader);
	struct edges edges;
	edges_init(&edges, s, t->err);
	d.fast = (struct fast){.section = s, .range = &t->range, .edges = &edges, .err = t->err};
	fast_plan(&d.fast);
	size_t slices = d.fast.end_slice - d.fast.first_slice;
	bool many = slices >= SLICES_MIN || (slices > 0 && !is_stored(t));
	bool ticks = !many && t->range.end_event - t->range.first_event >=
				      (uint64_t)TICKS_MIN * tick_store_events(s->ticks);
	int rc = many ? draw_slices(&d, count)
		      : (ticks ? draw_ticks(&d, count) : draw_events(&d, count));
	t->out->event_blocks += edges.blocks_read;
	t->out->bytes_read += trace_reader_bytes_read(s->reader) - before;
	t->out->way = t->out->event_blocks ? QUERY_FROM_EDGES : QUERY_FROM_AGGREGATES;
	edges_done(&edges);
	if (rc)
		return rc;
	timeline_add_up(t, t->out->points, (many || ticks) && t->options->filter);
	for (size_t i = 0; i < t->out->curve_count; i++)
		timeline_add_up(t, t->out->curves[i].points, true);
	return 0;
}
