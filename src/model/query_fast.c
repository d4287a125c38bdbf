/* SPDX-License-Identifier: Apache-2.0 */
#include "model/query_fast.h"

#include <errno.h>

#include "base/memory.h"
#include "model/state.h"

uint64_t fast_boundary(const struct query_section *s, size_t slice)
{
	return slice ? s->slices[slice - 1].first_event + s->slices[slice - 1].event_count : 0;
}

struct query_figures *fast_row(struct fast *fast, uint32_t stack_id)
{
	if (fast->query->filter && filter_stack(fast->query->filter, stack_id) != FILTER_YES)
		return NULL;
	struct query_figures *figures = rows_at(&fast->rows, stack_id);
	if (!figures)
		fast->error = -ENOMEM;
	return figures;
}

/* ---- the plan ---- */

/* The first k with B(k) >= ordinal. */
static size_t boundary_at(const struct query_section *s, uint64_t ordinal)
{
	size_t low = 0, high = s->slice_count + 1;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (fast_boundary(s, middle) >= ordinal)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

void fast_plan(struct fast *fast)
{
	const struct query_section *s = fast->section;
	const struct query_range *range = fast->range;
	size_t first = boundary_at(s, range->first_event);
	size_t after = boundary_at(s, range->end_event + 1); /* the first beyond the range */
	size_t end = after ? after - 1 : 0;
	fast->end_slice = end;
	if (first <= end) {
		fast->first_slice = first;
		fast->before = range->first_event;
		fast->left_end = fast_boundary(s, first);
		fast->right = fast_boundary(s, end);
	} else {
		fast->first_slice = end;
		fast->before = fast_boundary(s, end);
		fast->left_end = range->first_event;
		fast->right = range->first_event;
	}
	fast->left_end_block = range->first_block;
	if (first <= end)
		fast->error = range_births_before(fast->edges, fast->left_end,
						  s->births_before[first], &fast->left_end_block);
}

/* ---- edges ---- */

static void add_size(struct fast *fast, const struct edge_event *event)
{
	if (fast->query->want & QUERY_SIZES &&
	    buckets_add(&fast->sizes, event->stack_id, model_bucket(event->size_bytes),
			event->weight.count))
		fast->error = -ENOMEM;
}

static void add_life(struct fast *fast, const struct edge_event *event)
{
	uint32_t bucket;
	bool back = event->kind == EDGE_RETURN;
	if (!(fast->query->want & QUERY_LIVES) || fast->error)
		return;
	int rc = edges_life_bucket(fast->edges, event->block_id,
				   back ? event->held_ns : event->time_ns, &bucket);
	if (!rc)
		rc = buckets_add(&fast->lives, event->stack_id, bucket,
				 back ? -event->weight.count : event->weight.count);
	if (rc && rc != -ENOENT)
		fast->error = rc;
}

/* One event of the range. `live` is what it changes: the start or the end, by blocks and bytes. */
static void count_event(struct fast *fast, struct query_figures *f, const struct edge_event *event)
{
	const struct trace_weight *weight = &event->weight;
	bool born = event->block_id >= fast->range->first_block;
	switch (event->kind) {
	case EDGE_BIRTH:
		f->allocations += weight->count;
		f->allocated_bytes += event->weight.bytes;
		f->kept_blocks += weight->count;
		f->kept_bytes += event->weight.bytes;
		add_size(fast, event);
		break;
	case EDGE_END:
		f->frees += weight->count;
		f->freed_bytes += event->weight.bytes;
		f->temporary += event->is_temporary;
		f->kept_blocks -= born ? weight->count : 0;
		f->kept_bytes -= born ? event->weight.bytes : 0;
		add_life(fast, event);
		break;
	case EDGE_RETURN:
		f->frees -= weight->count;
		f->freed_bytes -= event->weight.bytes;
		f->kept_blocks += born ? weight->count : 0;
		f->kept_bytes += born ? event->weight.bytes : 0;
		add_life(fast, event);
		break;
	case EDGE_FAILED:
		f->failed++;
		break;
	}
}

/* What it adds to the live blocks: 1, -1 or 0. */
static uint64_t live_step(const struct edge_event *event)
{
	switch (event->kind) {
	case EDGE_BIRTH:
	case EDGE_RETURN:
		return 1;
	case EDGE_END:
		return UINT64_MAX;
	case EDGE_FAILED:
		break;
	}
	return 0;
}

/* Before the range: what lives at its start, and so at its end. */
static void visit_before(void *ctx, const struct edge_event *event)
{
	struct fast *fast = ctx;
	uint64_t step = live_step(event);
	fast->start_blocks += step * event->weight.count;
	fast->start_bytes += step * event->weight.bytes;
	struct query_figures *f = fast_row(fast, event->stack_id);
	if (!f)
		return;
	f->start_blocks += step * event->weight.count;
	f->start_bytes += step * event->weight.bytes;
	f->end_blocks += step * event->weight.count;
	f->end_bytes += step * event->weight.bytes;
}

/* L: the start is what lives after it, taken back. */
static void visit_left(void *ctx, const struct edge_event *event)
{
	struct fast *fast = ctx;
	uint64_t step = live_step(event);
	fast->start_blocks -= step * event->weight.count;
	fast->start_bytes -= step * event->weight.bytes;
	struct query_figures *f = fast_row(fast, event->stack_id);
	if (!f)
		return;
	f->start_blocks -= step * event->weight.count;
	f->start_bytes -= step * event->weight.bytes;
	count_event(fast, f, event);
}

static void visit_right(void *ctx, const struct edge_event *event)
{
	struct fast *fast = ctx;
	struct query_figures *f = fast_row(fast, event->stack_id);
	if (!f)
		return;
	uint64_t step = live_step(event);
	f->end_blocks += step * event->weight.count;
	f->end_bytes += step * event->weight.bytes;
	count_event(fast, f, event);
}

static int add_edges(struct fast *fast)
{
	const struct query_range *range = fast->range;
	struct edges *edges = fast->edges;
	int rc = edges_visit(edges, fast->before, range->first_event, visit_before, fast);
	if (!rc)
		rc = edges_visit(edges, range->first_event, fast->left_end, visit_left, fast);
	if (!rc)
		rc = edges_visit(edges, fast->right, range->end_event, visit_right, fast);
	return rc ? rc : fast->error;
}

/* ---- whole slices ---- */

static int load_sums(struct fast *fast)
{
	struct trace_reader *r = fast->section->reader;
	int rc = trace_reader_sums(r, fast->first_slice, &fast->first_sums, &fast->first_count,
				   fast->err);
	if (!rc)
		rc = trace_reader_sums(r, fast->end_slice, &fast->end_sums, &fast->end_count,
				       fast->err);
	return rc;
}

/* Sums at the end less sums at the beginning; modulo 2^64, so the order does not matter. */
static void add_sum(struct query_figures *f, const struct trace_sum *sum, bool at_end)
{
	uint64_t sign = at_end ? 1 : UINT64_MAX;
	f->allocations += sign * sum->births;
	f->allocated_bytes += sign * sum->birth_bytes;
	f->frees += sign * sum->deaths;
	f->freed_bytes += sign * sum->death_bytes;
	f->temporary += sign * sum->temporary;
	f->failed += sign * sum->failed;
	f->kept_blocks += sign * sum->births;
	f->kept_bytes += sign * sum->birth_bytes;
	uint64_t *blocks = at_end ? &f->end_blocks : &f->start_blocks;
	uint64_t *bytes = at_end ? &f->end_bytes : &f->start_bytes;
	*blocks += sum->births - sum->deaths;
	*bytes += sum->birth_bytes - sum->death_bytes;
}

static int add_sums(struct fast *fast)
{
	int rc = load_sums(fast);
	for (size_t i = 0; !rc && i < fast->first_count; i++) {
		struct query_figures *f = fast_row(fast, fast->first_sums[i].stack_id);
		if (f)
			add_sum(f, &fast->first_sums[i], false);
	}
	for (size_t i = 0; !rc && i < fast->end_count; i++) {
		struct query_figures *f = fast_row(fast, fast->end_sums[i].stack_id);
		if (f)
			add_sum(f, &fast->end_sums[i], true);
	}
	return rc ? rc : fast->error;
}

/* ---- all together ---- */

static void settle_wants(struct fast *fast)
{
	for (size_t i = 0; i < fast->rows.count && !(fast->query->want & QUERY_KEPT); i++) {
		struct query_figures *f = &fast->rows.rows[i].figures;
		f->kept_blocks = f->kept_bytes = 0;
	}
}

static int fill(struct fast *fast)
{
	struct fast_kept *kept = NULL;
	int rc = 0;
	if (fast->query->want & (QUERY_KEPT | QUERY_SIZES | QUERY_LIVES))
		rc = fast_kept_start(fast, &kept);
	if (!rc)
		rc = add_sums(fast);
	if (!rc)
		rc = add_edges(fast);
	if (!rc && fast->query->want & QUERY_PEAK)
		rc = fast_add_peak(fast);
	if (kept)
		rc = fast_kept_finish(fast, kept, rc);
	settle_wants(fast);
	struct query_answer *answer = fast->answer;
	if (!rc && (answer_rows_finish(&fast->rows, answer) ||
		    buckets_finish(&fast->sizes, &answer->sizes, &answer->size_count) ||
		    buckets_finish(&fast->lives, &answer->lives, &answer->life_count)))
		rc = -ENOMEM;
	return rc;
}

int ask_by_slices(struct edges *edges, const struct query *query, const struct query_range *range,
		  struct query_answer *ret, struct tm_error *err)
{
	struct fast fast = {.section = edges->section,
			    .query = query,
			    .range = range,
			    .answer = ret,
			    .edges = edges,
			    .err = err};
	int rc = rows_init(&fast.rows, fast.section->stack_count);
	fast_plan(&fast);
	if (!rc)
		rc = fill(&fast);
	if (rc == -ENOMEM)
		tm_fail(err, rc, "no memory to answer; narrow the filter or the range");
	ret->event_blocks += edges->blocks_read;
	ret->unread_events += edges->unread_events;
	ret->way = ret->event_blocks ? QUERY_FROM_EDGES : QUERY_FROM_AGGREGATES;
	rows_done(&fast.rows);
	buckets_done(&fast.sizes);
	buckets_done(&fast.lives);
	tm_free(fast.first_sums);
	tm_free(fast.end_sums);
	return rc;
}
