/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A timeline of few slices and many events: points of about equal width, each of
 * the ticks that end in it.
 */
#include <errno.h>

#include "model/query_ticks.h"
#include "model/query_timeline.h"

struct strokes {
	struct drawing *d;
	size_t wanted; /* points */
	size_t place;  /* which of so many the last tick ended in */
	bool begun;
	bool rows; /* stacks are told apart, by the filter or into curves */
};

/* ---- what lives when the range begins ---- */

static int add_before(void *ctx, const struct ticks *ticks, const struct tick *tick)
{
	struct strokes *strokes = ctx;
	if (!strokes->rows) {
		struct query_point *first = &strokes->d->t->out->points[0];
		uint64_t bytes = tick->sums.birth_bytes - (uint64_t)tick->sums.death_bytes;
		first->live_blocks += tick->sums.births - (uint64_t)tick->sums.deaths;
		first->live_bytes += bytes;
		strokes->d->live_bytes += bytes;
		return 0;
	}
	for (uint32_t i = 0; i < tick->row_count; i++) {
		const struct tick_row *row = &ticks->rows[tick->first_row + i];
		drawing_add_live(strokes->d, row->stack_id,
				 row->births - (uint64_t)(int64_t)row->deaths,
				 row->birth_bytes - (uint64_t)row->death_bytes);
	}
	return 0;
}

/* ---- points ---- */

static size_t place_of(const struct strokes *strokes, uint64_t time_ns)
{
	const struct query_range *range = &strokes->d->t->range;
	uint64_t width_ns = range->to_ns - range->from_ns;
	if (time_ns <= range->from_ns || !width_ns)
		return 0;
	/* A point holds its end. */
	unsigned __int128 past_ns = time_ns - range->from_ns - 1;
	size_t place = (size_t)(past_ns * strokes->wanted / width_ns);
	return place < strokes->wanted ? place : strokes->wanted - 1;
}

static void begin_point(struct drawing *d)
{
	struct query_point *point = &d->t->out->points[d->at];
	point->min_live_bytes = point->max_live_bytes = d->live_bytes;
	point->max_live_time_ns = point->start_ns;
}

static void add_row(struct query_point *point, const struct tick_row *row)
{
	point->allocations += row->births;
	point->allocated_bytes += row->birth_bytes;
	point->frees += (uint64_t)(int64_t)row->deaths;
	point->freed_bytes += (uint64_t)row->death_bytes;
	point->temporary += row->temporary;
}

static void add_sums(struct drawing *d, const struct tick_sums *sums)
{
	struct query_point *point = &d->t->out->points[d->at];
	point->allocations += sums->births;
	point->allocated_bytes += sums->birth_bytes;
	point->frees += (uint64_t)sums->deaths;
	point->freed_bytes += (uint64_t)sums->death_bytes;
	point->temporary += sums->temporary;
	d->live_bytes += sums->birth_bytes - (uint64_t)sums->death_bytes;
}

static void add_extremes(struct drawing *d, const struct tick *tick)
{
	struct query_point *point = &d->t->out->points[d->at];
	uint64_t low = d->live_bytes + (uint64_t)tick->low_bytes;
	uint64_t high = d->live_bytes + (uint64_t)tick->high_bytes;
	if (low < point->min_live_bytes)
		point->min_live_bytes = low;
	if (high > point->max_live_bytes) {
		point->max_live_bytes = high;
		point->max_live_time_ns = tick->high_ns;
	}
}

static int add_tick(void *ctx, const struct ticks *ticks, const struct tick *tick)
{
	struct strokes *strokes = ctx;
	struct drawing *d = strokes->d;
	struct query_point *points = d->t->out->points;
	size_t place = place_of(strokes, tick->end_ns);
	if (strokes->begun && place > strokes->place && tick->start_ns > points[d->at].end_ns) {
		points[d->at + 1].start_ns = points[d->at].end_ns;
		d->at++;
		begin_point(d);
	}
	strokes->begun = true;
	strokes->place = place > strokes->place ? place : strokes->place;
	points[d->at].end_ns = tick->end_ns;
	add_extremes(d, tick);
	if (!strokes->rows) {
		add_sums(d, &tick->sums);
		return 0;
	}
	for (uint32_t i = 0; i < tick->row_count; i++) {
		const struct tick_row *row = &ticks->rows[tick->first_row + i];
		struct query_point *curve = timeline_curve(d->t, row->stack_id);
		if (!drawing_chooses(d, row->stack_id))
			continue;
		add_row(&points[d->at], row);
		if (curve)
			add_row(&curve[d->at], row);
		d->live_bytes += row->birth_bytes - (uint64_t)row->death_bytes;
	}
	return 0;
}

int draw_ticks(struct drawing *d, size_t point_count)
{
	struct timeline *t = d->t;
	const struct query_progress *progress = &t->options->progress;
	bool rows = t->options->filter || t->options->group_of;
	struct strokes strokes = {.d = d, .wanted = point_count, .rows = rows};
	if (timeline_make_points(t, point_count))
		return -ENOMEM;
	size_t slice = drawing_first_slice(d);
	int rc = drawing_add_sums(d, slice);
	if (!rc)
		rc = ticks_visit(d->fast.edges, fast_boundary(t->section, slice),
				 t->range.first_event, rows, progress, add_before, &strokes);
	t->out->points[0].start_ns = t->range.from_ns;
	begin_point(d);
	if (!rc)
		rc = ticks_visit(d->fast.edges, t->range.first_event, t->range.end_event, rows,
				 progress, add_tick, &strokes);
	t->out->point_count = d->at + 1;
	t->out->points[d->at].end_ns = t->range.to_ns;
	return rc;
}
