/* SPDX-License-Identifier: Apache-2.0 */
#include "model/verify.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "model/cursor.h"
#include "model/state.h"

enum { BATCH = 4096 };

struct verify {
	struct trace_reader *r;
	size_t section;
	const struct trace_check *check;
	struct model *m;
	struct tm_error *err;
	struct cursor cursor;
	uint64_t at; /* in the cursor's block */
	/* What must come next. */
	uint64_t event, block_id, time_ns;
	uint64_t all_events, missing_events, not_stored;
	bool gap;       /* events are missing: what refers to them cannot be checked */
	bool unknown;   /* the block before could not be read: its heap blocks are not counted */
	bool no_slices; /* nothing is to be compared any more */
	bool no_lives;  /* the trace does not know lifetimes */
	/* What the file says of ends of blocks older than the cursor's. */
	struct trace_old_end *ends;
	size_t end_room, end_count, next_end;
	struct trace_slice *curve;
	size_t curve_count;
	struct model_verified done;
};

#define TELL(v, offset, ...) trace_check_tell((v)->check, (v)->section, offset, __VA_ARGS__)

/* ---- events ---- */

static int check_event(struct verify *v, const struct trace_event *event)
{
	if (event->time_ns < v->time_ns)
		return TELL(v, v->cursor.block.offset, "time falls at event %" PRIu64,
			    v->cursor.block.first_event + v->at);
	v->time_ns = event->time_ns;
	if (event->op == TRACE_ALLOC || event->op == TRACE_REALLOC_ALLOC) {
		uint64_t size_bytes = trace_word_size(event->size_bytes);
		if (size_bytes < v->cursor.block.min_size_bytes ||
		    size_bytes > v->cursor.block.max_size_bytes)
			return TELL(v, v->cursor.block.offset,
				    "the size in event %" PRIu64
				    " is not within what the block's header says",
				    v->cursor.block.first_event + v->at);
		v->block_id = event->block_id + 1;
	}
	return 0;
}

static bool ends_older(const struct verify *v, uint8_t op, uint64_t block_id)
{
	return (op == TRACE_FREE || op == TRACE_FREE_UNSEEN || op == TRACE_REALLOC_FREE) &&
	       block_id < v->cursor.block.first_block_id;
}

/* What stands beside the events of such an end must be what the model knows of its block. */
static int check_old_end(struct verify *v, uint64_t block_id, const struct trace_event *after,
			 uint64_t ordinal)
{
	if (!v->end_count || v->gap)
		return 0;
	const struct trace_old_end *end = &v->ends[v->next_end];
	bool same = v->next_end < v->end_count && end->block_id == block_id &&
		    end->stack_id == after->stack_id && end->size_bytes == after->size_bytes &&
		    end->is_temporary == !!(after->flags & TRACE_EVENT_TEMPORARY);
	v->next_end++;
	if (same)
		return 0;
	v->end_count = 0; /* once per block of events is enough */
	return TELL(v, v->cursor.block.offset,
		    "what is stored about the end in event %" PRIu64 " is not true", ordinal);
}

/* After the model has seen it: an end of a block that does not live has become something else. */
static int check_end(struct verify *v, uint8_t op, uint64_t block_id,
		     const struct trace_event *after, uint64_t ordinal)
{
	bool ended = op == TRACE_FREE || op == TRACE_FREE_UNSEEN || op == TRACE_REALLOC_FREE;
	if (!ended || block_id == TRACE_NO_BLOCK || after->block_id != TRACE_NO_BLOCK || v->gap)
		return 0;
	return TELL(v, v->cursor.block.offset,
		    "event %" PRIu64 " ends heap block %" PRIu64 ", which does not live then",
		    ordinal, block_id);
}

static int apply(struct verify *v, struct trace_event *events, size_t count)
{
	uint8_t ops[BATCH];
	uint64_t ids[BATCH];
	int rc = 0;
	for (size_t i = 0; i < count && rc == 0; i++, v->at++) {
		ops[i] = events[i].op;
		ids[i] = events[i].block_id;
		rc = check_event(v, &events[i]);
	}
	if (rc == 0)
		rc = model_apply(v->m, events, count, v->err);
	for (size_t i = 0; i < count && rc == 0; i++) {
		uint64_t ordinal = v->cursor.block.first_event + v->at - count + i;
		rc = check_end(v, ops[i], ids[i], &events[i], ordinal);
		if (rc == 0 && ends_older(v, ops[i], ids[i]))
			rc = check_old_end(v, ids[i], &events[i], ordinal);
	}
	v->event += count;
	v->done.events += count;
	if ((v->gap || v->no_slices) && model_slice_due(v->m))
		model_slice_fold(v->m);
	return rc;
}

static int check_block_header(struct verify *v)
{
	const struct trace_event_block *block = &v->cursor.block;
	int rc = 0;
	if (block->first_event != v->event) {
		v->gap = true;
		v->missing_events += block->first_event - v->event;
		if (block->first_event < v->event || v->missing_events > v->not_stored)
			rc = TELL(v, block->offset,
				  "events %" PRIu64 " to %" PRIu64 " are missing before it",
				  v->event, block->first_event);
	} else if (block->first_block_id != v->block_id && !v->unknown) {
		rc = TELL(v, block->offset,
			  "its first heap block has number %" PRIu64 ", it must be %" PRIu64,
			  block->first_block_id, v->block_id);
	}
	if (rc == 0 && block->start_ns < v->time_ns)
		rc = TELL(v, block->offset, "it begins earlier than the events before it end");
	v->event = block->first_event;
	v->block_id = block->first_block_id;
	v->unknown = false;
	return rc;
}

/* The ends that belong to block number `index`; end_count 0: the file does not have them. */
static int load_ends(struct verify *v, size_t index)
{
	struct trace_ends_facts facts;
	v->end_count = v->next_end = 0;
	if (trace_reader_ends_facts(v->r, index, &facts) || !facts.count)
		return 0;
	if (facts.count > v->end_room) {
		tm_free(v->ends);
		v->end_room = 0;
		v->ends = tm_alloc_array(facts.count, sizeof *v->ends);
		if (!v->ends)
			return tm_fail(v->err, -ENOMEM, "no memory for the ends of blocks");
		v->end_room = facts.count;
	}
	int rc = trace_reader_ends(v->r, index, v->ends, v->err);
	if (rc == -EBADMSG)
		return TELL(v, v->cursor.block.offset,
			    "what belongs to its ends of older blocks cannot be read");
	v->end_count = rc ? 0 : facts.count;
	return rc == -ENODATA ? 0 : rc;
}

/* 1: the next block of events is decoded. 0: there is none. */
static int next_block(struct verify *v)
{
	int rc;
	while ((rc = cursor_next(&v->cursor, v->err)) > 0) {
		const struct trace_event_block *block = &v->cursor.block;
		rc = check_block_header(v);
		if (rc == 0)
			rc = load_ends(v, v->cursor.next - 1);
		if (rc == 0 && v->check->progress)
			rc = v->check->progress(v->check->ctx, v->done.events, v->all_events);
		if (rc)
			return rc;
		v->at = 0;
		if (!v->cursor.damaged)
			return 1;
		v->gap = v->unknown = true;
		v->event += block->event_count;
		v->at = block->event_count;
		rc = TELL(v, block->offset, "the events %" PRIu64 " to %" PRIu64 " cannot be read",
			  block->first_event, v->event);
		if (rc)
			return rc;
	}
	return rc;
}

/* Replays up to event number `end`, or to the last there is. */
static int replay(struct verify *v, uint64_t end)
{
	while (v->event < end) {
		if (v->at >= v->cursor.block.event_count) {
			int rc = next_block(v);
			if (rc <= 0)
				return rc;
			continue;
		}
		uint64_t count = v->cursor.block.event_count - v->at;
		if (count > BATCH)
			count = BATCH;
		if (count > end - v->event)
			count = end - v->event;
		int rc = apply(v, v->cursor.events + v->at, count);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- slices ---- */

static bool same_buckets(const struct trace_bucket *a, const struct trace_bucket *b, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (a[i].bucket != b[i].bucket || a[i].count != b[i].count)
			return false;
	return true;
}

static bool same_row(const struct trace_slice_row *a, const struct trace_slice_row *b, bool lives)
{
	if (a->stack_id != b->stack_id || a->births != b->births ||
	    a->birth_bytes != b->birth_bytes || a->temporary != b->temporary ||
	    a->failed != b->failed || a->death_count != b->death_count ||
	    a->size_bucket_count != b->size_bucket_count || a->peak_known != b->peak_known ||
	    (lives && a->life_bucket_count != b->life_bucket_count) ||
	    (a->peak_known && (a->peak_count != b->peak_count || a->peak_bytes != b->peak_bytes)))
		return false;
	for (uint32_t i = 0; i < a->death_count; i++)
		if (a->deaths[i].birth_slice != b->deaths[i].birth_slice ||
		    a->deaths[i].count != b->deaths[i].count ||
		    a->deaths[i].bytes != b->deaths[i].bytes)
			return false;
	return same_buckets(a->sizes, b->sizes, a->size_bucket_count) &&
	       (!lives || same_buckets(a->lives, b->lives, a->life_bucket_count));
}

static bool same_totals(const struct trace_slice *a, const struct trace_slice *b)
{
	return a->live_bytes == b->live_bytes && a->live_blocks == b->live_blocks &&
	       a->min_live_bytes == b->min_live_bytes && a->max_live_bytes == b->max_live_bytes &&
	       a->max_live_time_ns == b->max_live_time_ns && a->births == b->births &&
	       a->birth_bytes == b->birth_bytes && a->deaths == b->deaths &&
	       a->death_bytes == b->death_bytes && a->temporary == b->temporary &&
	       a->peak_bytes == b->peak_bytes && a->peak_blocks == b->peak_blocks &&
	       a->peak_time_ns == b->peak_time_ns && a->freed_unseen == b->freed_unseen &&
	       a->freed_older == b->freed_older && a->row_count == b->row_count;
}

static int compare(struct verify *v, const struct trace_slice *stored,
		   const struct trace_slice *counted)
{
	if (!same_totals(stored, counted))
		return TELL(v, UINT64_MAX,
			    "slice %u does not say what its events say: it has %" PRIu64
			    " births and %" PRIu64 " bytes live, they have %" PRIu64
			    " and %" PRIu64,
			    stored->slice_id, stored->births, stored->live_bytes, counted->births,
			    counted->live_bytes);
	for (uint32_t i = 0; i < stored->row_count; i++)
		if (!same_row(&stored->rows[i], &counted->rows[i], !v->no_lives))
			return TELL(v, UINT64_MAX,
				    "slice %u does not say what its events say of stack %u",
				    stored->slice_id, stored->rows[i].stack_id);
	return 0;
}

/* The curve repeats the slices without their rows. */
static int check_curve(struct verify *v, const struct trace_slice *slice)
{
	if (slice->slice_id >= v->curve_count)
		return 0;
	struct trace_slice point = v->curve[slice->slice_id];
	point.row_count = slice->row_count;
	if (same_totals(slice, &point) && point.first_event == slice->first_event &&
	    point.event_count == slice->event_count && point.end_ns == slice->end_ns)
		return 0;
	return TELL(v, UINT64_MAX, "the curve does not say what slice %u says", slice->slice_id);
}

static int check_slice(void *ctx, const struct trace_slice *slice)
{
	struct verify *v = ctx;
	uint64_t end = slice->first_event + slice->event_count;
	int rc = check_curve(v, slice);
	if (rc)
		return rc;
	if (slice->first_event != v->m->events && !v->gap)
		rc = TELL(v, UINT64_MAX, "slice %u begins at event %" PRIu64 ", not at %" PRIu64,
			  slice->slice_id, slice->first_event, v->m->events);
	if (rc == 0 && !v->gap)
		rc = replay(v, end);
	if (rc)
		return rc;
	if (v->gap || v->m->events != end) {
		v->gap = true;
		v->done.slices_unproved++;
		return 0;
	}
	struct trace_slice counted;
	rc = model_slice_take(v->m, &counted, v->err);
	v->done.slices++;
	return rc ? rc : compare(v, slice, &counted);
}

/* Sums over all slices are what the model has now. */
static int check_sums(struct verify *v)
{
	struct trace_sum *sums = NULL;
	size_t count = 0, slices = trace_reader_slice_count(v->r);
	if (v->gap || !slices)
		return 0;
	int rc = trace_reader_sums(v->r, slices, &sums, &count, v->err);
	if (rc == -EBADMSG)
		rc = TELL(v, UINT64_MAX, "its sums over slices cannot be read");
	for (size_t i = 0; i < count && rc == 0; i++) {
		struct model_stack stack = {0};
		const struct trace_sum *sum = &sums[i];
		if (model_stack_find(v->m, sum->stack_id, &stack) ||
		    stack.allocations != sum->births || stack.allocated_bytes != sum->birth_bytes ||
		    stack.frees != sum->deaths || stack.freed_bytes != sum->death_bytes ||
		    stack.temporary != sum->temporary || stack.failed != sum->failed ||
		    stack.peak_bytes != sum->peak_bytes || stack.peak_blocks != sum->peak_count) {
			rc = TELL(v, UINT64_MAX, "the sums over slices are not true of stack %u",
				  sum->stack_id);
			break;
		}
	}
	tm_free(sums);
	return rc;
}

static int check_slices(struct verify *v)
{
	if (trace_reader_curve(v->r, &v->curve, &v->curve_count, v->err))
		v->curve_count = 0; /* the slices themselves say what is wrong */
	int rc = trace_reader_slices(v->r, check_slice, v, v->err);
	if (rc != -EBADMSG)
		return rc;
	return TELL(v, UINT64_MAX, "its aggregates cannot be read after slice %" PRIu64,
		    v->done.slices + v->done.slices_unproved);
}

static int run(struct verify *v)
{
	const struct trace_meta *meta;
	const struct trace_end *end;
	int rc = trace_reader_end(v->r, &end, v->err);
	if (rc == 0)
		rc = trace_reader_meta(v->r, &meta, v->err);
	if (rc == -EBADMSG || rc == -ENODATA)
		return 0; /* told by trace_verify(); without it nothing has a meaning */
	if (rc == 0)
		rc = model_new(&(struct model_options){.page_bytes = meta->page_bytes}, &v->m,
			       v->err);
	if (rc)
		return rc;
	v->m->by_block = true;
	v->not_stored = end->events_not_stored;
	v->no_lives = meta->unknown & TRACE_UNKNOWN_LIFETIMES;
	/* There is nothing to prove slices by, or not all of it. */
	v->gap = meta->unknown & TRACE_UNKNOWN_EVENTS || end->culled_events;
	cursor_init(&v->cursor, v->r);
	v->all_events = cursor_all(&v->cursor);
	rc = check_slices(v);
	if (rc == 0)
		rc = check_sums(v);
	v->no_slices = true;
	return rc ? rc : replay(v, UINT64_MAX);
}

int model_verify(struct trace_reader *r, size_t section, const struct trace_check *check,
		 struct model_verified *ret, struct tm_error *err)
{
	struct verify v = {.r = r, .section = section, .check = check, .err = err};
	int rc = trace_reader_select(r, section, err);
	if (rc == 0)
		rc = run(&v);
	model_free(v.m);
	cursor_done(&v.cursor);
	tm_free(v.ends);
	tm_free(v.curve);
	if (rc == 0)
		*ret = v.done;
	return rc;
}
