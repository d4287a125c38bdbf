/* SPDX-License-Identifier: Apache-2.0 */
#include "model/query_buckets.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/memory.h"

enum { FIRST_ROOM = 1024 };

struct bucket_cell {
	uint64_t key; /* (stack_id << 8 | bucket) + 1; 0 empty */
	uint64_t count;
};

void buckets_done(struct bucket_set *set)
{
	tm_free(set->cells);
	*set = (struct bucket_set){0};
}

static struct bucket_cell *find(const struct bucket_set *set, uint64_t key)
{
	size_t at = hash_u64(key) & (set->room - 1);
	while (set->cells[at].key && set->cells[at].key != key)
		at = (at + 1) & (set->room - 1);
	return &set->cells[at];
}

static int grow(struct bucket_set *set)
{
	struct bucket_set wider = {.room = set->room ? set->room * 2 : FIRST_ROOM};
	wider.cells = tm_alloc_array(wider.room, sizeof *wider.cells);
	if (!wider.cells)
		return -ENOMEM;
	for (size_t i = 0; i < set->room; i++) {
		if (set->cells[i].key)
			*find(&wider, set->cells[i].key) = set->cells[i];
	}
	wider.count = set->count;
	tm_free(set->cells);
	*set = wider;
	return 0;
}

int buckets_add(struct bucket_set *set, uint32_t stack_id, uint32_t bucket, uint64_t count)
{
	if (set->count * 2 >= set->room && grow(set))
		return -ENOMEM;
	uint64_t key = ((uint64_t)stack_id << 8 | bucket) + 1;
	struct bucket_cell *cell = find(set, key);
	if (!cell->key) {
		cell->key = key;
		set->count++;
	}
	cell->count += count;
	return 0;
}

int buckets_merge(struct bucket_set *set, const struct bucket_set *from)
{
	int rc = 0;
	for (size_t i = 0; i < from->room && !rc; i++) {
		const struct bucket_cell *cell = &from->cells[i];
		if (cell->key)
			rc = buckets_add(set, (uint32_t)((cell->key - 1) >> 8),
					 (cell->key - 1) & 0xff, cell->count);
	}
	return rc;
}

static int compare(const void *a, const void *b)
{
	const struct query_bucket *x = a, *y = b;
	if (x->stack_id != y->stack_id)
		return x->stack_id < y->stack_id ? -1 : 1;
	return (x->bucket > y->bucket) - (x->bucket < y->bucket);
}

int buckets_finish(struct bucket_set *set, struct query_bucket **ret, size_t *ret_count)
{
	struct query_bucket *list = tm_alloc_array(set->count + 1, sizeof *list);
	if (!list)
		return -ENOMEM;
	size_t count = 0;
	for (size_t i = 0; i < set->room; i++) {
		const struct bucket_cell *cell = &set->cells[i];
		/* Below zero: a failed realloc took an end back that came before the range. */
		if (cell->key && cell->count && cell->count <= UINT64_MAX / 2)
			list[count++] = (struct query_bucket){(uint32_t)((cell->key - 1) >> 8),
							      (cell->key - 1) & 0xff, cell->count};
	}
	qsort(list, count, sizeof *list, compare);
	buckets_done(set);
	*ret = list;
	*ret_count = count;
	return 0;
}
