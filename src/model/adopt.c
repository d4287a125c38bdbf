/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "model/state.h"

static int describe(struct model *m, const struct trace_event *birth, struct live_block *ret_block)
{
	uint32_t slot;
	if (stacks_make_slot(&m->stacks, birth->stack_id, &slot))
		return -ENOMEM;
	uint64_t birth_us = birth->time_ns / 1000;
	struct live_facts facts = {
		.slot = slot,
		.thread_id = birth->thread_id,
		.birth_slice = (m->slice.slice_id - 1) & 0xffff, /* any but the open one */
		.size_bytes = birth->size_bytes & LIVE_48_BITS,
		.birth_us = birth_us < m->now_us ? birth_us : m->now_us,
		.other = birth->address,
	};
	live_describe(ret_block, &facts);
	return 0;
}

int model_adopt(struct model *m, const struct trace_event *birth)
{
	uint64_t mixed = live_mix(&m->live, birth->block_id);
	struct live_block adopted;
	if (describe(m, birth, &adopted) || live_reserve_blocks(&m->live, MODEL_GROUP) ||
	    live_split_page(&m->live, mixed))
		return -ENOMEM;
	struct live_page *page = live_page_of(&m->live, mixed);
	struct young *young = young_at(&m->young, birth->block_id);
	if (young_holds(young, birth->block_id) || live_find(&m->live, page, mixed).block)
		return 0;
	struct live_block *block = live_add(&m->live, page, mixed);
	young_add_older(young);
	adopted.low = block->low;
	*block = adopted;
	m->unlisted--;
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
