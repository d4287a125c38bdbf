/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From times to ordinals of events. Headers say which block of events a moment
 * falls into; only that one is decoded.
 */
#include <errno.h>

#include "model/query_edges.h"

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

/* How many events, and births, come before `time_ns` (with `after`: up to and with it). */
static int count_before(struct query_section *s, struct edges *edges, uint64_t time_ns, bool after,
			uint64_t *ret_events, uint64_t *ret_births, struct tm_error *err)
{
	size_t index = part_of_time(s, time_ns, after);
	struct model_totals totals;
	if (index == s->part_count) {
		model_totals(s->model, &totals);
		*ret_events = s->stored_events;
		*ret_births = totals.allocations;
		return 0;
	}
	const struct section_part *part = &s->parts[index];
	*ret_events = part->first_event;
	*ret_births = part->first_block_id;
	if (after ? part->start_ns > time_ns : part->start_ns >= time_ns)
		return 0;
	const struct trace_event *events;
	int rc = edges_events(edges, index, &events);
	if (rc)
		return tm_fail(err, rc, "no memory to read the events at the edge of the range");
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
	int rc = count_before(s, edges, range.from_ns, false, &range.first_event,
			      &range.first_block, err);
	if (!rc)
		rc = count_before(s, edges, range.to_ns, true, &range.end_event, &range.end_block,
				  err);
	if (rc)
		return rc;
	if (from_ns > s->duration_ns) { /* after the run: nothing happens any more */
		range.first_event = range.end_event;
		range.first_block = range.end_block;
	}
	*ret = range;
	return 0;
}
