/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "model/state.h"

static int describe(struct model *m, const struct trace_event *birth, struct live_block *ret_block)
{
	uint32_t slot;
	if (stacks_make_slot(&m->stacks, birth->stack_id, &slot))
		return -ENOMEM;
	uint64_t birth_us = birth->time_ns / 1000;
	*ret_block = (struct live_block){
		.slot = slot,
		.size_bytes = birth->size_bytes & LIVE_48_BITS,
		.thread_low = birth->thread_id & 0xffff,
		.thread_high = birth->thread_id >> 16,
		.birth_us = birth_us < m->now_us ? birth_us : m->now_us,
		.other = birth->address & LIVE_48_BITS,
		.birth_slice = (m->slice.slice_id - 1) & 0xffff, /* any but the open one */
	};
	return 0;
}

int model_adopt(struct model *m, const struct trace_event *birth)
{
	uint64_t mixed = live_mix(&m->live, birth->block_id);
	struct live_block adopted;
	if (describe(m, birth, &adopted) || live_reserve_blocks(&m->live, MODEL_GROUP) ||
	    live_split_page(&m->live, mixed))
		return -ENOMEM;
	struct live_place place = live_find(&m->live, mixed);
	if (place.slot)
		return 0;
	struct live_block *block = live_add(&m->live, &place, mixed);
	adopted.low = block->low;
	*block = adopted;
	return 0;
}

int model_adopt_pending(struct model *m, const struct trace_event *birth, uint32_t thread_id)
{
	struct live_block adopted;
	if (describe(m, birth, &adopted) || threads_reserve(&m->threads, thread_id) ||
	    threads_reserve_pending(&m->threads, thread_id))
		return -ENOMEM;
	*threads_at(&m->threads, thread_id)->pending = (struct thread_pending){
		.valid = true,
		.key = birth->block_id,
		.block = adopted,
		.death_us = m->now_us,
	};
	return 0;
}
