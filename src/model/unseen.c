/* SPDX-License-Identifier: Apache-2.0 */
#include "model/unseen.h"

#include <errno.h>

#include "base/memory.h"
#include "model/state.h"

int unseen_reserve(struct unseen *unseen)
{
	if (!unseen->wanted || unseen->count < unseen->room)
		return 0;
	size_t room = unseen->room * 2 + 16;
	struct model_unseen *grown = tm_grow_array(unseen->ends, room, sizeof *grown);
	if (!grown)
		return -ENOMEM;
	unseen->ends = grown;
	unseen->room = room;
	return 0;
}

void unseen_done(struct unseen *unseen)
{
	unseen->ends = tm_free(unseen->ends);
	unseen->count = unseen->room = 0;
}

size_t model_take_unseen(struct model *m, const struct model_unseen **ret_ends)
{
	size_t count = m->unseen.count;
	*ret_ends = m->unseen.ends;
	m->unseen.count = 0;
	return count;
}

uint64_t model_next_event(const struct model *m)
{
	return m->events;
}

int model_weave_unseen(struct model *m, const struct trace_event *events, size_t count,
		       model_stored_fn fn, void *ctx, uint64_t *ret_count)
{
	const struct model_unseen *unseen;
	size_t unseen_count = model_take_unseen(m, &unseen), done = 0;
	uint64_t first = model_next_event(m) - count - unseen_count;
	int rc = 0;
	for (size_t i = 0; i < unseen_count && !rc; i++) {
		size_t before = (size_t)(unseen[i].ordinal - first) - i;
		if (before > done)
			rc = fn(ctx, events + done, before - done);
		if (!rc)
			rc = fn(ctx, &unseen[i].event, 1);
		done = before;
	}
	*ret_count = count + unseen_count;
	return rc || done == count ? rc : fn(ctx, events + done, count - done);
}
