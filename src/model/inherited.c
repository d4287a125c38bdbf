/* SPDX-License-Identifier: Apache-2.0 */
#include "model/inherited.h"

#include <errno.h>
#include <stdlib.h>

#include "base/memory.h"
#include "model/state.h"

static struct inherited_block *add(struct inherited *set)
{
	if (set->count == set->room) {
		size_t room = set->room * 2 + 1024;
		void *grown = tm_grow_array(set->blocks, room, sizeof *set->blocks);
		if (!grown)
			return NULL;
		set->blocks = grown;
		set->room = room;
	}
	return &set->blocks[set->count++];
}

static int add_live(void *ctx, const struct model_block *live)
{
	struct inherited *set = ctx;
	struct inherited_block *block = add(set);
	if (!block)
		return -ENOMEM;
	*block = (struct inherited_block){
		.old_id = live->block_id,
		.address = live->address,
		.size_bytes = live->size_bytes,
		.stack_id = live->stack_id,
		.thread_id = live->thread_id,
	};
	set->bytes += trace_weigh(live->size_bytes, live->block_id).bytes;
	return 0;
}

static int add_pending(struct inherited *set, const struct model *m, uint32_t thread_id)
{
	if (!threads_has(&m->threads, thread_id))
		return 0;
	const struct thread_pending *pending = threads_at(&m->threads, thread_id)->pending;
	if (!pending || !pending->valid)
		return 0;
	struct inherited_block *block = add(set);
	if (!block)
		return -ENOMEM;
	*block = (struct inherited_block){
		.old_id = m->by_block ? pending->key : live_other(&pending->block),
		.address = m->by_block ? live_other(&pending->block) : pending->key,
		.size_bytes = live_size_bytes(&pending->block),
		.stack_id = stacks_hot(&m->stacks, pending->block.slot)->stack_id,
		.thread_id = live_thread_id(&pending->block),
		.realloc_thread = thread_id,
		.pending = true,
	};
	set->pending_count++;
	return 0;
}

static int by_old_id(const void *a, const void *b)
{
	uint64_t x = ((const struct inherited_block *)a)->old_id;
	uint64_t y = ((const struct inherited_block *)b)->old_id;
	return x < y ? -1 : x > y;
}

int inherited_gather(struct inherited *set, const struct model *m, uint32_t thread_count)
{
	*set = (struct inherited){0};
	int rc = model_live_blocks(m, add_live, set);
	for (uint32_t id = 0; id < thread_count && !rc; id++)
		rc = add_pending(set, m, id);
	if (!rc && set->count)
		qsort(set->blocks, set->count, sizeof *set->blocks, by_old_id);
	return rc;
}

void inherited_done(struct inherited *set)
{
	set->blocks = tm_free(set->blocks);
	set->count = set->room = 0;
}

struct inherited_block *inherited_find(const struct inherited *set, uint64_t old_id)
{
	size_t low = 0, high = set->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (set->blocks[middle].old_id < old_id)
			low = middle + 1;
		else
			high = middle;
	}
	bool found = low < set->count && set->blocks[low].old_id == old_id;
	return found ? &set->blocks[low] : NULL;
}

uint64_t inherited_blocks(const struct inherited *set)
{
	uint64_t blocks = 0;
	for (size_t i = 0; i < set->count; i++)
		if (!set->blocks[i].pending)
			blocks +=
				trace_weigh(set->blocks[i].size_bytes, set->blocks[i].new_id).count;
	return blocks;
}

uint64_t inherited_interval(const struct inherited *set)
{
	unsigned most = 0;
	for (size_t i = 0; i < set->count; i++) {
		unsigned log2 = trace_word_interval_log2(set->blocks[i].size_bytes);
		most = log2 > most ? log2 : most;
	}
	return most ? 1ull << most : 0;
}

int inherited_number(struct inherited *set, uint32_t thread_count)
{
	/* Which threads have a block that can stand last. */
	bool *has_other = tm_alloc_array((size_t)thread_count + 1, sizeof *has_other);
	if (!has_other)
		return -ENOMEM;
	uint64_t next = 0;
	for (size_t i = 0; i < set->count; i++) {
		struct inherited_block *block = &set->blocks[i];
		if (block->pending)
			block->new_id = next++;
		else if (!block->first && block->thread_id < thread_count)
			has_other[block->thread_id] = true;
	}
	for (size_t i = 0; i < set->count; i++) {
		struct inherited_block *block = &set->blocks[i];
		if (block->pending || !block->first)
			continue;
		block->new_id = next++;
		block->reset = block->thread_id >= thread_count || !has_other[block->thread_id];
	}
	for (size_t i = 0; i < set->count; i++)
		if (!set->blocks[i].pending && !set->blocks[i].first)
			set->blocks[i].new_id = next++;
	tm_free(has_other);
	return 0;
}

uint32_t *inherited_order(const struct inherited *set)
{
	uint32_t *order = tm_alloc_array(set->count + 1, sizeof *order);
	for (size_t i = 0; order && i < set->count; i++)
		order[set->blocks[i].new_id] = (uint32_t)i;
	return order;
}
