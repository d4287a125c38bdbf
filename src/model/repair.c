/* SPDX-License-Identifier: Apache-2.0 */
#include "model/repair.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/version.h"
#include "model/copy.h"
#include "model/cursor.h"

/* Allocations of a damaged block: their ids are in the old numbers and have no new ones. */
struct gap {
	uint64_t first, end; /* old block ids */
	uint64_t lost;       /* in it and in those before */
};

struct work {
	struct trace_reader *r;
	struct trace_writer *w;
	const struct repair_options *options;
	struct tm_error *err;
	struct copy copy;
	const struct trace_end *end;
	/* The old slices. */
	uint64_t *cuts; /* event at which each ends */
	size_t cut_count, cut_room;
	uint64_t live_bytes, live_blocks;
	uint64_t culled_events; /* that they count */
	bool slices_sound;
	bool culled; /* blocks are missing between others, as --cull leaves them out */
	/* What the first pass found. */
	uint64_t readable, promised, all;
	uint64_t missing_before; /* the last block of events that can be read */
	uint32_t stack_end;
	struct gap *gaps;
	size_t gap_count, gap_room;
	struct repair_result done;
};

static int no_memory(const struct work *k)
{
	return tm_fail(k->err, -ENOMEM, "no memory to repair the trace");
}

static int tell_progress(const struct work *k, uint64_t done)
{
	return k->options->progress ? k->options->progress(k->options->ctx, done, 2 * k->all) : 0;
}

/* ---- the old slices ---- */

static int add_cut(struct work *k, uint64_t event)
{
	if (k->cut_count == k->cut_room) {
		size_t room = k->cut_room * 2 + 64;
		void *grown = tm_grow_array(k->cuts, room, sizeof *k->cuts);
		if (!grown)
			return no_memory(k);
		k->cuts = grown;
		k->cut_room = room;
	}
	k->cuts[k->cut_count++] = event;
	return 0;
}

static int check_slice(void *ctx, const struct trace_slice *slice)
{
	struct work *k = ctx;
	uint64_t begin = k->cut_count ? k->cuts[k->cut_count - 1] : 0;
	k->culled_events = slice->culled_events;
	k->culled |= slice->culled_events > 0;
	for (uint32_t i = 0; i < slice->row_count; i++) {
		const struct trace_slice_row *row = &slice->rows[i];
		k->live_blocks += row->births;
		k->live_bytes += row->birth_bytes;
		for (uint32_t d = 0; d < row->death_count; d++) {
			k->live_blocks -= row->deaths[d].count;
			k->live_bytes -= row->deaths[d].bytes;
		}
	}
	if (slice->slice_id != k->cut_count || slice->first_event != begin ||
	    slice->live_bytes != k->live_bytes || slice->live_blocks != k->live_blocks ||
	    slice->event_count > UINT64_MAX - begin)
		return -EBADMSG;
	return add_cut(k, begin + slice->event_count);
}

static int look_at_slices(struct work *k)
{
	int rc = trace_reader_slices(k->r, check_slice, k, k->err);
	k->slices_sound = rc == 0;
	if (rc == -EBADMSG)
		k->cut_count = 0;
	return rc == -EBADMSG ? 0 : rc;
}

/* ---- first pass: what can be read ---- */

static int add_gap(struct work *k, uint64_t first, uint64_t end)
{
	if (k->gap_count == k->gap_room) {
		size_t room = k->gap_room * 2 + 16;
		void *grown = tm_grow_array(k->gaps, room, sizeof *k->gaps);
		if (!grown)
			return no_memory(k);
		k->gaps = grown;
		k->gap_room = room;
	}
	uint64_t lost = k->gap_count ? k->gaps[k->gap_count - 1].lost : 0;
	k->gaps[k->gap_count++] = (struct gap){first, end, lost + (end - first)};
	return 0;
}

static bool is_birth(const struct trace_event *event)
{
	return event->op == TRACE_ALLOC || event->op == TRACE_REALLOC_ALLOC;
}

/* The number after the last block that begins here, and the stacks that are used. */
static uint64_t look_at_block(const struct cursor *cursor, uint32_t *stack_end)
{
	uint64_t next = cursor->block.first_block_id;
	for (uint64_t i = 0; i < cursor->block.event_count; i++) {
		const struct trace_event *event = &cursor->events[i];
		if (is_birth(event))
			next = event->block_id + 1;
		if (event->stack_id >= *stack_end)
			*stack_end = event->stack_id + 1;
		if (event->free_stack_id >= *stack_end)
			*stack_end = event->free_stack_id + 1;
	}
	return next;
}

/*
 * Numbers that were left out between the blocks that begin here. There are nearly as many of them
 * as blocks: they are kept only if the events will get new numbers.
 */
static int add_culled(struct work *k, const struct cursor *cursor)
{
	bool kept = k->slices_sound && k->cut_count;
	uint64_t next = cursor->block.first_block_id;
	int rc = 0;
	for (uint64_t i = 0; i < cursor->block.event_count && !rc; i++) {
		if (!is_birth(&cursor->events[i]))
			continue;
		if (cursor->events[i].block_id > next) {
			k->culled = true;
			if (!kept)
				rc = add_gap(k, next, cursor->events[i].block_id);
		}
		next = cursor->events[i].block_id + 1;
	}
	return rc;
}

/* A block that cannot follow what is before it is as good as damaged. */
static bool follows(const struct cursor *cursor, uint64_t event, uint64_t block_id)
{
	return !cursor->damaged && cursor->block.first_event >= event &&
	       cursor->block.first_block_id >= block_id;
}

static int look_at_events(struct work *k)
{
	struct cursor cursor;
	uint64_t event = 0, block_id = 0, seen = 0;
	cursor_init(&cursor, k->r);
	k->all = cursor_all(&cursor);
	int rc;
	while ((rc = cursor_next(&cursor, k->err)) > 0) {
		uint64_t end = cursor.block.first_event + cursor.block.event_count;
		seen += cursor.block.event_count;
		k->promised = end > k->promised ? end : k->promised;
		rc = tell_progress(k, seen);
		if (rc)
			break;
		if (!follows(&cursor, event, block_id))
			continue;
		if (cursor.block.first_block_id > block_id)
			rc = add_gap(k, block_id, cursor.block.first_block_id);
		if (!rc)
			rc = add_culled(k, &cursor);
		if (rc)
			break;
		event = end;
		block_id = look_at_block(&cursor, &k->stack_end);
		k->readable += cursor.block.event_count;
		k->missing_before = end - k->readable;
	}
	cursor_done(&cursor);
	if (k->cut_count && k->cuts[k->cut_count - 1] > k->promised)
		k->promised = k->cuts[k->cut_count - 1];
	return rc < 0 ? rc : 0;
}

/* ---- tables ---- */

static int write_stacks(struct work *k)
{
	struct copy *copy = &k->copy;
	int rc = 0;
	size_t end = copy->stack_count > k->stack_end ? copy->stack_count : k->stack_end;
	for (size_t id = 1; id < end && !rc; id++) {
		struct trace_stack stack = copy_stack(copy, id);
		rc = trace_writer_stacks(k->w, &stack, 1);
	}
	copy->stack_count = end;
	return rc;
}

static int write_begin(struct work *k, uint64_t *ret_page_bytes)
{
	static const struct trace_meta unknown = {
		.tool_version = TIDEMARK_VERSION, .mode = "exact", .source = "repair"};
	const struct trace_meta *meta = &unknown;
	int rc = trace_reader_meta(k->r, &meta, k->err);
	k->done.no_meta = rc == -ENODATA || rc == -EBADMSG;
	if (k->done.no_meta) {
		meta = &unknown;
		rc = 0;
	}
	if (rc)
		return rc;
	struct trace_meta changed = *meta;
	if (k->culled && !k->done.kept_slices)
		changed.cull_ns = 0; /* with the figures of those blocks it is a loss */
	else if (k->culled && !meta->cull_ns)
		changed.cull_ns = 1; /* how long they lived at most is not known */
	*ret_page_bytes = meta->page_bytes;
	return trace_writer_begin(k->w, &changed);
}

static int write_end(struct work *k)
{
	struct trace_end end = *k->end;
	char note[sizeof end.note];
	uint64_t missing = k->promised - k->readable, never = end.events_not_stored;
	k->done.no_end = end.cause == TRACE_END_UNKNOWN || end.cause == TRACE_END_COLLECTOR_LOST;
	if (k->copy.last_ns > end.duration_ns)
		end.duration_ns = k->copy.last_ns;
	/* Those after the last slice are lost; those before it are in the figures. */
	uint64_t covered = k->done.kept_slices ? k->cuts[k->cut_count - 1] : 0;
	end.events_not_stored = missing < covered ? missing : covered;
	/* Kept events have their old numbers: what is not there before them is not stored. */
	if (k->done.kept_slices && end.events_not_stored < k->missing_before)
		end.events_not_stored = k->missing_before;
	if (!k->done.kept_slices) {
		/* Only the old figures had these. Some lie between the events that are there. */
		uint64_t inner = end.folded_events + end.culled_events;
		missing = (missing > inner ? missing : inner) + (never > inner ? never - inner : 0);
		end.folded_events = end.exact_since_ns = end.culled_events = 0;
	} else if (end.culled_events > k->culled_events) {
		end.culled_events = k->culled_events;
	}
	end.lost_events += missing - end.events_not_stored;
	k->done.not_stored = end.events_not_stored;
	k->done.unread = missing > never ? missing - never : 0;
	snprintf(note, sizeof note, "%.90s%sRepaired: %llu events could not be read%s.", end.note,
		 end.note[0] ? " " : "", (unsigned long long)k->done.unread,
		 k->done.kept_slices ? "; the figures still have them" : "");
	if (k->done.unread)
		memcpy(end.note, note, sizeof note);
	int rc = trace_writer_symbols(k->w, k->copy.symbols, k->copy.symbol_count);
	if (!rc)
		rc = trace_writer_sources(k->w, k->copy.sources, k->copy.source_count);
	return rc ? rc : trace_writer_end(k->w, &end);
}

/* ---- second pass: events and new slices ---- */

/* The new number of an old block; false if its birth is lost. */
static bool new_id(const struct work *k, uint64_t old_id, uint64_t *ret_id)
{
	size_t low = 0, high = k->gap_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (k->gaps[middle].first > old_id)
			high = middle;
		else
			low = middle + 1;
	}
	if (low && old_id < k->gaps[low - 1].end)
		return false;
	*ret_id = old_id - (low ? k->gaps[low - 1].lost : 0);
	return true;
}

static void renumber(struct work *k, struct trace_event *events, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		struct trace_event *event = &events[i];
		if (event->time_ns < k->copy.last_ns)
			event->time_ns = k->copy.last_ns;
		k->copy.last_ns = event->time_ns;
		if (is_birth(event)) {
			event->block_id = k->copy.births++;
		} else if (event->block_id != TRACE_NO_BLOCK &&
			   !new_id(k, event->block_id, &event->block_id)) {
			event->block_id = TRACE_NO_BLOCK;
			k->done.ends_lost++;
		}
	}
}

static int copy_block(struct work *k, struct cursor *cursor)
{
	enum { BATCH = 4096 };
	renumber(k, cursor->events, cursor->block.event_count);
	int rc = 0;
	for (uint64_t at = 0; at < cursor->block.event_count && !rc; at += BATCH) {
		uint64_t left = cursor->block.event_count - at;
		size_t count = left < BATCH ? (size_t)left : BATCH;
		rc = copy_others(&k->copy, cursor->events[at + count - 1].time_ns);
		if (!rc)
			rc = copy_events(&k->copy, cursor->events + at, count);
	}
	return rc;
}

/* Old slices stay: events keep their ordinals, and what is missing is skipped. */
static int keep_block(struct work *k, struct cursor *cursor)
{
	const struct trace_event_block *block = &cursor->block;
	int rc = trace_writer_skip(k->w, block->first_event, block->first_block_id);
	if (!rc)
		rc = trace_writer_events(k->w, cursor->events, block->event_count);
	if (block->event_count)
		k->copy.last_ns = cursor->events[block->event_count - 1].time_ns;
	return rc ? tm_fail(k->err, rc, "the new trace cannot be written") : 0;
}

static int second_pass(struct work *k)
{
	struct cursor cursor;
	uint64_t event = 0, block_id = 0, seen = 0;
	uint32_t stack_end = 0;
	cursor_init(&cursor, k->r);
	int rc;
	while ((rc = cursor_next(&cursor, k->err)) > 0) {
		seen += cursor.block.event_count;
		rc = tell_progress(k, k->all + seen);
		if (!rc && follows(&cursor, event, block_id)) {
			event = cursor.block.first_event + cursor.block.event_count;
			block_id = look_at_block(&cursor, &stack_end);
			k->done.events += cursor.block.event_count;
			rc = k->done.kept_slices ? keep_block(k, &cursor) : copy_block(k, &cursor);
		}
		if (rc)
			break;
	}
	cursor_done(&cursor);
	return rc;
}

static int keep_slice(void *ctx, const struct trace_slice *slice)
{
	struct work *k = ctx;
	int rc = trace_writer_slice(k->w, slice);
	return rc ? tm_fail(k->err, rc, "the new trace cannot be written") : 0;
}

static int write_content(struct work *k)
{
	if (k->slices_sound && k->promised == k->readable) {
		k->copy.cuts = k->cuts;
		k->copy.cut_count = k->cut_count;
	}
	int rc = copy_names(&k->copy);
	if (!rc)
		rc = write_stacks(k);
	if (!rc)
		rc = second_pass(k);
	if (!rc)
		rc = copy_others(&k->copy, UINT64_MAX);
	if (!rc && k->done.kept_slices)
		rc = trace_reader_slices(k->r, keep_slice, k, k->err);
	else if (!rc)
		rc = copy_finish(&k->copy);
	return rc ? rc : write_end(k);
}

int repair_section(struct trace_reader *r, struct trace_writer *w,
		   const struct repair_options *options, struct repair_result *ret,
		   struct tm_error *err)
{
	struct work k = {.r = r, .w = w, .options = options, .err = err};
	uint64_t page_bytes = 0;
	int rc = trace_reader_end(r, &k.end, err);
	if (!rc)
		rc = look_at_slices(&k);
	if (!rc)
		rc = look_at_events(&k);
	k.culled |= !rc && k.end->culled_events;
	k.done.kept_slices = (k.promised > k.readable || k.culled) && k.slices_sound && k.cut_count;
	/* Without a model it is not known what the ends of older blocks refer to. */
	trace_writer_lean(w, k.done.kept_slices);
	if (!rc)
		rc = write_begin(&k, &page_bytes);
	if (!rc)
		rc = copy_init(&k.copy, r, w, page_bytes, err);
	if (!rc)
		rc = write_content(&k);
	copy_done(&k.copy);
	tm_free(k.cuts);
	tm_free(k.gaps);
	if (!rc)
		*ret = k.done;
	else if (!err->text[0])
		tm_fail(err, rc, "the new trace cannot be written: %s", strerror(-rc));
	return rc;
}
