/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the birth, the end and the return of a block change in the figures.
 * Inline: this is most of what the model does per event.
 */
#pragma once

#include "model/state.h"

#define LIKELY(condition)   __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define HOT                 static inline __attribute__((always_inline))
/* Rare, and kept out of the way: what is inlined takes registers from the rest. */
#define COLD static __attribute__((noinline, cold, unused))

static inline void account_defer_cell(struct model *m, uint64_t key, uint64_t count, uint64_t bytes)
{
	__builtin_prefetch(&m->cells.cells[cells_home(&m->cells, key)], 1);
	m->deferred[m->deferred_count++] =
		(struct cell){.key = key, .count = count, .bytes = bytes};
}

/* The counter's place is another bucket's, or empty, or full. */
COLD void account_count_elsewhere(struct model *m, uint32_t *counter, uint32_t slot,
				  enum cell_kind kind, uint32_t bucket)
{
	if (*counter)
		account_defer_cell(m, cell_key(slot, kind, bucket), 1, 0);
	else
		*counter = (bucket + 1) << STACK_CELL_COUNT_BITS | 1;
}

/* Count one in the tagged counters beside the stack, or as a cell. */
HOT void account_count(struct model *m, uint32_t *counters, uint32_t slot, enum cell_kind kind,
		       uint32_t bucket)
{
	uint32_t *counter = &counters[bucket % STACK_CELLS];
	uint32_t tag = (bucket + 1) << STACK_CELL_COUNT_BITS;
	/* Equal tags leave the count alone, which must not overflow into them. */
	if (LIKELY((*counter ^ tag) < (1u << STACK_CELL_COUNT_BITS) - 1))
		(*counter)++;
	else
		account_count_elsewhere(m, counter, slot, kind, bucket);
}

static inline bool account_take_back_beside(uint32_t *counters, uint32_t bucket)
{
	uint32_t *counter = &counters[bucket % STACK_CELLS];
	uint32_t count = *counter ^ (bucket + 1) << STACK_CELL_COUNT_BITS;
	if (count == 0 || count >> STACK_CELL_COUNT_BITS)
		return false;
	(*counter)--;
	return true;
}

static __attribute__((noinline)) void account_new_maximum(struct model *m)
{
	m->slice.max_bytes = m->live_bytes;
	m->slice.max_us = m->now_us;
	if (m->live_bytes <= m->peak_bytes)
		return;
	m->peak_bytes = m->live_bytes;
	m->peak_blocks = model_live_count(m);
	m->peak_us = m->now_us;
	m->slice.peak_rose = true;
	if (UNLIKELY(++m->epoch == 0))
		model_next_epoch(m);
}

HOT void account_raise(struct model *m, uint64_t bytes)
{
	m->live_bytes += bytes;
	if (UNLIKELY(m->live_bytes > m->slice.max_bytes))
		account_new_maximum(m);
}

/* The same of a block that stands for others, too (trace/weight.h). */
COLD void account_sampled_birth(struct model *m, struct stack_hot *stack, uint32_t slot,
				uint64_t word, uint64_t block_id)
{
	struct trace_weight weight = trace_weigh_sampled(word, block_id);
	stacks_touch(&m->stacks, stack, slot, m->epoch);
	stack->birth_bytes += weight.bytes;
	stack->births += (uint32_t)weight.count;
	if (!(stack->flags & STACK_BORE)) {
		stack->flags |= STACK_BORE;
		m->stack_count++;
	}
	account_defer_cell(m, cell_key(slot, CELL_SIZE, model_bucket(trace_word_size(word))),
			   weight.count, 0);
	m->allocations++;
	m->extra_births += weight.count - 1;
	m->extra_live += weight.count - 1;
	m->allocated_bytes += weight.bytes;
	account_raise(m, weight.bytes);
}

HOT void account_birth(struct model *m, struct stack_hot *stack, uint32_t slot, uint64_t size_bytes,
		       uint64_t block_id)
{
	if (UNLIKELY(trace_word_sampled(size_bytes))) {
		account_sampled_birth(m, stack, slot, size_bytes, block_id);
		return;
	}
	stacks_touch(&m->stacks, stack, slot, m->epoch);
	stack->birth_bytes += size_bytes;
	stack->births++;
	if (UNLIKELY(!(stack->flags & STACK_BORE))) {
		stack->flags |= STACK_BORE;
		m->stack_count++;
	}
	uint32_t bucket = model_bucket(size_bytes);
	account_count(m, stack->sizes, slot, CELL_SIZE, bucket);
	m->allocations++;
	m->allocated_bytes += size_bytes;
	account_raise(m, size_bytes);
}

COLD bool account_sampled_end(struct model *m, const struct live_block *block,
			      struct stack_hot *stack, uint64_t block_id)
{
	struct trace_weight weight = trace_weigh_sampled(live_size_bytes(block), block_id);
	stacks_touch(&m->stacks, stack, block->slot, m->epoch);
	m->live_bytes -= weight.bytes;
	m->extra_live -= weight.count - 1;
	if (m->live_bytes < m->slice.min_bytes)
		m->slice.min_bytes = m->live_bytes;
	uint32_t bucket = model_bucket(m->now_us - live_birth_us(block));
	account_defer_cell(m, cell_key(block->slot, CELL_LIFE, bucket), weight.count, 0);
	if (live_birth_slice(block) == m->slice.slice_id) {
		stack->deaths += (uint32_t)weight.count;
		stack->death_bytes += weight.bytes;
		return false;
	}
	stack->base_blocks -= (uint32_t)weight.count;
	stack->base_bytes -= weight.bytes;
	account_defer_cell(m, cell_key(block->slot, CELL_DEATH, live_birth_slice(block)),
			   weight.count, weight.bytes);
	return true;
}

/* A block's end, whatever the cause. Tells whether it was born before the open slice. */
HOT bool account_end(struct model *m, const struct live_block *block, struct stack_hot *stack,
		     uint64_t block_id)
{
	uint64_t size_bytes = live_size_bytes(block);
	if (UNLIKELY(trace_word_sampled(size_bytes)))
		return account_sampled_end(m, block, stack, block_id);
	stacks_touch(&m->stacks, stack, block->slot, m->epoch);
	m->live_bytes -= size_bytes;
	if (m->live_bytes < m->slice.min_bytes)
		m->slice.min_bytes = m->live_bytes;
	uint32_t bucket = model_bucket(m->now_us - live_birth_us(block));
	account_count(m, stack->lives, block->slot, CELL_LIFE, bucket);
	if (live_birth_slice(block) == m->slice.slice_id) {
		stack->deaths++;
		stack->death_bytes += size_bytes;
		return false;
	}
	stack->base_blocks--;
	stack->base_bytes -= size_bytes;
	account_defer_cell(m, cell_key(block->slot, CELL_DEATH, live_birth_slice(block)), 1,
			   size_bytes);
	return true;
}

/* The block lives on as if it had not ended at death_us. */
static inline void account_return(struct model *m, const struct live_block *block,
				  uint64_t death_us, uint64_t block_id)
{
	struct trace_weight weight = trace_weigh(live_size_bytes(block), block_id);
	uint64_t size_bytes = weight.bytes;
	struct stack_hot *stack = stacks_hot(&m->stacks, block->slot);
	stacks_touch(&m->stacks, stack, block->slot, m->epoch);
	if (live_birth_slice(block) == m->slice.slice_id) {
		stack->deaths -= (uint32_t)weight.count;
		stack->death_bytes -= size_bytes;
	} else {
		stack->base_blocks += (uint32_t)weight.count;
		stack->base_bytes += size_bytes;
		/* The death may stand in an earlier slice: sums over slices come out right. */
		account_defer_cell(m, cell_key(block->slot, CELL_DEATH, live_birth_slice(block)),
				   -weight.count, -size_bytes);
	}
	uint32_t bucket = model_bucket(death_us - live_birth_us(block));
	m->extra_live += weight.count - 1;
	if (weight.count != 1 || !account_take_back_beside(stack->lives, bucket))
		account_defer_cell(m, cell_key(block->slot, CELL_LIFE, bucket), -weight.count, 0);
	account_raise(m, size_bytes);
}

static inline void account_failed(struct model *m, uint32_t slot)
{
	stacks_touch(&m->stacks, stacks_hot(&m->stacks, slot), slot, m->epoch);
	stacks_cold(&m->stacks, slot)->open_failed++;
	m->failed++;
}
