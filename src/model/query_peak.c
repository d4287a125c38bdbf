/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peak of a range: slices say how high they went, so only the edges and the
 * one slice that went highest are looked at event by event.
 */
#include <errno.h>

#include "base/memory.h"
#include "model/query_fast.h"

/* A walk over events of the whole heap, without a filter. */
struct climb {
	uint64_t live_bytes, live_blocks;
	struct query_peak peak;
	bool begun;
};

static void offer(struct climb *climb, uint64_t ordinal, uint64_t time_ns)
{
	if (climb->begun && climb->live_bytes <= climb->peak.bytes)
		return;
	climb->begun = true;
	climb->peak = (struct query_peak){.bytes = climb->live_bytes,
					  .blocks = climb->live_blocks,
					  .time_ns = time_ns,
					  .event = ordinal};
}

static void move(struct climb *climb, const struct edge_event *event)
{
	if (event->kind == EDGE_FAILED)
		return;
	bool goes = event->kind == EDGE_END;
	climb->live_bytes += goes ? -event->weight.bytes : event->weight.bytes;
	climb->live_blocks += goes ? -event->weight.count : event->weight.count;
}

static void visit_net(void *ctx, const struct edge_event *event)
{
	move(ctx, event);
}

static void visit_climb(void *ctx, const struct edge_event *event)
{
	move(ctx, event);
	offer(ctx, event->ordinal + 1, event->time_ns);
}

/* What lives at B(k). */
static void live_at_boundary(const struct query_section *s, size_t slice, struct climb *ret)
{
	*ret = (struct climb){0};
	if (slice == 0)
		return;
	ret->live_bytes = s->slices[slice - 1].live_bytes;
	ret->live_blocks = s->slices[slice - 1].live_blocks;
}

/* The whole heap when the range begins; what the edges change was added up before. */
static void begin(const struct fast *fast, struct climb *climb)
{
	live_at_boundary(fast->section, fast->first_slice, climb);
	climb->live_bytes += fast->start_bytes;
	climb->live_blocks += fast->start_blocks;
}

/* Whole slices that go higher than what was before them; the highest of them, or SIZE_MAX. */
static size_t highest_slice(const struct fast *fast, const struct climb *climb)
{
	uint64_t most = climb->peak.bytes;
	size_t highest = SIZE_MAX;
	for (size_t i = fast->first_slice; i < fast->end_slice; i++) {
		if (fast->section->slices[i].max_live_bytes > most) {
			most = fast->section->slices[i].max_live_bytes;
			highest = i;
		}
	}
	return highest;
}

/* Its events are not stored: it says how high it went and when, but not who held that. */
static void climb_folded(struct fast *fast, size_t slice, struct climb *climb)
{
	const struct query_section *s = fast->section;
	struct climb before;
	live_at_boundary(s, slice, &before);
	climb->peak = (struct query_peak){.bytes = s->slices[slice].max_live_bytes,
					  .blocks = before.live_blocks,
					  .time_ns = s->slices[slice].max_live_time_ns,
					  .event = fast_boundary(s, slice)};
	fast->edges->unread_events += s->slices[slice].event_count;
}

static int climb_slice(struct fast *fast, size_t slice, struct climb *climb)
{
	const struct query_section *s = fast->section;
	if (s->has_gaps && !s->slice_stored[slice]) {
		climb_folded(fast, slice, climb);
		return 0;
	}
	struct climb within;
	live_at_boundary(s, slice, &within);
	within.begun = true;
	within.peak.bytes = climb->peak.bytes;
	/* Not beyond the moment that the slice names. */
	uint64_t end = fast_boundary(s, slice + 1);
	size_t part = range_part_of_event(s, fast_boundary(s, slice));
	while (part < s->part_count && s->parts[part].start_ns <= s->slices[slice].max_live_time_ns)
		part++;
	if (part < s->part_count && s->parts[part].first_event < end)
		end = s->parts[part].first_event;
	int rc = edges_visit(fast->edges, fast_boundary(s, slice), end, visit_climb, &within);
	if (!rc && within.peak.bytes > climb->peak.bytes)
		climb->peak = within.peak;
	return rc;
}

/* ---- shares ---- */

static void visit_share(void *ctx, const struct edge_event *event)
{
	struct query_figures *f = fast_row(ctx, event->stack_id);
	if (!f || event->kind == EDGE_FAILED)
		return;
	bool goes = event->kind == EDGE_END;
	f->peak_blocks += goes ? -event->weight.count : event->weight.count;
	f->peak_bytes += goes ? -event->weight.bytes : event->weight.bytes;
}

/* What each stack has live at an ordinal: sums at the slice's beginning, and its events. */
static int add_shares(struct fast *fast, uint64_t ordinal)
{
	const struct query_section *s = fast->section;
	size_t slice = 0, count = 0;
	struct trace_sum *sums = NULL;
	while (slice < s->slice_count && fast_boundary(s, slice + 1) <= ordinal)
		slice++;
	int rc = trace_reader_sums(s->reader, slice, &sums, &count, fast->err);
	for (size_t i = 0; i < count && !rc; i++) {
		struct query_figures *f = fast_row(fast, sums[i].stack_id);
		if (!f)
			continue;
		f->peak_blocks += sums[i].births - sums[i].deaths;
		f->peak_bytes += sums[i].birth_bytes - sums[i].death_bytes;
	}
	tm_free(sums);
	if (!rc)
		rc = edges_visit(fast->edges, fast_boundary(s, slice), ordinal, visit_share, fast);
	return rc ? rc : fast->error;
}

/* From the beginning of the run the sums have the shares of the peak so far. */
static void take_shares(struct fast *fast)
{
	for (size_t i = 0; i < fast->end_count; i++) {
		struct query_figures *f = fast_row(fast, fast->end_sums[i].stack_id);
		if (!f)
			continue;
		f->peak_blocks = fast->end_sums[i].peak_count;
		f->peak_bytes = fast->end_sums[i].peak_bytes;
	}
}

/* Also where events are not stored, the shares of the run's own peak are known. */
static int take_run_shares(struct fast *fast, const struct query_peak *peak, bool *ret_taken)
{
	const struct query_section *s = fast->section;
	const struct trace_slice *last = s->slice_count ? &s->slices[s->slice_count - 1] : NULL;
	*ret_taken = false;
	if (!s->has_gaps || !last || peak->bytes != last->peak_bytes ||
	    peak->time_ns != last->peak_time_ns)
		return 0;
	struct trace_sum *sums;
	size_t count;
	int rc = trace_reader_sums(s->reader, s->slice_count, &sums, &count, fast->err);
	if (rc)
		return rc;
	for (size_t i = 0; i < count; i++) {
		struct query_figures *f = fast_row(fast, sums[i].stack_id);
		if (!f)
			continue;
		f->peak_blocks = sums[i].peak_count;
		f->peak_bytes = sums[i].peak_bytes;
	}
	tm_free(sums);
	fast->answer->peak_blocks = last->peak_blocks;
	*ret_taken = true;
	return fast->error;
}

/* Before R, if the range begins with the run: nothing to look at. */
static bool from_start(const struct fast *fast, struct climb *climb)
{
	if (fast->range->first_event > 0 || fast->end_slice == 0)
		return false;
	const struct trace_slice *last = &fast->section->slices[fast->end_slice - 1];
	climb->peak = (struct query_peak){.bytes = last->peak_bytes,
					  .blocks = last->peak_blocks,
					  .time_ns = last->peak_time_ns};
	climb->begun = true;
	if (last->peak_bytes == 0)
		climb->peak.time_ns = fast->range->from_ns;
	return true;
}

/* The highest moment; with `known`, climb begins with that of everything before R. */
static int climb_range(struct fast *fast, struct climb *climb, bool known)
{
	const struct query_range *range = fast->range;
	int rc = 0;
	if (!known) {
		begin(fast, climb);
		offer(climb, range->first_event, range->from_ns);
		rc = edges_visit(fast->edges, range->first_event, fast->left_end, visit_climb,
				 climb);
		size_t highest = rc ? SIZE_MAX : highest_slice(fast, climb);
		if (!rc && highest != SIZE_MAX)
			rc = climb_slice(fast, highest, climb);
	}
	if (fast->left_end != fast->right) {
		struct query_peak peak = climb->peak;
		live_at_boundary(fast->section, fast->end_slice, climb);
		climb->peak = peak;
		climb->begun = true;
	}
	return rc ? rc
		  : edges_visit(fast->edges, fast->right, range->end_event, visit_climb, climb);
}

int fast_add_peak(struct fast *fast)
{
	struct climb climb = {0};
	bool known = from_start(fast, &climb);
	uint64_t known_bytes = climb.peak.bytes, unread = fast->edges->unread_events;
	int rc = climb_range(fast, &climb, known);
	if (rc)
		return rc;
	fast->answer->peak_bytes = climb.peak.bytes;
	fast->answer->peak_blocks = climb.peak.blocks;
	fast->answer->peak_time_ns = climb.peak.time_ns;
	if (known && climb.peak.bytes == known_bytes) {
		take_shares(fast);
		return fast->error;
	}
	bool taken;
	rc = take_run_shares(fast, &climb.peak, &taken);
	if (taken)
		fast->edges->unread_events = unread;
	return rc || taken ? rc : add_shares(fast, climb.peak.event);
}

static void count_start(struct fast *fast, const struct climb *net, bool back)
{
	fast->start_bytes += back ? -net->live_bytes : net->live_bytes;
	fast->start_blocks += back ? -net->live_blocks : net->live_blocks;
}

int peak_by_slices(struct query_section *section, const struct query_range *range,
		   struct query_answer *counts, struct query_peak *ret, struct tm_error *err)
{
	struct edges edges;
	struct fast fast = {.section = section, .range = range, .edges = &edges, .err = err};
	struct climb climb = {0}, before = {0}, left = {0};
	edges_init(&edges, section, err);
	fast_plan(&fast);
	int rc = edges_visit(&edges, fast.before, range->first_event, visit_net, &before);
	if (!rc)
		rc = edges_visit(&edges, range->first_event, fast.left_end, visit_net, &left);
	count_start(&fast, &before, false);
	count_start(&fast, &left, true);
	if (!rc)
		rc = climb_range(&fast, &climb, false);
	counts->event_blocks += edges.blocks_read;
	edges_done(&edges);
	if (!rc)
		*ret = climb.peak;
	return rc;
}
