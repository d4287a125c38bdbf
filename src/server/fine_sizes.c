/* SPDX-License-Identifier: Apache-2.0 */
#include "server/fine_sizes.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/memory.h"

enum { STEP_BITS = 3, ROOM_LEAST = 1024 };

/* A hash table of (stack, bucket); a count of 0 is an empty place. */
struct table {
	struct fine_size *places;
	size_t room, used;
};

/* Below 16 every size is its own; above, the three bits after the highest tell it. */
uint32_t fine_bucket(uint64_t bytes)
{
	if (bytes < 2 * FINE_STEPS)
		return (uint32_t)bytes;
	uint32_t high = 63u - (uint32_t)__builtin_clzll(bytes);
	uint32_t step = (uint32_t)(bytes >> (high - STEP_BITS)) & (FINE_STEPS - 1);
	return (high - STEP_BITS + 1) * FINE_STEPS + step;
}

uint64_t fine_least(uint32_t bucket)
{
	if (bucket < 2 * FINE_STEPS)
		return bucket;
	uint32_t shift = bucket / FINE_STEPS - 1;
	return (uint64_t)(FINE_STEPS + bucket % FINE_STEPS) << shift;
}

uint64_t fine_most(uint32_t bucket)
{
	return bucket == fine_bucket(UINT64_MAX) ? UINT64_MAX : fine_least(bucket + 1) - 1;
}

static struct fine_size *find(const struct table *table, uint32_t stack_id, uint32_t bucket)
{
	size_t at = hash_pair(stack_id, bucket) & (table->room - 1);
	while (table->places[at].count &&
	       (table->places[at].stack_id != stack_id || table->places[at].bucket != bucket))
		at = (at + 1) & (table->room - 1);
	return &table->places[at];
}

static int grow(struct table *table)
{
	struct table larger = {.room = table->room ? table->room * 2 : ROOM_LEAST};
	larger.places = tm_alloc_array(larger.room, sizeof *larger.places);
	if (!larger.places)
		return -ENOMEM;
	for (size_t i = 0; i < table->room; i++)
		if (table->places[i].count)
			*find(&larger, table->places[i].stack_id, table->places[i].bucket) =
				table->places[i];
	larger.used = table->used;
	tm_free(table->places);
	*table = larger;
	return 0;
}

static int add(void *ctx, const struct query_block *block)
{
	struct table *table = ctx;
	if ((table->used + 1) * 2 > table->room && grow(table))
		return -ENOMEM;
	uint32_t bucket = fine_bucket(block->size_bytes);
	struct fine_size *place = find(table, block->stack_id, bucket);
	table->used += !place->count;
	*place = (struct fine_size){bucket, block->stack_id, place->count + 1};
	return 0;
}

static int by_stack(const void *a, const void *b)
{
	const struct fine_size *x = a, *y = b;
	if (x->stack_id != y->stack_id)
		return x->stack_id < y->stack_id ? -1 : 1;
	return x->bucket < y->bucket ? -1 : x->bucket > y->bucket;
}

int fine_sizes(const struct call *call, const struct selection *selection,
	       struct fine_size **ret_sizes, size_t *ret_count, struct tm_error *err)
{
	struct table table = {0};
	const struct query_blocks_options options = {
		.from_ns = selection->from_ns,
		.to_ns = selection->to_ns,
		.mode = QUERY_BLOCKS_ALLOCATED,
		.filter = selection->bound,
		.unordered = true,
		.progress = call_progress(call),
	};
	int code = grow(&table);
	if (!code)
		code = query_blocks(call->facts->section, &options, add, &table, err);
	if (code) {
		tm_free(table.places);
		return code == -ENOMEM ? tm_fail(err, code, "no memory for the sizes") : code;
	}
	size_t kept = 0;
	for (size_t i = 0; i < table.room; i++)
		if (table.places[i].count)
			table.places[kept++] = table.places[i];
	if (kept)
		qsort(table.places, kept, sizeof *table.places, by_stack);
	*ret_sizes = table.places;
	*ret_count = kept;
	return 0;
}
