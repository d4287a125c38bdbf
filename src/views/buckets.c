/* SPDX-License-Identifier: Apache-2.0 */
#include "views/buckets.h"

#include <errno.h>
#include <stdlib.h>

#include "base/memory.h"
#include "views/data.h"

struct cell {
	uint32_t bucket, site;
	uint64_t count;
};

static int by_bucket_and_site(const void *left, const void *right)
{
	const struct cell *a = left, *b = right;
	if (a->bucket != b->bucket)
		return a->bucket < b->bucket ? -1 : 1;
	return (a->site > b->site) - (a->site < b->site);
}

static uint32_t site_of(const struct view_data *data, uint32_t stack_id)
{
	const struct names *names = &data->names;
	uint32_t node = stack_id < data->input.stack_count ? names->node_of[stack_id] : 0;
	return node ? names->nodes[node].site : (uint32_t)names->function_count;
}

/* One cell per bucket and site, sorted; their number in *ret_count. */
static struct cell *make_cells(const struct view_data *data, const struct query_bucket *buckets,
			       size_t count, size_t *ret_count)
{
	struct cell *cells = tm_alloc_array(count, sizeof *cells);
	if (!cells)
		return NULL;
	size_t used = 0;
	for (size_t i = 0; i < count; i++)
		if (buckets[i].bucket < TRACE_BUCKETS && buckets[i].count)
			cells[used++] = (struct cell){
				.bucket = buckets[i].bucket,
				.site = site_of(data, buckets[i].stack_id),
				.count = buckets[i].count,
			};
	qsort(cells, used, sizeof *cells, by_bucket_and_site);
	size_t merged = 0;
	for (size_t i = 0; i < used; i++) {
		if (merged && !by_bucket_and_site(&cells[merged - 1], &cells[i]))
			cells[merged - 1].count += cells[i].count;
		else
			cells[merged++] = cells[i];
	}
	*ret_count = merged;
	return cells;
}

static void add_top(const struct view_data *data, struct view_bucket *bucket,
		    const struct cell *cell)
{
	size_t at = bucket->top_count;
	while (at && bucket->tops[at - 1].count < cell->count)
		at--;
	if (at == VIEW_BUCKET_TOPS)
		return;
	if (bucket->top_count < VIEW_BUCKET_TOPS)
		bucket->top_count++;
	for (size_t i = bucket->top_count - 1; i > at; i--)
		bucket->tops[i] = bucket->tops[i - 1];
	struct view_bucket_top top = {.function = "[no stack]", .module = "[mark]"};
	if (cell->site < data->names.function_count) {
		top.function = data->names.functions[cell->site].function;
		top.module = data->names.functions[cell->site].module;
	}
	top.count = cell->count;
	bucket->tops[at] = top;
}

static struct view_bucket empty_bucket(uint32_t bucket)
{
	return (struct view_bucket){
		.bucket = bucket,
		.from = bucket ? 1ull << (bucket - 1) : 0,
		.to = bucket == TRACE_BUCKETS - 1 ? UINT64_MAX : (1ull << bucket) - 1,
	};
}

int view_buckets_new(const struct view_data *data, const struct query_bucket *buckets, size_t count,
		     struct view_buckets *ret_buckets, struct tm_error *err)
{
	size_t cell_count = 0;
	struct view_buckets made = {0};
	struct cell *cells = make_cells(data, buckets, count, &cell_count);
	if (cells && cell_count)
		made.count = cells[cell_count - 1].bucket - cells[0].bucket + 1;
	made.list = cells ? tm_alloc_array(made.count, sizeof *made.list) : NULL;
	if (!made.list) {
		tm_free(cells);
		return tm_fail(err, -ENOMEM, "out of memory");
	}
	for (size_t i = 0; i < made.count; i++)
		made.list[i] = empty_bucket(cells[0].bucket + (uint32_t)i);
	for (size_t i = 0; i < cell_count; i++) {
		struct view_bucket *bucket = &made.list[cells[i].bucket - cells[0].bucket];
		bucket->count += cells[i].count;
		made.total += cells[i].count;
		add_top(data, bucket, &cells[i]);
	}
	tm_free(cells);
	*ret_buckets = made;
	return 0;
}

void view_buckets_done(struct view_buckets *buckets)
{
	tm_free(buckets->list);
	*buckets = (struct view_buckets){0};
}
