/* SPDX-License-Identifier: Apache-2.0 */
/* A question: its range, the way to its answer, and words about that way. */
#include <errno.h>
#include <inttypes.h>

#include "base/memory.h"
#include "model/query_edges.h"
#include "model/query_section.h"

static bool needs_scan(const struct query_section *section, const struct query *query)
{
	return query->by_scan || !section->slice_count || query->want & QUERY_THREADS ||
	       (query->filter && filter_needs_blocks(query->filter));
}

/*
 * Where blocks are culled slices have all figures but those of threads: these come from the blocks
 * that are stored, and, without a filter, from what slices say of the others.
 */
static int ask_culled_threads(struct edges *edges, const struct query *query,
			      const struct query_range *range, struct query_answer *answer)
{
	struct query_section *section = edges->section;
	struct query others = *query, threads = *query;
	struct query_answer scanned = {0};
	others.want &= ~(unsigned)QUERY_THREADS;
	threads.want = QUERY_THREADS;
	int rc = ask_by_slices(edges, &others, range, answer, edges->err);
	if (!rc)
		rc = ask_by_scan(section, &threads, range, &scanned, edges->err);
	if (!rc && !query->filter)
		rc = add_culled_threads(section, range, &scanned, edges->err);
	if (rc) {
		query_answer_done(&scanned);
		return rc;
	}
	answer->threads = scanned.threads;
	answer->thread_count = scanned.thread_count;
	answer->event_blocks += scanned.event_blocks;
	answer->skipped_blocks += scanned.skipped_blocks;
	answer->unread_events += scanned.unread_events;
	answer->way = QUERY_FROM_SCAN;
	scanned.threads = NULL;
	query_answer_done(&scanned);
	return 0;
}

int query_ask(struct query_section *section, const struct query *asked,
	      struct query_answer *ret_answer, struct tm_error *err)
{
	struct query known = *asked;
	const struct query *query = &known;
	/* Lifetimes of blocks that are not told apart would be made up. */
	if (section->unknown & TRACE_UNKNOWN_LIFETIMES)
		known.want &= ~(unsigned)QUERY_LIVES;
	struct edges edges;
	struct query_range range;
	struct query_answer answer = {0};
	uint64_t before = trace_reader_bytes_read(section->reader);
	edges_init(&edges, section, err);
	int rc = range_find(section, &edges, query->from_ns, query->to_ns, &range, err);
	if (rc) {
		edges_done(&edges);
		return rc;
	}
	answer.from_ns = range.from_ns;
	answer.to_ns = range.to_ns;
	answer.first_event = range.first_event;
	answer.event_count = range.end_event - range.first_event;
	answer.snapped = range.snapped;
	if (section->culled && query->want & QUERY_THREADS && !query->by_scan &&
	    section->slice_count && !(query->filter && filter_needs_blocks(query->filter)))
		rc = ask_culled_threads(&edges, query, &range, &answer);
	else if (needs_scan(section, query))
		rc = ask_by_scan(section, query, &range, &answer, err);
	else
		rc = ask_by_slices(&edges, query, &range, &answer, err);
	answer.bytes_read = trace_reader_bytes_read(section->reader) - before;
	edges_done(&edges);
	if (rc) {
		query_answer_done(&answer);
		return rc;
	}
	*ret_answer = answer;
	return 0;
}

void query_answer_done(struct query_answer *answer)
{
	tm_free(answer->rows);
	tm_free(answer->sizes);
	tm_free(answer->lives);
	tm_free(answer->threads);
	*answer = (struct query_answer){0};
}

void query_answer_explain(struct text *out, const struct query_answer *answer)
{
	const char *plural = answer->event_blocks == 1 ? "" : "s";
	switch (answer->way) {
	case QUERY_FROM_AGGREGATES:
		text_put(out, "from aggregates");
		break;
	case QUERY_FROM_EDGES:
		text_print(out, "from aggregates and %" PRIu64 " event block%s",
			   answer->event_blocks, plural);
		break;
	case QUERY_FROM_SCAN:
		text_print(out, "scan of %" PRIu64 " event block%s", answer->event_blocks, plural);
		if (answer->skipped_blocks)
			text_print(out, ", %" PRIu64 " skipped", answer->skipped_blocks);
		break;
	}
	if (answer->unread_events)
		text_print(out, "; %" PRIu64 " events are damaged or not stored, and not counted",
			   answer->unread_events);
	if (answer->snapped)
		text_put(out, "; events at an edge are not stored, so it was moved to a slice's");
}
