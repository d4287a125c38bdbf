/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/sampled.h"

#include <errno.h>

#include "base/memory.h"
#include "model/model.h"

void sampled_done(struct sampled *sampled)
{
	sampled->threads = tm_free(sampled->threads);
	sampled->thread_room = 0;
}

static struct sampled_thread *thread_of(struct sampled *sampled, uint32_t thread_id)
{
	if (thread_id >= sampled->thread_room) {
		uint32_t room = sampled->thread_room ? sampled->thread_room : 64;
		while (room <= thread_id)
			room *= 2;
		struct sampled_thread *grown = tm_grow_array(sampled->threads, room, sizeof *grown);
		if (!grown)
			return NULL;
		for (uint32_t i = sampled->thread_room; i < room; i++)
			grown[i] = (struct sampled_thread){0};
		sampled->threads = grown;
		sampled->thread_room = room;
	}
	return &sampled->threads[thread_id];
}

/* A realloc has succeeded: its old block is gone for good. A failed one leaves it in the filter. */
static void settle(struct sampled_thread *thread, const struct wire_map *map,
		   const struct trace_event *event)
{
	if (thread->address && event->op != TRACE_REALLOC_UNDO)
		wire_filter_drop(map->filter, thread->address);
	thread->address = 0;
}

/* False: the event is none of ours. What follows a begin that was left out stands by itself. */
static bool is_ours(struct sampled *sampled, struct sampled_thread *thread,
		    const struct model *model, struct trace_event *event, bool outside)
{
	bool unknown = thread->unknown;
	switch ((enum trace_op)event->op) {
	case TRACE_FREE:
	case TRACE_REALLOC_FREE:
		if (model_is_live(model, event->address))
			return true;
		thread->unknown = event->op == TRACE_REALLOC_FREE;
		sampled->left_out++;
		sampled->strangers += !outside;
		return false;
	case TRACE_REALLOC_ALLOC:
	case TRACE_REALLOC_UNDO:
		thread->unknown = false;
		if (unknown)
			event->op =
				event->op == TRACE_REALLOC_ALLOC ? TRACE_ALLOC : TRACE_ALLOC_FAIL;
		return true;
	case TRACE_ALLOC:
	case TRACE_ALLOC_FAIL:
	case TRACE_FREE_UNSEEN:
	case TRACE_FREE_OLDER:
	case TRACE_OP_COUNT:
		break;
	}
	return true;
}

int sampled_apply(struct sampled *sampled, struct model *model, const struct wire_map *map,
		  struct trace_event *events, size_t count, size_t *ret_count, struct tm_error *err)
{
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		struct trace_event event = events[i];
		struct sampled_thread *thread = thread_of(sampled, event.thread_id);
		if (!thread)
			return tm_fail(err, -ENOMEM, "out of memory for the recording");
		bool outside = event.flags & TRACE_EVENT_OUTSIDE;
		bool goes_on = thread->unknown &&
			       (event.op == TRACE_REALLOC_ALLOC || event.op == TRACE_REALLOC_UNDO);
		event.flags &= (uint8_t)~TRACE_EVENT_OUTSIDE;
		if (!goes_on)
			settle(thread, map, &event);
		if (!is_ours(sampled, thread, model, &event, outside))
			continue;
		int error = model_apply(model, &event, 1, err);
		if (error)
			return error;
		if (outside && event.op == TRACE_FREE)
			wire_filter_drop(map->filter, event.address);
		else if (outside && event.op == TRACE_REALLOC_FREE)
			thread->address = event.address;
		events[kept++] = event;
	}
	*ret_count = kept;
	return 0;
}

struct filling {
	struct wire_filter *filter;
	bool all;
};

static int add_block(void *ctx, const struct model_block *block)
{
	const struct filling *filling = ctx;
	if (filling->all || !trace_word_sampled(block->size_bytes))
		wire_filter_add(filling->filter, block->address);
	return 0;
}

int sampled_fill(struct model *model, const struct wire_map *map, bool all)
{
	struct filling filling = {.filter = map->filter, .all = all};
	return model_live_blocks(model, add_block, &filling);
}
