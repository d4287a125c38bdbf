/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The open slice's sparse counters: deaths by (stack, birth slice), and sizes
 * and lifetimes that do not fit beside the stack. One hash table of 24-byte
 * cells, emptied at the end of each slice. Counts are added modulo 2^64, since
 * an undone realloc takes a death back that an earlier slice may hold.
 */
#pragma once

#include "base/hash.h"

#include <stddef.h>
#include <stdint.h>

enum cell_kind { CELL_DEATH = 0, CELL_SIZE = 1, CELL_LIFE = 2 };

struct cell {
	uint64_t key; /* cell_key() + 1; 0 empty */
	uint64_t count;
	uint64_t bytes;
};

struct cell_table {
	struct cell *cells;
	size_t room; /* a power of two, or 0 */
	size_t count;
};

void cells_done(struct cell_table *table);
/* Room for so many new cells without a failure. 0 or -ENOMEM. */
int cells_reserve(struct cell_table *table, size_t more);
void cells_clear(struct cell_table *table);

/* value: birth slice or bucket, below 2^16. */
static inline uint64_t cell_key(uint32_t slot, enum cell_kind kind, uint32_t value)
{
	return (uint64_t)slot << 18 | (uint64_t)kind << 16 | value;
}

static inline uint32_t cell_slot(const struct cell *cell)
{
	return (uint32_t)((cell->key - 1) >> 18);
}

static inline enum cell_kind cell_kind(const struct cell *cell)
{
	return (enum cell_kind)((cell->key - 1) >> 16 & 3);
}

static inline uint32_t cell_value(const struct cell *cell)
{
	return (uint32_t)((cell->key - 1) & 0xffff);
}

static inline size_t cells_home(const struct cell_table *table, uint64_t key)
{
	return hash_fold(key + 1, 0x9e3779b97f4a7c15ull) & (table->room - 1);
}

static inline void cells_add(struct cell_table *table, uint64_t key, uint64_t count, uint64_t bytes)
{
	size_t at = cells_home(table, key);
	struct cell *cell;
	while ((cell = &table->cells[at])->key != key + 1) {
		if (!cell->key) {
			cell->key = key + 1;
			table->count++;
			break;
		}
		at = (at + 1) & (table->room - 1);
	}
	cell->count += count;
	cell->bytes += bytes;
}
