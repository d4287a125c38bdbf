/* SPDX-License-Identifier: Apache-2.0 */
/* The peak of a range from all events before its end: where there are no slices. */
#include <errno.h>

#include "model/event_scan.h"
#include "model/query_section.h"
#include "model/walk.h"

struct search {
	struct query_section *section;
	const struct query_range *range;
	const struct query_progress *progress;
	struct walk walk;
	uint64_t live_bytes, live_blocks;
	bool begun;
	struct query_peak peak;
	struct tm_error *err;
};

/* Before the range's first event counts, too: that is the live set it begins with. */
static void begin(struct search *search)
{
	if (search->begun)
		return;
	search->begun = true;
	search->peak = (struct query_peak){
		.bytes = search->live_bytes,
		.blocks = search->live_blocks,
		.time_ns = search->range->from_ns,
		.event = search->range->first_event,
	};
}

static void note_move(void *ctx, uint64_t ordinal, const struct walk_block *block,
		      enum walk_move how)
{
	struct search *search = ctx;
	if (ordinal >= search->range->end_event)
		return;
	if (ordinal >= search->range->first_event)
		begin(search);
	search->live_bytes += how == WALK_ENDS ? -block->weight.bytes : block->weight.bytes;
	search->live_blocks += how == WALK_ENDS ? -block->weight.count : block->weight.count;
	if (!search->begun || search->live_bytes <= search->peak.bytes)
		return;
	search->peak = (struct query_peak){
		.bytes = search->live_bytes,
		.blocks = search->live_blocks,
		.time_ns = search->walk.last_ns,
		.event = ordinal + 1,
	};
}

static int ignore_block(void *ctx, const struct walk_block *block, const struct walk_end *end)
{
	(void)ctx;
	(void)block;
	(void)end;
	return 0;
}

static int add_events(void *ctx, size_t index, const struct trace_event_block *facts,
		      struct trace_event *events)
{
	struct search *search = ctx;
	(void)index;
	int rc = walk_events(&search->walk, facts, events, facts->event_count);
	return rc ? rc
		  : query_tell_progress(search->progress, facts->first_event,
					search->range->end_event, search->err);
}

int peak_by_scan(struct query_section *section, const struct query_range *range,
		 const struct query_progress *progress, struct query_answer *counts,
		 struct query_peak *ret, struct tm_error *err)
{
	struct search search = {
		.section = section, .range = range, .progress = progress, .err = err};
	struct event_scan_counts seen = {0};
	struct event_scan events = {
		.reader = section->reader,
		.end = range_part_of_event(section, range->end_event),
		.threads = section->threads,
		.fn = add_events,
		.ctx = &search,
	};
	if (events.end < section->part_count)
		events.end++;
	search.walk = (struct walk){.chosen = ignore_block, .moved = note_move, .ctx = &search};
	int rc = event_scan_run(&events, &seen, err);
	walk_done(&search.walk);
	if (rc)
		return rc;
	begin(&search);
	counts->event_blocks += seen.blocks;
	*ret = search.peak;
	return 0;
}
