/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/stack_ids.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "collector/modules_seen.h"

enum {
	TABLE_FIRST = 4096,
	ROWS_FIRST = 2048,
	CHAIN_MAX = 2 * WIRE_DEPTH_MAX + 64, /* frames of one stack that are believed */
};

int stack_ids_init(struct stack_ids *stacks)
{
	*stacks = (struct stack_ids){.count = 1, .written = 1};
	stacks->table = tm_alloc_array(TABLE_FIRST, sizeof *stacks->table);
	stacks->rows = tm_alloc_array(ROWS_FIRST, sizeof *stacks->rows);
	if (!stacks->table || !stacks->rows) {
		stack_ids_done(stacks);
		return -ENOMEM;
	}
	stacks->table_mask = TABLE_FIRST - 1;
	stacks->rows_room = ROWS_FIRST;
	return 0;
}

void stack_ids_done(struct stack_ids *stacks)
{
	tm_free(stacks->canonical);
	tm_free(stacks->rows);
	tm_free(stacks->table);
	*stacks = (struct stack_ids){0};
}

static uint64_t row_hash(const struct trace_stack *row)
{
	return hash_pair((uint64_t)row->parent_id << 32 | row->module_id, row->pc);
}

static bool rows_equal(const struct trace_stack *a, const struct trace_stack *b)
{
	return a->pc == b->pc && a->parent_id == b->parent_id && a->module_id == b->module_id;
}

static int grow_table(struct stack_ids *stacks)
{
	uint32_t mask = stacks->table_mask * 2 + 1;
	uint32_t *table = tm_alloc_array((size_t)mask + 1, sizeof *table);
	if (!table)
		return -ENOMEM;
	for (uint32_t id = 1; id < stacks->count; id++) {
		uint32_t at = (uint32_t)row_hash(&stacks->rows[id]) & mask;
		while (table[at])
			at = (at + 1) & mask;
		table[at] = id;
	}
	tm_free(stacks->table);
	stacks->table = table;
	stacks->table_mask = mask;
	return 0;
}

static int make_room(struct stack_ids *stacks)
{
	if (stacks->count == stacks->rows_room) {
		uint32_t room = stacks->rows_room * 2;
		struct trace_stack *rows = tm_grow_array(stacks->rows, room, sizeof *rows);
		if (!rows)
			return -ENOMEM;
		stacks->rows = rows;
		stacks->rows_room = room;
	}
	return stacks->count > stacks->table_mask / 2 ? grow_table(stacks) : 0;
}

int stack_ids_add(struct stack_ids *stacks, const struct trace_stack *row, uint32_t *ret_id)
{
	*ret_id = 0;
	int error = make_room(stacks);
	if (error)
		return error;
	uint32_t at = (uint32_t)row_hash(row) & stacks->table_mask;
	for (; stacks->table[at]; at = (at + 1) & stacks->table_mask) {
		if (rows_equal(&stacks->rows[stacks->table[at]], row)) {
			*ret_id = stacks->table[at];
			return 0;
		}
	}
	stacks->table[at] = stacks->count;
	stacks->rows[stacks->count] = *row;
	*ret_id = stacks->count++;
	return 0;
}

static int cover_node(struct stack_ids *stacks, uint32_t node)
{
	if (node < stacks->canonical_count)
		return 0;
	uint32_t count = stacks->canonical_count ? stacks->canonical_count : 4096;
	while (count <= node)
		count = count < 1u << 30 ? count * 2 : UINT32_MAX;
	uint32_t *canonical = tm_grow_array(stacks->canonical, count, sizeof *canonical);
	if (!canonical)
		return -ENOMEM;
	memset(canonical + stacks->canonical_count, 0,
	       (count - stacks->canonical_count) * sizeof *canonical);
	stacks->canonical = canonical;
	stacks->canonical_count = count;
	return 0;
}

/* One read of each field: the target may change them while we look. */
static struct wire_node node_copy(const struct wire_map *map, uint32_t node)
{
	const volatile struct wire_node *shared = &map->nodes[node];
	return (struct wire_node){
		.parent = shared->parent, .module = shared->module, .pc = shared->pc};
}

int stack_ids_learn(struct stack_ids *stacks, const struct wire_map *map,
		    struct modules_seen *modules, uint32_t node, uint32_t *ret_id)
{
	struct wire_node copies[CHAIN_MAX];
	uint32_t ids[CHAIN_MAX];
	uint32_t depth = 0;
	*ret_id = 0;
	if (node == WIRE_NONE || node > map->node_count) {
		stacks->bad_nodes += node != WIRE_NONE;
		return 0;
	}
	int error = cover_node(stacks, node);
	if (error)
		return error;
	/* Towards the root as far as nothing is known; parents have smaller ids, so this ends. */
	for (uint32_t at = node; at && !stacks->canonical[at]; at = copies[depth++].parent) {
		if (depth == CHAIN_MAX) {
			stacks->bad_nodes++;
			return 0;
		}
		ids[depth] = at;
		copies[depth] = node_copy(map, at);
		if (copies[depth].parent >= at) {
			stacks->bad_nodes++;
			copies[depth].parent = WIRE_NONE;
		}
	}
	while (depth--) {
		struct trace_stack row = {
			.parent_id = stack_ids_known(stacks, copies[depth].parent),
			.module_id = modules_seen_id(modules, copies[depth].module),
			.pc = copies[depth].pc,
		};
		error = stack_ids_add(stacks, &row, &stacks->canonical[ids[depth]]);
		if (error)
			return error;
	}
	*ret_id = stacks->canonical[node];
	return 0;
}
