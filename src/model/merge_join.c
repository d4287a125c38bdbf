/* SPDX-License-Identifier: Apache-2.0 */
#include "model/merge_join.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"

enum { MARK_PENDING = 1 };

void merge_stream_init(struct merge_stream *s, size_t number, size_t part)
{
	*s = (struct merge_stream){.number = number, .part = part};
	blockmap_init(&s->live);
}

void merge_stream_done(struct merge_stream *s)
{
	cursor_done(&s->cursor);
	blockmap_done(&s->live);
	s->pending = tm_free(s->pending);
	s->pending_room = 0;
}

/* ---- following blocks ---- */

static int reserve_pending(struct merge_stream *s, uint32_t thread)
{
	if (thread < s->pending_room)
		return 0;
	size_t room = (size_t)thread * 2 + 64;
	uint64_t *grown = tm_grow_array(s->pending, room, sizeof *grown);
	if (!grown)
		return -ENOMEM;
	memset(grown + s->pending_room, 0, (room - s->pending_room) * sizeof *grown);
	s->pending = grown;
	s->pending_room = room;
	return 0;
}

static int birth(struct merge_stream *s, struct trace_event *event, uint64_t *next_id)
{
	const struct blockmap_entry entry = {
		.old_id = event->block_id,
		.new_id = *next_id,
		.size_bytes = event->size_bytes,
		.stack_id = event->stack_id,
	};
	event->block_id = (*next_id)++;
	return blockmap_add(&s->live, &entry);
}

/* Its block, if it lives; of one that was never seen nothing is known in the merged trace, too. */
static uint64_t end_block(struct merge_stream *s, uint64_t old_id)
{
	const struct blockmap_entry *entry = blockmap_find(&s->live, old_id);
	if (!entry)
		return TRACE_NO_BLOCK;
	uint64_t new_id = entry->new_id;
	blockmap_remove(&s->live, old_id);
	return new_id;
}

static int begin_realloc(struct merge_stream *s, struct trace_event *event, uint32_t thread)
{
	if (reserve_pending(s, thread))
		return -ENOMEM;
	/* One that this thread began before and never ended cannot come back any more. */
	if (s->pending[thread])
		blockmap_remove(&s->live, s->pending[thread] - 1);
	struct blockmap_entry *entry = blockmap_find(&s->live, event->block_id);
	s->pending[thread] = entry ? event->block_id + 1 : 0;
	event->block_id = entry ? entry->new_id : TRACE_NO_BLOCK;
	if (entry)
		entry->mark = MARK_PENDING;
	return 0;
}

static void end_realloc(struct merge_stream *s, uint32_t thread, bool undone)
{
	if (thread >= s->pending_room || !s->pending[thread])
		return;
	uint64_t old_id = s->pending[thread] - 1;
	s->pending[thread] = 0;
	struct blockmap_entry *entry = blockmap_find(&s->live, old_id);
	if (entry && undone)
		entry->mark = 0;
	else
		blockmap_remove(&s->live, old_id);
}

int merge_stream_follow(struct merge_stream *s, struct trace_event *event, uint32_t old_thread,
			uint64_t *next_id)
{
	switch ((enum trace_op)event->op) {
	case TRACE_REALLOC_ALLOC:
		end_realloc(s, old_thread, false);
		return birth(s, event, next_id);
	case TRACE_ALLOC:
		return birth(s, event, next_id);
	case TRACE_REALLOC_FREE:
		return begin_realloc(s, event, old_thread);
	case TRACE_REALLOC_UNDO:
		end_realloc(s, old_thread, true);
		event->block_id = TRACE_NO_BLOCK;
		return 0;
	case TRACE_FREE:
	case TRACE_FREE_UNSEEN:
	case TRACE_FREE_OLDER:
		event->block_id = end_block(s, event->block_id);
		return 0;
	case TRACE_ALLOC_FAIL:
	case TRACE_OP_COUNT:
		break;
	}
	return 0;
}

/* ---- borders ---- */

static int does_not_fit(const struct merge_border *border, const char *why)
{
	const struct merge_plan *plan = border->names->plan;
	const struct trace_meta *meta = plan->parts[border->stream->part].meta;
	return tm_fail(
		border->err, -ENODATA,
		"piece %u of process %u does not begin as piece %u ends (%s): one of them is "
		"damaged or not whole; merge what fits, and look at the rest apart",
		meta->piece, meta->pid, meta->piece - 1, why);
}

int merge_border_open(struct merge_border *border)
{
	struct merge_stream *s = border->stream;
	size_t count = s->live.count, live = 0;
	struct blockmap_entry *sorted = blockmap_sorted(&s->live);
	border->before = tm_alloc_array(count + 1, sizeof *border->before);
	blockmap_init(&border->after);
	if (!sorted || !border->before) {
		tm_free(sorted);
		return tm_fail(border->err, -ENOMEM, "no memory to merge the traces");
	}
	for (size_t i = 0; i < count; i++)
		live += sorted[i].mark != MARK_PENDING;
	border->live_count = live;
	border->pending_count = count - live;
	size_t next[2] = {0, live};
	for (size_t i = 0; i < count; i++)
		border->before[next[sorted[i].mark == MARK_PENDING]++] = sorted[i];
	tm_free(sorted);
	if (s->pending_room)
		memset(s->pending, 0, s->pending_room * sizeof *s->pending);
	return 0;
}

/* The birth that was held is one of the blocks that lived; with `pending`, were being moved. */
static int match(struct merge_border *border, bool pending)
{
	if (!border->holds)
		return 0;
	border->holds = false;
	size_t *next = pending ? &border->next_pending : &border->next_live;
	size_t end = pending ? border->pending_count : border->live_count;
	if (*next >= end)
		return does_not_fit(border, "it has more blocks");
	const struct blockmap_entry *before =
		&border->before[(pending ? border->live_count : 0) + (*next)++];
	if (before->size_bytes != border->held.size_bytes ||
	    before->stack_id != border->held.stack_id)
		return does_not_fit(border, "a block has another size or stack");
	border->held.new_id = before->new_id;
	border->held.mark = pending ? MARK_PENDING : 0;
	return blockmap_add(&border->after, &border->held)
		       ? tm_fail(border->err, -ENOMEM, "no memory to merge the traces")
		       : 0;
}

int merge_border_event(struct merge_border *border, const struct trace_event *event)
{
	struct merge_stream *s = border->stream;
	if (event->op == TRACE_REALLOC_FREE) {
		uint64_t old_id = event->block_id;
		if (!border->holds || border->held.old_id != old_id)
			return does_not_fit(border, "a realloc ends what did not begin");
		int rc = match(border, true);
		if (!rc && reserve_pending(s, event->thread_id))
			rc = tm_fail(border->err, -ENOMEM, "no memory to merge the traces");
		if (!rc)
			s->pending[event->thread_id] = old_id + 1;
		return rc;
	}
	int rc = match(border, false);
	if (rc || event->op != TRACE_ALLOC)
		return rc;
	uint32_t stack_id = event->stack_id;
	rc = merge_names_stack(border->names, s->part, &stack_id);
	if (rc)
		return tm_fail(border->err, rc, "a block of piece %u has a stack that is not there",
			       border->names->plan->parts[s->part].meta->piece);
	border->held = (struct blockmap_entry){
		.old_id = event->block_id, .size_bytes = event->size_bytes, .stack_id = stack_id};
	border->holds = true;
	return 0;
}

int merge_border_close(struct merge_border *border, uint64_t *joined)
{
	int rc = match(border, false);
	if (rc)
		return rc;
	if (border->next_live < border->live_count || border->next_pending < border->pending_count)
		return does_not_fit(border, "it has fewer blocks");
	*joined += border->next_live + border->next_pending;
	struct blockmap old = border->stream->live;
	border->stream->live = border->after;
	border->after = old;
	return 0;
}

void merge_border_done(struct merge_border *border)
{
	border->before = tm_free(border->before);
	blockmap_done(&border->after);
}
