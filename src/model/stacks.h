/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures per stack. Most stack ids are inner nodes that never allocate, so an
 * index (4 bytes per id) leads to dense slots, 168 bytes per stack that does:
 *
 *   line 0   hot: the live sums, the share of the peak, the open slice's sums
 *   line 1   hot: sizes and lifetimes of the open slice, 8 tagged counters each
 *   apart    cold: the sums of closed slices
 *
 * Nothing moves when tables grow. Counters of the open slice have 32 bits: a
 * slice must be taken before 2^31 events (model_apply() refuses to go on).
 */
#pragma once

#include "model/bulk.h"

#include <stdint.h>

enum {
	STACK_TOUCHED = 1u << 0, /* has a row in the open slice */
	STACK_BORE = 1u << 1,    /* ever allocated */
	/*
	 * How its last blocks ended, counted up (they grew old) and down (they did
	 * not) from 0 to 7; with its upper bit set the next ones are expected to last.
	 */
	STACK_AGE_STEP = 1u << 4,
	STACK_AGE_MASK = 7u << 4,
	STACK_LASTS = 4u << 4,
};

enum {
	STACK_CELLS = 8,
	STACK_CELL_COUNT_BITS = 26,
	STACK_CHUNK_LOG2 = 10,
	STACK_CHUNK = 1 << STACK_CHUNK_LOG2,
	STACK_CHUNK_MASK = STACK_CHUNK - 1,
};

/*
 * The share of the peak in O(1): the model's epoch rises with each new maximum.
 * A stack that changes for the first time in an epoch first saves its live
 * sums: they are what it had at that maximum. A stack whose epoch is an older
 * one has not changed since, so its live sums are its share.
 */
struct stack_hot {
	uint64_t base_bytes, saved_bytes; /* base: live and born before the open slice */
	uint32_t base_blocks, saved_blocks;
	uint32_t epoch;
	uint32_t stack_id;
	/* The open slice. Deaths here are of blocks born in it; older ones are cells. */
	uint64_t birth_bytes, death_bytes;
	uint32_t births, deaths;
	uint32_t temporary;
	uint32_t flags; /* STACK_* */
	/* (bucket + 1) << 26 | count, at index bucket % 8; what does not fit there is a cell. */
	uint32_t sizes[STACK_CELLS], lives[STACK_CELLS];
};
_Static_assert(sizeof(struct stack_hot) == 128, "two cache lines");

struct stack_cold { /* of closed slices, and the failed calls of the open one */
	uint64_t births, birth_bytes, temporary, failed;
	uint32_t open_failed;
};

struct stack_table {
	uint32_t **index; /* chunks of slot + 1 by stack_id; NULL where none allocated */
	struct stack_hot **hot;
	struct stack_cold **cold;
	uint32_t *touched; /* slots with a row in the open slice, in order of touch */
	uint32_t index_room, chunk_room, chunk_count;
	uint32_t slot_count, touched_count, touched_room;
	struct bulk bulk;
};

void stacks_done(struct stack_table *table);
/* The slot of a stack, made if need be. 0 or -ENOMEM. */
int stacks_make_slot(struct stack_table *table, uint32_t stack_id, uint32_t *ret_slot);
uint64_t stacks_memory_bytes(const struct stack_table *table);

/* Slot + 1, or 0 if there is none. */
static inline uint32_t stacks_find(const struct stack_table *table, uint32_t stack_id)
{
	uint32_t chunk = stack_id >> STACK_CHUNK_LOG2;
	if (chunk >= table->index_room || !table->index[chunk])
		return 0;
	return table->index[chunk][stack_id & STACK_CHUNK_MASK];
}

static inline struct stack_hot *stacks_hot(const struct stack_table *table, uint32_t slot)
{
	return &table->hot[slot >> STACK_CHUNK_LOG2][slot & STACK_CHUNK_MASK];
}

static inline struct stack_cold *stacks_cold(const struct stack_table *table, uint32_t slot)
{
	return &table->cold[slot >> STACK_CHUNK_LOG2][slot & STACK_CHUNK_MASK];
}

static inline uint64_t stacks_live_bytes(const struct stack_hot *stack)
{
	return stack->base_bytes + stack->birth_bytes - stack->death_bytes;
}

static inline uint32_t stacks_live_blocks(const struct stack_hot *stack)
{
	return stack->base_blocks + stack->births - stack->deaths;
}

static inline void stacks_grew_old(struct stack_hot *stack)
{
	if ((stack->flags & STACK_AGE_MASK) != STACK_AGE_MASK)
		stack->flags += STACK_AGE_STEP;
}

static inline void stacks_died_young(struct stack_hot *stack)
{
	if (stack->flags & STACK_AGE_MASK)
		stack->flags -= STACK_AGE_STEP;
}

/* Before any change of a stack: it gets a row in the open slice and keeps its share of the peak. */
static inline void stacks_touch(struct stack_table *table, struct stack_hot *stack, uint32_t slot,
				uint32_t epoch)
{
	if (!(stack->flags & STACK_TOUCHED)) {
		stack->flags |= STACK_TOUCHED;
		table->touched[table->touched_count++] = slot;
	}
	if (stack->epoch != epoch) {
		stack->epoch = epoch;
		stack->saved_bytes = stacks_live_bytes(stack);
		stack->saved_blocks = stacks_live_blocks(stack);
	}
}
