/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single blocks, in order of their birth. Blocks end in another order, so those
 * that are chosen wait in a heap until no block born before them can come.
 *
 * With a limit the heap is soon full. From then on only blocks up to its top can
 * still come in: the scan leaves out every block of events in which none of these
 * can end, and stops when none of them is left.
 */
#include <errno.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/memory.h"
#include "model/event_scan.h"
#include "model/query_edges.h"
#include "model/query_section.h"
#include "model/query_skip.h"
#include "model/walk.h"

enum {
	RECOUNT_PARTS = 16,
	HELD_MAX = 1 << 18, /* blocks without an order: 64 bytes each, and as much while it grows */
};

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
	/* What is left out: */
	struct skip_plan skip; /* by the filter */
	bool can_skip;         /* every part says what ends in it */
	uint64_t first;        /* only blocks from this on are wanted */
	_Atomic uint64_t last; /* up to this */
	uint64_t pending;      /* of these, how many may still end */
	bool is_counting, is_done;
	uint64_t give_up_ns; /* of clock_steady_ns(); 0 = never */
	bool gave_up;
	unsigned parts_seen;
};

/* ---- what need not be read ---- */

static bool skips(const void *ctx, size_t index)
{
	/* The counter is written by the asking thread only; an old value reads more than needed. */
	struct listing *list = (struct listing *)(uintptr_t)ctx;
	const struct query_section *s = list->section;
	struct trace_ends_facts ends;
	if (!list->can_skip)
		return false;
	if (skip_plan_skips(&list->skip, index))
		return true;
	uint64_t last = atomic_load(&list->last);
	uint64_t born = s->parts[index].first_block_id;
	uint64_t after =
		index + 1 < s->part_count ? s->parts[index + 1].first_block_id : UINT64_MAX;
	if (born <= last && after > list->first)
		return false;
	return !trace_reader_ends_facts(s->reader, index, &ends) &&
	       (!ends.count || ends.lowest_block_id > last || ends.highest_block_id < list->first);
}

/* Without its ENDS a part cannot be left out; nor around a realloc that failed. */
static bool all_have_ends(const struct query_section *s)
{
	for (size_t i = 0; i < s->part_count; i++) {
		struct trace_ends_facts ends;
		if (trace_reader_ends_facts(s->reader, i, &ends) || ends.undone)
			return false;
	}
	return true;
}

static void count_pending(struct listing *list)
{
	const struct walk *walk = &list->walk;
	uint64_t last = list->kept[0].block_id;
	list->pending = 0;
	for (size_t i = 0; i < walk->index_room; i++) {
		if (!walk->index[i])
			continue;
		uint64_t id = walk->blocks[walk->index[i] - 1].block_id;
		list->pending += id >= list->first && id <= last;
	}
	atomic_store(&list->last, last);
	list->is_counting = true;
}

static void on_move(void *ctx, uint64_t ordinal, const struct walk_block *block,
		    enum walk_move move)
{
	struct listing *list = ctx;
	(void)ordinal;
	if (!list->is_counting || move == WALK_BEGINS || block->block_id < list->first ||
	    block->block_id > atomic_load_explicit(&list->last, memory_order_relaxed))
		return;
	list->pending += move == WALK_RETURNS ? 1 : UINT64_MAX;
}

/* After a part: whether all that can be among the first is known. */
static bool is_known(struct listing *list)
{
	uint64_t limit = list->options->limit;
	/* Where reallocs fail, a block that one has ended may come back. */
	if (!limit || list->count < limit || !list->can_skip)
		return false;
	if (!list->is_counting || ++list->parts_seen % RECOUNT_PARTS == 0)
		count_pending(list);
	return !list->pending;
}

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

/* Ends that are missing may be missed, if the births are all there. */
static bool may_give_up(const struct listing *list)
{
	const struct walk *walk = &list->walk;
	uint64_t limit = list->options->limit;
	if (!list->give_up_ns || list->count + walk->count < limit ||
	    clock_steady_ns() < list->give_up_ns)
		return false;
	uint64_t known = list->count;
	for (size_t i = 0; i < walk->index_room && known < limit; i++) {
		uint64_t id = walk->index[i] ? walk->blocks[walk->index[i] - 1].block_id : 0;
		known += walk->index[i] && id >= list->first && id < list->range.end_block;
	}
	return known >= limit;
}

/* An imported file that tells size and stack of a free, not the block: the end is not this one's.
 */
static void forget_end(struct query_block *block)
{
	block->is_open = block->end_ns != UINT64_MAX;
	block->end_ns = block->end_event = UINT64_MAX;
	block->end_op = TRACE_OP_COUNT;
	block->free_thread_id = UINT32_MAX;
	block->free_stack_id = 0;
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
		.weight = block->weight,
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
		/* Nor is it known whether a realloc that has begun will fail. */
		.is_open = list->gave_up && (!ended || (end->op == TRACE_REALLOC_FREE &&
							end->next_block_id == TRACE_NO_BLOCK)),
	};
	if (list->section->unknown & TRACE_UNKNOWN_LIFETIMES)
		forget_end(&found);
	return list->options->unordered ? list->fn(list->ctx, &found) : keep(list, &found);
}

static int add_events(void *ctx, size_t index, const struct trace_event_block *facts,
		      struct trace_event *events)
{
	struct listing *list = ctx;
	(void)index;
	int rc = walk_events(&list->walk, facts, events, facts->event_count);
	list->gave_up = !rc && may_give_up(list);
	list->is_done = list->gave_up || (!rc && is_known(list));
	return rc || list->is_done ? (rc ? rc : 1)
				   : query_tell_progress(&list->options->progress,
							 facts->first_event + facts->event_count,
							 list->section->stored_events, list->err);
}

/* ---- reallocs whose second half was left out ---- */

struct search {
	const struct query_block *block;
	uint64_t found;
};

static int find_in_events(void *ctx, size_t index, const struct trace_event_block *facts,
			  struct trace_event *events)
{
	struct search *search = ctx;
	(void)index;
	for (size_t i = 0; i < facts->event_count; i++) {
		if (events[i].thread_id != search->block->free_thread_id ||
		    facts->first_event + i <= search->block->end_event)
			continue;
		if (events[i].op == TRACE_REALLOC_ALLOC)
			search->found = events[i].block_id;
		if (events[i].op == TRACE_REALLOC_ALLOC || events[i].op == TRACE_REALLOC_FREE)
			return 1;
	}
	return 0;
}

/* The block that a realloc made is born soon after: mostly in the very same block of events. */
static int find_next(const struct listing *list, struct query_block *block)
{
	struct query_section *s = list->section;
	struct search search = {.block = block, .found = TRACE_NO_BLOCK};
	struct event_scan_counts counts = {0};
	struct event_scan events = {
		.reader = s->reader,
		.first = range_part_of_event(s, block->end_event),
		.end = s->part_count,
		.threads = 1,
		.fn = find_in_events,
		.ctx = &search,
	};
	int rc = event_scan_run(&events, &counts, list->err);
	block->next_block_id = search.found;
	return rc == 1 ? 0 : rc;
}

static int find_all_next(struct listing *list)
{
	int rc = 0;
	for (size_t i = 0; i < list->count && !rc && list->can_skip && !list->gave_up; i++) {
		struct query_block *block = &list->kept[i];
		if (block->end_op == TRACE_REALLOC_FREE && block->next_block_id == TRACE_NO_BLOCK)
			rc = find_next(list, block);
	}
	return rc;
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

/* The part in which this block was born, or one before it. */
static size_t birth_part(const struct query_section *s, uint64_t block_id)
{
	size_t low = 0, high = s->part_count;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (s->parts[middle].first_block_id <= block_id)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Blocks from a number on, in no order as many as can be held; *from_id moves on, to 0 at the end.
 */
static int run_some(struct listing *list, uint64_t *from_id)
{
	struct query_section *s = list->section;
	struct event_scan_counts counts = {0};
	struct event_scan events = {
		.reader = s->reader,
		.first = *from_id ? birth_part(s, *from_id) : 0,
		.end = s->part_count,
		.addresses = true,
		.threads = s->threads,
		.skip = skips,
		.skip_ctx = list,
		.marks = list->can_skip,
		.fn = add_events,
		.ctx = list,
	};
	list->walk = (struct walk){
		.filter = list->options->filter,
		.cuts = {[WALK_CUT_END] = list->range.end_event},
		.now_ns = list->range.to_ns,
		.now_event = list->range.end_event,
		.end_ns = s->duration_ns,
		.marked = list->can_skip,
		.chosen = add_block,
		.moved = on_move,
		.ctx = list,
		.from_id = *from_id,
		.limit = list->options->unordered ? HELD_MAX : 0,
	};
	int rc = event_scan_run(&events, &counts, list->err);
	if (!rc || list->is_done)
		rc = walk_finish(&list->walk);
	*from_id = list->walk.until_id;
	walk_done(&list->walk);
	return rc;
}

static int run(struct listing *list)
{
	uint64_t from_id = 0;
	int rc;
	do {
		rc = run_some(list, &from_id);
	} while (!rc && from_id);
	if (!rc)
		rc = find_all_next(list);
	if (!rc)
		rc = report(list);
	if (rc == -ENOMEM)
		tm_fail(list->err, rc, "no memory for so many blocks; narrow the filter");
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
	if (rc)
		return rc;
	bool born = options->mode == QUERY_BLOCKS_ALLOCATED || options->mode == QUERY_BLOCKS_KEPT;
	list.first = options->first_block_id;
	if (born && list.range.first_block > list.first)
		list.first = list.range.first_block;
	atomic_init(&list.last, list.range.end_block ? list.range.end_block - 1 : 0);
	list.can_skip = all_have_ends(section);
	if (options->patience_ns && options->limit && options->mode == QUERY_BLOCKS_ALLOCATED &&
	    !(options->filter && filter_needs_ends(options->filter)))
		list.give_up_ns = clock_steady_ns() + options->patience_ns;
	rc = skip_plan_make(section, options->filter, &list.skip);
	if (!rc)
		rc = run(&list);
	skip_plan_done(&list.skip);
	return rc == -ENOMEM && !err->code ? tm_fail(err, rc, "no memory to look for blocks") : rc;
}
