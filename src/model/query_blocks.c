/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single blocks, in order of their birth. Blocks end in another order, so those
 * that are chosen wait in a heap until no block born before them can come.
 */
#include <errno.h>

#include "base/memory.h"
#include "model/event_scan.h"
#include "model/query_edges.h"
#include "model/query_section.h"
#include "model/walk.h"

struct listing {
	struct query_section *section;
	const struct query_blocks_options *options;
	struct query_range range;
	struct walk walk;
	query_block_fn fn;
	void *ctx;
	/* A heap with the largest block_id on top: of more than `limit`, the youngest go. */
	struct query_block *kept;
	size_t count, room;
	struct tm_error *err;
};

/* ---- the heap ---- */

static void swap(struct query_block *a, struct query_block *b)
{
	struct query_block other = *a;
	*a = *b;
	*b = other;
}

static void sift_up(struct query_block *heap, size_t at)
{
	while (at > 0 && heap[(at - 1) / 2].block_id < heap[at].block_id) {
		swap(&heap[(at - 1) / 2], &heap[at]);
		at = (at - 1) / 2;
	}
}

static void sift_down(struct query_block *heap, size_t count)
{
	for (size_t at = 0, child; (child = 2 * at + 1) < count; at = child) {
		if (child + 1 < count && heap[child + 1].block_id > heap[child].block_id)
			child++;
		if (heap[at].block_id >= heap[child].block_id)
			return;
		swap(&heap[at], &heap[child]);
	}
}

static int keep(struct listing *list, const struct query_block *block)
{
	uint64_t limit = list->options->limit;
	if (limit && list->count == limit) {
		if (block->block_id > list->kept[0].block_id)
			return 0;
		list->kept[0] = *block;
		sift_down(list->kept, list->count);
		return 0;
	}
	if (list->count == list->room) {
		size_t room = list->room ? list->room * 2 : 256;
		void *kept = tm_grow_array(list->kept, room, sizeof *list->kept);
		if (!kept)
			return -ENOMEM;
		list->kept = kept;
		list->room = room;
	}
	list->kept[list->count++] = *block;
	sift_up(list->kept, list->count - 1);
	return 0;
}

/* ---- choosing ---- */

static bool is_meant(const struct listing *list, const struct walk_block *block,
		     const struct walk_end *end)
{
	const struct query_range *range = &list->range;
	bool born =
		block->birth_event >= range->first_event && block->birth_event < range->end_event;
	bool ended = end->event >= range->first_event && end->event < range->end_event;
	bool lives = block->birth_event < range->end_event && end->event >= range->end_event &&
		     !(block->absent >> WALK_CUT_END & 1);
	switch (list->options->mode) {
	case QUERY_BLOCKS_ALLOCATED:
		return born;
	case QUERY_BLOCKS_FREED:
		return ended;
	case QUERY_BLOCKS_KEPT:
		return born && lives;
	case QUERY_BLOCKS_LIVE:
		return lives;
	case QUERY_BLOCKS_ALL:
		return born || ended || lives;
	}
	return false;
}

static int add_block(void *ctx, const struct walk_block *block, const struct walk_end *end)
{
	struct listing *list = ctx;
	if (block->block_id < list->options->first_block_id || !is_meant(list, block, end))
		return 0;
	bool ended = end->event != WALK_NEVER;
	struct query_block found = {
		.block_id = block->block_id,
		.address = block->address,
		.size_bytes = block->size_bytes,
		.birth_ns = block->birth_ns,
		.end_ns = ended ? end->time_ns : UINT64_MAX,
		.birth_event = block->birth_event,
		.end_event = end->event,
		.next_block_id = end->next_block_id,
		.stack_id = block->stack_id,
		.free_stack_id = end->free_stack_id,
		.thread_id = block->thread_id,
		.free_thread_id = end->thread_id,
		.op = block->op,
		.end_op = end->op,
		.api = block->api,
		.align_log2 = block->align_log2,
		.is_temporary = end->is_temporary,
	};
	return keep(list, &found);
}

static int add_events(void *ctx, size_t index, const struct trace_event_block *facts,
		      struct trace_event *events)
{
	struct listing *list = ctx;
	(void)index;
	int rc = walk_events(&list->walk, facts, events, facts->event_count);
	return rc ? rc
		  : query_tell_progress(&list->options->progress,
					facts->first_event + facts->event_count,
					list->section->stored_events, list->err);
}

/* From the top of the heap to its place at the end, until the array is sorted. */
static int report(struct listing *list)
{
	for (size_t left = list->count; left > 1; left--) {
		swap(&list->kept[0], &list->kept[left - 1]);
		sift_down(list->kept, left - 1);
	}
	int rc = 0;
	for (size_t i = 0; i < list->count && !rc; i++)
		rc = list->fn(list->ctx, &list->kept[i]);
	return rc;
}

static int run(struct listing *list)
{
	struct query_section *s = list->section;
	struct event_scan_counts counts = {0};
	struct event_scan events = {
		.reader = s->reader,
		.end = s->part_count,
		.addresses = true,
		.threads = s->threads,
		.fn = add_events,
		.ctx = list,
	};
	list->walk = (struct walk){
		.filter = list->options->filter,
		.cuts = {[WALK_CUT_END] = list->range.end_event},
		.now_ns = list->range.to_ns,
		.now_event = list->range.end_event,
		.end_ns = s->duration_ns,
		.chosen = add_block,
		.ctx = list,
	};
	int rc = event_scan_run(&events, &counts, list->err);
	if (!rc)
		rc = walk_finish(&list->walk);
	if (!rc)
		rc = report(list);
	if (rc == -ENOMEM)
		tm_fail(list->err, rc, "no memory for so many blocks; narrow the filter");
	walk_done(&list->walk);
	tm_free(list->kept);
	return rc;
}

int query_blocks(struct query_section *section, const struct query_blocks_options *options,
		 query_block_fn fn, void *ctx, struct tm_error *err)
{
	struct listing list = {
		.section = section, .options = options, .fn = fn, .ctx = ctx, .err = err};
	struct edges edges;
	edges_init(&edges, section, err);
	int rc = range_find(section, &edges, options->from_ns, options->to_ns, &list.range, err);
	edges_done(&edges);
	return rc ? rc : run(&list);
}
