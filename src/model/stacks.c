/* SPDX-License-Identifier: Apache-2.0 */
#include "model/stacks.h"

#include <errno.h>

#include "base/memory.h"

void stacks_done(struct stack_table *table)
{
	for (uint32_t i = 0; i < table->index_room; i++)
		tm_free(table->index[i]);
	for (uint32_t i = 0; i < table->chunk_count; i++)
		tm_free(table->cold[i]);
	tm_free(table->index);
	tm_free(table->hot);
	tm_free(table->cold);
	tm_free(table->touched);
	bulk_done(&table->bulk);
	*table = (struct stack_table){0};
}

static int grow_index(struct stack_table *table, uint32_t chunk)
{
	if (chunk >= table->index_room) {
		uint32_t room = table->index_room ? table->index_room : 64;
		while (room <= chunk)
			room *= 2;
		uint32_t **index = tm_grow_array(table->index, room, sizeof *index);
		if (!index)
			return -ENOMEM;
		for (uint32_t i = table->index_room; i < room; i++)
			index[i] = NULL;
		table->index = index;
		table->index_room = room;
	}
	if (!table->index[chunk])
		table->index[chunk] = tm_alloc_array(STACK_CHUNK, sizeof **table->index);
	return table->index[chunk] ? 0 : -ENOMEM;
}

static int grow_chunk_lists(struct stack_table *table)
{
	if (table->chunk_count < table->chunk_room)
		return 0;
	uint32_t room = table->chunk_room ? 2 * table->chunk_room : 16;
	struct stack_hot **hot = tm_grow_array(table->hot, room, sizeof *hot);
	if (!hot)
		return -ENOMEM;
	table->hot = hot;
	struct stack_cold **cold = tm_grow_array(table->cold, room, sizeof *cold);
	if (!cold)
		return -ENOMEM;
	table->cold = cold;
	table->chunk_room = room;
	return 0;
}

/* Every stack may be touched in one slice: there is always room to note it. */
static int grow_slots(struct stack_table *table)
{
	if (table->slot_count < table->chunk_count * STACK_CHUNK)
		return 0;
	if (grow_chunk_lists(table))
		return -ENOMEM;
	uint32_t room = (table->chunk_count + 1) * STACK_CHUNK;
	if (room > table->touched_room) {
		uint32_t *touched =
			tm_grow_array(table->touched, 2 * (size_t)room, sizeof *touched);
		if (!touched)
			return -ENOMEM;
		table->touched = touched;
		table->touched_room = 2 * room;
	}
	struct stack_cold *cold = tm_alloc_array(STACK_CHUNK, sizeof *cold);
	if (!cold)
		return -ENOMEM;
	struct stack_hot *hot = bulk_take(&table->bulk, sizeof *hot * STACK_CHUNK);
	if (!hot) {
		tm_free(cold);
		return -ENOMEM;
	}
	table->hot[table->chunk_count] = hot;
	table->cold[table->chunk_count] = cold;
	table->chunk_count++;
	return 0;
}

int stacks_make_slot(struct stack_table *table, uint32_t stack_id, uint32_t *ret_slot)
{
	uint32_t found = stacks_find(table, stack_id);
	if (!found) {
		if (grow_index(table, stack_id >> STACK_CHUNK_LOG2) || grow_slots(table))
			return -ENOMEM;
		uint32_t slot = table->slot_count++;
		stacks_hot(table, slot)->stack_id = stack_id;
		found = slot + 1;
		table->index[stack_id >> STACK_CHUNK_LOG2][stack_id & STACK_CHUNK_MASK] = found;
	}
	*ret_slot = found - 1;
	return 0;
}

uint64_t stacks_memory_bytes(const struct stack_table *table)
{
	uint64_t bytes = table->bulk.taken_bytes;
	for (uint32_t i = 0; i < table->index_room; i++)
		bytes += table->index[i] ? STACK_CHUNK * sizeof **table->index : 0;
	bytes += (uint64_t)table->chunk_count * STACK_CHUNK * sizeof **table->cold;
	bytes += table->index_room * sizeof *table->index;
	bytes += table->chunk_room * (sizeof *table->hot + sizeof *table->cold);
	return bytes + table->touched_room * sizeof *table->touched;
}
