/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks that were born last, in front of the live table: most die young,
 * and then nothing else is touched for them. One place per hash of the key:
 *
 *   birth   takes the place; the block that was there moves to the live table
 *   end     is found here, or in the live table if a block of this hash went there
 *
 * So that a key that is nowhere costs no second search, each place counts the
 * blocks of its hash in the live table. apply.c moves blocks and keeps the count.
 */
#pragma once

#include "model/live_hot.h"

enum { YOUNG_LOG2 = 11, YOUNG_COUNT = 1 << YOUNG_LOG2 };

struct young {
	uint64_t key;
	struct live_block block; /* its `low`: 2 * blocks in the live table + 1 if used */
};

struct young_table {
	struct young *places;
	uint32_t count; /* places that are used */
};

/* 0 or -ENOMEM. */
int young_init(struct young_table *table);
void young_done(struct young_table *table);
int young_each(const struct young_table *table, live_visit_fn fn, void *ctx);

/* The shift keeps the same places in several arenas from having the same hashes. */
static inline struct young *young_at(const struct young_table *table, uint64_t key)
{
	return &table->places[(key ^ key >> 20) * LIVE_MIX_1 >> (64 - YOUNG_LOG2)];
}

static inline bool young_is_used(const struct young *young)
{
	return young->block.low & 1;
}

static inline bool young_holds(const struct young *young, uint64_t key)
{
	return young->key == key && young_is_used(young);
}

/* May the live table hold a key of this place? */
static inline bool young_has_older(const struct young *young)
{
	return young->block.low > 1;
}

static inline void young_add_older(struct young *young)
{
	young->block.low += 2;
}

static inline void young_drop_older(struct young *young)
{
	young->block.low -= 2;
}

/* The place must not be used. */
static inline void young_use(struct young_table *table, struct young *young, uint64_t key)
{
	young->key = key;
	young->block.low++;
	table->count++;
}

static inline void young_leave(struct young_table *table, struct young *young)
{
	young->block.low--;
	table->count--;
}
