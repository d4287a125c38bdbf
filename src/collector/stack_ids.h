/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Canonical stacks of a section. The agent's nodes may repeat (a lost race) and
 * live in shared memory; here each distinct (parent, module, pc) is one
 * stack_id, dense from 1, parents first. Known nodes cost one array lookup.
 */
#pragma once

#include "base/error.h"
#include "trace/records.h"
#include "wire/pool.h"

struct modules_seen;

struct stack_ids {
	uint32_t *canonical;      /* wire node id -> stack_id; 0 not yet known */
	uint32_t canonical_count; /* entries in canonical[] */
	struct trace_stack *rows; /* rows[stack_id]; [0] is the empty stack */
	uint32_t count;           /* ids [1, count) exist */
	uint32_t rows_room;
	uint32_t written; /* ids [1, written) were given to the writer */
	uint32_t *table;  /* open addressing: stack_id or 0 */
	uint32_t table_mask;
	uint64_t bad_nodes; /* node ids or parents that make no sense */
};

TM_MUST_CHECK int stack_ids_init(struct stack_ids *stacks);
void stack_ids_done(struct stack_ids *stacks);

/*
 * The stack_id of a row, added if it is new. *ret_id is 0 on failure, which is
 * -ENOMEM only.
 */
TM_MUST_CHECK int stack_ids_add(struct stack_ids *stacks, const struct trace_stack *row,
				uint32_t *ret_id);
/* Reads the node's chain from shared memory. A senseless node is counted and gets stack 0. */
TM_MUST_CHECK int stack_ids_learn(struct stack_ids *stacks, const struct wire_map *map,
				  struct modules_seen *modules, uint32_t node, uint32_t *ret_id);

/* The hot path; 0: empty, or not yet known. */
static inline uint32_t stack_ids_known(const struct stack_ids *stacks, uint32_t node)
{
	return node < stacks->canonical_count ? stacks->canonical[node] : 0;
}
