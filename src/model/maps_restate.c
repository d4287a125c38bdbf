/* SPDX-License-Identifier: Apache-2.0 */
#include "model/maps_restate.h"

#include "base/memory.h"
#include "model/maps.h"

#include <errno.h>
#include <string.h>

enum { PEAKS = 4, PROT_READ_WRITE = 3 };

/* Who maps: a stack in a thread. */
struct caller {
	uint32_t stack_id, thread_id;
	uint64_t calls, bytes;
};

struct range {
	uint64_t start, end;
	uint32_t caller;
	uint8_t kind;
};

struct ranges {
	struct range *all;
	size_t count, room;
	uint64_t brk_start, brk_bytes;
};

struct restate {
	struct map_set set;
	struct caller *callers; /* [0]: nobody */
	uint32_t caller_count, caller_room;
	uint32_t *index;            /* by hash: number of a caller, 0 none */
	uint64_t row, peaks[PEAKS]; /* the present one; those in which a peak rose last */
	uint64_t first_ns, last_ns;
	struct ranges was, is;
	bool second; /* pass */
	trace_map_fn put;
	void *put_ctx;
	int rc;
};

/* ---- callers ---- */

static uint32_t hash_of(uint32_t stack_id, uint32_t thread_id)
{
	return (uint32_t)((stack_id * 0x9e3779b97f4a7c15ull ^ thread_id * 0xc2b2ae3d27d4eb4full) >>
			  32);
}

static void enter(struct restate *r, uint32_t number)
{
	const struct caller *caller = &r->callers[number];
	uint32_t mask = r->caller_room * 2 - 1;
	uint32_t at = hash_of(caller->stack_id, caller->thread_id) & mask;
	while (r->index[at])
		at = (at + 1) & mask;
	r->index[at] = number;
}

static int grow_callers(struct restate *r)
{
	uint32_t room = r->caller_room ? r->caller_room * 2 : 64;
	struct caller *callers = tm_grow_array(r->callers, room, sizeof *callers);
	if (!callers)
		return -ENOMEM;
	r->callers = callers;
	tm_free(r->index);
	r->index = tm_alloc_array((size_t)room * 2, sizeof *r->index);
	if (!r->index)
		return -ENOMEM;
	r->caller_room = room;
	for (uint32_t i = 1; i < r->caller_count; i++)
		enter(r, i);
	if (!r->caller_count)
		r->callers[r->caller_count++] = (struct caller){0};
	return 0;
}

/* 0: no memory. */
static uint32_t caller_of(struct restate *r, const struct trace_map_event *event)
{
	if (r->caller_count >= r->caller_room && grow_callers(r)) {
		r->rc = -ENOMEM;
		return 0;
	}
	uint32_t mask = r->caller_room * 2 - 1;
	uint32_t at = hash_of(event->stack_id, event->thread_id) & mask;
	for (; r->index[at]; at = (at + 1) & mask) {
		const struct caller *caller = &r->callers[r->index[at]];
		if (caller->stack_id == event->stack_id && caller->thread_id == event->thread_id)
			return r->index[at];
	}
	r->callers[r->caller_count] =
		(struct caller){.stack_id = event->stack_id, .thread_id = event->thread_id};
	return r->index[at] = r->caller_count++;
}

/* ---- what is put ---- */

static void put(struct restate *r, const struct trace_map_event *event)
{
	if (!r->rc && r->put(r->put_ctx, event))
		r->rc = -ENOMEM;
}

static void put_totals(struct restate *r)
{
	for (uint32_t i = 1; i < r->caller_count; i++)
		if (r->callers[i].calls)
			put(r, &(struct trace_map_event){.op = TRACE_MAP_FOLDED,
							 .time_ns = r->first_ns,
							 .address = r->callers[i].calls,
							 .bytes = r->callers[i].bytes,
							 .stack_id = r->callers[i].stack_id,
							 .thread_id = r->callers[i].thread_id});
}

static int add_range(void *ctx, uint64_t start, uint64_t end, uint8_t kind, uint32_t call)
{
	struct ranges *ranges = ctx;
	if (ranges->count == ranges->room) {
		size_t more = ranges->room ? ranges->room * 2 : 64;
		void *grown = tm_grow_array(ranges->all, more, sizeof *ranges->all);
		if (!grown)
			return -ENOMEM;
		ranges->all = grown;
		ranges->room = more;
	}
	ranges->all[ranges->count++] =
		(struct range){.start = start, .end = end, .kind = kind, .caller = call};
	return 0;
}

static bool is_same(const struct range *a, const struct range *b)
{
	return a->start == b->start && a->end == b->end && a->kind == b->kind &&
	       a->caller == b->caller;
}

static void put_range(struct restate *r, const struct range *range, enum trace_map_op op)
{
	const struct caller *caller = &r->callers[range->caller];
	struct trace_map_event event = {.op = (uint8_t)op,
					.time_ns = r->last_ns,
					.address = range->start,
					.bytes = range->end - range->start,
					.thread_id = caller->thread_id};
	if (op == TRACE_MAP) {
		event.stack_id = caller->stack_id;
		event.prot_or_advice = range->kind & MAP_RESERVED ? 0 : PROT_READ_WRITE;
		event.flags =
			TRACE_MAP_RESTATED | (range->kind & MAP_FILE_BACKED ? TRACE_MAP_FILE : 0);
	}
	put(r, &event);
}

/* Those of `a` that are not in `b`; both are sorted. */
static void put_others(struct restate *r, const struct ranges *a, const struct ranges *b,
		       enum trace_map_op op)
{
	for (size_t i = 0, j = 0; i < a->count; i++) {
		while (j < b->count && b->all[j].start < a->all[i].start)
			j++;
		if (j == b->count || !is_same(&a->all[i], &b->all[j]))
			put_range(r, &a->all[i], op);
	}
}

/* From the mappings that were put last to the present ones. Less first: no peak is passed. */
static void put_step(struct restate *r)
{
	r->is.count = 0;
	r->is.brk_start = r->set.brk_start;
	r->is.brk_bytes = r->set.brk_bytes;
	if (maps_each(&r->set, add_range, &r->is)) {
		r->rc = -ENOMEM;
		return;
	}
	put_others(r, &r->was, &r->is, TRACE_UNMAP);
	put_others(r, &r->is, &r->was, TRACE_MAP);
	if (r->is.brk_start != r->was.brk_start || r->is.brk_bytes != r->was.brk_bytes)
		put(r, &(struct trace_map_event){.op = TRACE_MAP_BRK,
						 .time_ns = r->last_ns,
						 .address = r->is.brk_start,
						 .bytes = r->is.brk_start + r->is.brk_bytes});
	struct ranges swap = r->was;
	r->was = r->is;
	r->is = swap;
}

/* ---- the passes ---- */

static void note_totals(struct restate *r, const struct trace_map_event *event)
{
	uint64_t calls = trace_map_calls(event);
	uint32_t caller = calls ? caller_of(r, event) : 0;
	if (!caller)
		return;
	r->callers[caller].calls += calls;
	r->callers[caller].bytes += event->bytes;
}

static bool is_peak(const struct restate *r)
{
	for (int i = 0; i < PEAKS; i++)
		if (r->peaks[i] == r->row)
			return true;
	return false;
}

static int apply(void *ctx, const struct trace_map_event *event)
{
	struct restate *r = ctx;
	struct map_set *set = &r->set;
	const uint64_t before[PEAKS] = {set->mapped_peak_bytes, set->reserved_peak_bytes,
					set->file_peak_bytes, set->brk_peak_bytes};
	r->row++;
	if (r->row == 1)
		r->first_ns = event->time_ns;
	r->last_ns = event->time_ns;
	if (!r->second)
		note_totals(r, event);
	if (event->op == TRACE_MAP_FOLDED)
		return r->rc;
	/* What changes its rights stays its owner's. */
	set->call =
		event->op == TRACE_MAP ? caller_of(r, event) : maps_call_at(set, event->address, 0);
	if (!r->rc)
		r->rc = maps_apply(set, event);
	const uint64_t after[PEAKS] = {set->mapped_peak_bytes, set->reserved_peak_bytes,
				       set->file_peak_bytes, set->brk_peak_bytes};
	for (int i = 0; i < PEAKS && !r->second; i++)
		if (after[i] > before[i])
			r->peaks[i] = r->row;
	if (r->second && is_peak(r))
		put_step(r);
	return r->rc;
}

static void pass(struct restate *r, trace_maps_fn each, const void *each_ctx)
{
	maps_init(&r->set, 0);
	r->row = 0;
	if (!each(each_ctx, apply, r) && !r->rc)
		r->rc = -EIO;
	if (r->second && !r->rc)
		put_step(r);
	maps_done(&r->set);
}

int maps_restate(trace_maps_fn each, const void *each_ctx, trace_map_fn put_row, void *put_ctx)
{
	struct restate r = {.put = put_row, .put_ctx = put_ctx};
	r.rc = grow_callers(&r);
	if (!r.rc)
		pass(&r, each, each_ctx);
	if (!r.rc)
		put_totals(&r);
	r.second = true;
	if (!r.rc)
		pass(&r, each, each_ctx);
	tm_free(r.callers);
	tm_free(r.index);
	tm_free(r.was.all);
	tm_free(r.is.all);
	return r.rc;
}
