/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From times to ordinals of events. Headers say which block of events a moment
 * falls into; only that one is decoded.
 */
#include <errno.h>

#include "model/query_fast.h"

size_t range_part_of_event(const struct query_section *s, uint64_t ordinal)
{
	size_t low = 0, high = s->part_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (s->parts[middle].first_event + s->parts[middle].event_count > ordinal)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* The first part that has an event at `time_ns` or later (with `after`: later than that). */
static size_t part_of_time(const struct query_section *s, uint64_t time_ns, bool after)
{
	size_t low = 0, high = s->part_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		uint64_t end_ns = s->parts[middle].end_ns;
		if (after ? end_ns > time_ns : end_ns >= time_ns)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static bool is_birth(const struct trace_event *event)
{
	return event->op == TRACE_ALLOC || event->op == TRACE_REALLOC_ALLOC;
}

int range_births_before(struct edges *edges, uint64_t ordinal, uint64_t counted, uint64_t *ret)
{
	const struct query_section *s = edges->section;
	*ret = counted;
	if (!s->sample_bytes || !s->part_count)
		return 0;
	size_t index = range_part_of_event(s, ordinal);
	if (index == s->part_count)
		index--;
	const struct section_part *part = &s->parts[index];
	*ret = part->first_block_id;
	if (part->first_event >= ordinal)
		return 0;
	const struct trace_event *events;
	int rc = edges_events(edges, index, &events);
	for (uint64_t i = 0; !rc && events && i < part->event_count; i++)
		if (part->first_event + i < ordinal && is_birth(&events[i]))
			*ret = events[i].block_id + 1;
	return rc;
}

/* Events beyond those that are stored (a limit on the file) are known by whole slices only. */
static int count_unstored(struct edges *edges, uint64_t time_ns, bool after,
			  struct query_range *range, uint64_t *ret_events, uint64_t *ret_births)
{
	const struct query_section *s = edges->section;
	struct model_totals totals;
	size_t k = s->slice_count;
	while (k > 0 &&
	       (after ? s->slices[k - 1].end_ns > time_ns : s->slices[k - 1].end_ns >= time_ns) &&
	       fast_boundary(s, k - 1) >= s->stored_events)
		k--;
	if (fast_boundary(s, k) > s->stored_events) {
		*ret_events = fast_boundary(s, k);
		*ret_births = s->births_before[k];
		range->snapped |= time_ns < s->slices[s->slice_count - 1].end_ns;
		return 0;
	}
	model_totals(s->model, &totals);
	*ret_events = s->stored_events;
	bool at_slice = k < s->slice_count && fast_boundary(s, k) == s->stored_events;
	return range_births_before(edges, s->stored_events,
				   at_slice ? s->births_before[k] : totals.allocations, ret_births);
}

/* Which slice has its begin before the ordinal and its end after it; false: none. */
static bool slice_around(const struct query_section *s, uint64_t event, size_t *ret_slice)
{
	size_t low = 0, high = s->slice_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (fast_boundary(s, middle + 1) > event)
			high = middle;
		else
			low = middle + 1;
	}
	*ret_slice = low;
	return low < s->slice_count && fast_boundary(s, low) < event;
}

/*
 * An edge within a slice of which some events are not stored moves to its begin,
 * or with `up` to its end.
 */
static void snap(const struct query_section *s, bool up, struct query_range *range, uint64_t *event,
		 uint64_t *births)
{
	size_t k;
	if (!s->has_gaps || !slice_around(s, *event, &k) || s->slice_stored[k])
		return;
	*event = fast_boundary(s, k + up);
	*births = s->births_before[k + up];
	range->snapped = true;
}

/* The slice in which a moment lies, if events of it are not stored; SIZE_MAX: all are. */
static size_t gap_slice(const struct query_section *s, uint64_t time_ns, bool after)
{
	size_t low = 0, high = s->slice_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		uint64_t end_ns = s->slices[middle].end_ns;
		if (after ? end_ns <= time_ns : end_ns < time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low < s->slice_count && !s->slice_stored[low] ? low : SIZE_MAX;
}

/* A moment before part number `index` at which events may have been that are not stored. */
static void count_missing(const struct query_section *s, size_t index, uint64_t time_ns, bool after,
			  struct query_range *range, uint64_t *ret_events, uint64_t *ret_births)
{
	const struct section_part *before = index ? &s->parts[index - 1] : NULL;
	uint64_t first = before ? before->first_event + before->event_count : 0;
	if (!s->has_gaps || s->parts[index].first_event == first)
		return;
	size_t k = gap_slice(s, time_ns, after);
	if (k == SIZE_MAX)
		return;
	bool begun = after ? s->slices[k].start_ns <= time_ns : s->slices[k].start_ns < time_ns;
	k += after && begun;
	range->snapped |= begun;
	if (fast_boundary(s, k) > s->parts[index].first_event)
		return;
	*ret_events = fast_boundary(s, k);
	*ret_births = s->births_before[k];
}

/*
 * Where blocks are culled, what is stored of a slice does not tell how many of its events come
 * before a moment: the slice counts as a whole. False: all its events are stored.
 */
static bool count_culled(struct edges *edges, uint64_t time_ns, bool after,
			 struct query_range *range, uint64_t *ret_events, uint64_t *ret_births,
			 int *ret_error)
{
	const struct query_section *s = edges->section;
	size_t k = s->culled ? gap_slice(s, time_ns, after) : SIZE_MAX;
	if (k == SIZE_MAX)
		return false;
	bool begun = after ? s->slices[k].start_ns <= time_ns : s->slices[k].start_ns < time_ns;
	k += after && begun;
	range->snapped |= begun;
	*ret_events = fast_boundary(s, k);
	*ret_error = range_births_before(edges, *ret_events, s->births_before[k], ret_births);
	return true;
}

/* How many events, and births, come before `time_ns` (with `after`: up to and with it). */
static int count_before(struct edges *edges, uint64_t time_ns, bool after,
			struct query_range *range, uint64_t *ret_events, uint64_t *ret_births)
{
	const struct query_section *s = edges->section;
	int rc = 0;
	if (count_culled(edges, time_ns, after, range, ret_events, ret_births, &rc))
		return rc;
	size_t index = part_of_time(s, time_ns, after);
	if (index == s->part_count)
		return count_unstored(edges, time_ns, after, range, ret_events, ret_births);
	const struct section_part *part = &s->parts[index];
	*ret_events = part->first_event;
	*ret_births = part->first_block_id;
	if (after ? part->start_ns > time_ns : part->start_ns >= time_ns) {
		count_missing(s, index, time_ns, after, range, ret_events, ret_births);
		return 0;
	}
	const struct trace_event *events;
	rc = edges_events(edges, index, &events);
	if (rc)
		return tm_fail(edges->err, rc,
			       "no memory to read the events at the edge of the range");
	if (!events) /* damaged: it counts as one moment, its first */
		return 0;
	uint64_t last_ns = part->start_ns;
	for (uint64_t i = 0; i < part->event_count; i++) {
		if (events[i].time_ns > last_ns)
			last_ns = events[i].time_ns;
		if (after ? last_ns > time_ns : last_ns >= time_ns)
			break;
		*ret_events += 1;
		*ret_births += is_birth(&events[i]);
	}
	return 0;
}

/* A range must not begin within a slice of which a part is not stored, if it reaches beyond. */
static void snap_start(const struct query_section *s, struct query_range *range)
{
	if (range->end_event <= s->stored_events || range->first_event >= s->stored_events)
		return;
	size_t k = 0;
	while (k < s->slice_count && fast_boundary(s, k + 1) <= s->stored_events)
		k++;
	if (fast_boundary(s, k) == s->stored_events || range->first_event <= fast_boundary(s, k))
		return;
	range->first_event = fast_boundary(s, k);
	range->first_block = s->births_before[k];
	range->snapped = true;
}

int range_find(struct query_section *s, struct edges *edges, uint64_t from_ns, uint64_t to_ns,
	       struct query_range *ret, struct tm_error *err)
{
	if (from_ns > to_ns)
		return tm_fail(err, -EINVAL, "the range ends before it begins");
	struct query_range range = {
		.from_ns = from_ns > s->duration_ns ? s->duration_ns : from_ns,
		.to_ns = to_ns > s->duration_ns ? s->duration_ns : to_ns,
	};
	range.from_ns = range.from_ns / 1000 * 1000;
	int rc = count_before(edges, range.from_ns, false, &range, &range.first_event,
			      &range.first_block);
	if (!rc)
		rc = count_before(edges, range.to_ns, true, &range, &range.end_event,
				  &range.end_block);
	if (rc)
		return rc;
	if (from_ns > s->duration_ns) { /* after the run: nothing happens any more */
		range.first_event = range.end_event;
		range.first_block = range.end_block;
	}
	if (range.first_event > range.end_event) { /* both edges were moved */
		range.end_event = range.first_event;
		range.end_block = range.first_block;
	}
	snap_start(s, &range);
	snap(s, false, &range, &range.first_event, &range.first_block);
	snap(s, true, &range, &range.end_event, &range.end_block);
	*ret = range;
	return 0;
}
