/* SPDX-License-Identifier: Apache-2.0 */
/* Curves over time: the points, and what the process had from outside. */
#include "model/query_timeline.h"

#include <errno.h>

#include "base/memory.h"
#include "model/maps.h"
#include "model/query_edges.h"

enum { DEFAULT_POINTS = 200, POINTS_MAX = 100000 };

int timeline_make_points(struct timeline *t, size_t count)
{
	size_t groups = t->options->group_of ? t->options->group_count : 0;
	t->out->point_count = count;
	t->out->points = tm_alloc_array(count + 1, sizeof *t->out->points);
	t->out->curves = tm_alloc_array(groups + 1, sizeof *t->out->curves);
	if (!t->out->points || !t->out->curves)
		return -ENOMEM;
	for (size_t i = 0; i < groups; i++) {
		struct query_curve *curve = &t->out->curves[i];
		curve->group = (uint32_t)i;
		curve->points = tm_alloc_array(count + 1, sizeof *curve->points);
		if (!curve->points)
			return -ENOMEM;
		t->out->curve_count = i + 1;
	}
	return 0;
}

struct query_point *timeline_curve(const struct timeline *t, uint32_t stack_id)
{
	if (!t->options->group_of || stack_id >= t->section->stack_count)
		return NULL;
	uint32_t group = t->options->group_of[stack_id];
	return group < t->out->curve_count ? t->out->curves[group].points : NULL;
}

size_t timeline_point_at(const struct timeline *t, uint64_t time_ns)
{
	size_t low = 0, high = t->out->point_count - 1;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (t->out->points[middle].end_ns >= time_ns)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

void timeline_spread(struct timeline *t)
{
	size_t count = t->out->point_count;
	uint64_t from = t->range.from_ns, width = t->range.to_ns - from;
	for (size_t i = 0; i < count; i++) {
		struct query_point *point = &t->out->points[i];
		point->start_ns = from + (uint64_t)((unsigned __int128)width * i / count);
		point->end_ns = from + (uint64_t)((unsigned __int128)width * (i + 1) / count);
	}
}

void timeline_pass(const struct timeline *t, size_t *at, uint64_t live_bytes, uint64_t time_ns)
{
	struct query_point *points = t->out->points;
	while (*at + 1 < t->out->point_count && points[*at].end_ns < time_ns) {
		struct query_point *next = &points[++*at];
		next->min_live_bytes = next->max_live_bytes = live_bytes;
		next->max_live_time_ns = next->start_ns;
	}
}

/* Rates add up to what lives at the end of each point. */
void timeline_add_up(const struct timeline *t, struct query_point *points, bool extremes)
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

/* The largest sample within each point; without one, the last before it. */
static void add_samples(struct timeline *t)
{
	const struct query_section *s = t->section;
	size_t next = 0;
	uint64_t rss_bytes = 0, pss_bytes = 0;
	for (size_t i = 0; i < t->out->point_count; i++) {
		struct query_point *point = &t->out->points[i];
		bool found = false;
		for (; next < s->sample_count && s->samples[next].time_ns <= point->end_ns;
		     next++) {
			const struct trace_sample *sample = &s->samples[next];
			if (sample->time_ns < point->start_ns || !found ||
			    sample->rss_bytes > rss_bytes) {
				rss_bytes = sample->rss_bytes;
				pss_bytes = sample->pss_bytes;
			}
			found = sample->time_ns >= point->start_ns;
		}
		point->rss_bytes = rss_bytes;
		point->pss_bytes = pss_bytes;
		/* The next point begins with the last sample, not with the largest. */
		if (next > 0) {
			rss_bytes = s->samples[next - 1].rss_bytes;
			pss_bytes = s->samples[next - 1].pss_bytes;
		}
	}
}

int timeline_add_process(struct timeline *t)
{
	const struct query_section *s = t->section;
	const struct trace_meta *meta;
	int rc = trace_reader_meta(s->reader, &meta, t->err);
	if (rc)
		return rc;
	struct map_set maps;
	maps_init(&maps, meta->page_bytes);
	size_t next = 0;
	for (size_t i = 0; i < t->out->point_count && !rc; i++) {
		for (; next < s->map_count && s->maps[next].time_ns <= t->out->points[i].end_ns &&
		       !rc;
		     next++)
			rc = maps_apply(&maps, &s->maps[next]);
		t->out->points[i].mapped_bytes = maps_committed_bytes(&maps);
	}
	maps_done(&maps);
	add_samples(t);
	return rc;
}

void query_timeline_done(struct query_timeline *timeline)
{
	for (size_t i = 0; i < timeline->curve_count; i++)
		tm_free(timeline->curves[i].points);
	tm_free(timeline->curves);
	tm_free(timeline->points);
	*timeline = (struct query_timeline){0};
}

static int fill(struct timeline *t)
{
	size_t count = t->options->points ? t->options->points : DEFAULT_POINTS;
	const struct filter_bound *filter = t->options->filter;
	bool scan = !t->section->slice_count || (filter && filter_needs_blocks(filter));
	count = count < POINTS_MAX ? count : POINTS_MAX;
	int rc = scan ? timeline_by_scan(t, count) : timeline_by_slices(t, count);
	if (!rc)
		rc = timeline_add_process(t);
	if (rc == -ENOMEM)
		tm_fail(t->err, rc, "no memory for the timeline");
	return rc;
}

int query_timeline(struct query_section *section, const struct query_timeline_options *options,
		   struct query_timeline *ret_timeline, struct tm_error *err)
{
	struct query_timeline out = {0};
	struct timeline t = {.section = section, .options = options, .out = &out, .err = err};
	struct edges edges;
	edges_init(&edges, section, err);
	int rc = range_find(section, &edges, options->from_ns, options->to_ns, &t.range, err);
	edges_done(&edges);
	if (!rc)
		rc = fill(&t);
	if (rc) {
		query_timeline_done(&out);
		return rc;
	}
	*ret_timeline = out;
	return 0;
}
