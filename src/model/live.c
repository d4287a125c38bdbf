/* SPDX-License-Identifier: Apache-2.0 */
#include "model/live.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "model/live_hot.h"
#include "model/seed.h"

/* Enough that all events of a group fit after one look at the page. */
enum { PAGE_HARD_FULL = LIVE_PAGE_LINES * LIVE_LINE_SLOTS - 64 };

int live_init(struct live_table *table)
{
	*table = (struct live_table){0};
	table->scratch = tm_alloc_array(LIVE_PAGE_LINES, sizeof *table->scratch);
	table->directory = tm_alloc_array(2, sizeof *table->directory);
	struct live_page *page = NULL;
	if (table->scratch && table->directory)
		page = bulk_take(&table->bulk, sizeof *page);
	if (!page) {
		live_done(table);
		return -ENOMEM;
	}
	table->directory[0] = table->directory[1] = page;
	table->shift = 63;
	table->seed = seed_make(table->scratch);
	return 0;
}

void live_done(struct live_table *table)
{
	tm_free(table->scratch);
	tm_free(table->directory);
	tm_free(table->chunks);
	tm_free(table->frees);
	bulk_done(&table->bulk);
	*table = (struct live_table){0};
}

int live_reserve_blocks(struct live_table *table, uint32_t blocks)
{
	uint64_t room = (uint64_t)table->chunk_count * LIVE_CHUNK_BLOCKS;
	if (table->free_count + (room - table->unused) >= blocks)
		return 0;
	if (room + LIVE_CHUNK_BLOCKS > UINT32_MAX)
		return -EOVERFLOW;
	if (table->chunk_count == table->chunk_room) {
		uint32_t more = table->chunk_room ? 2 * table->chunk_room : 16;
		struct live_block **chunks = tm_grow_array(table->chunks, more, sizeof *chunks);
		if (!chunks)
			return -ENOMEM;
		table->chunks = chunks;
		uint32_t **frees = tm_grow_array(table->frees, more, sizeof *frees);
		if (!frees)
			return -ENOMEM;
		table->frees = frees;
		table->chunk_room = more;
	}
	struct live_block *chunk = bulk_take(&table->bulk, sizeof *chunk * LIVE_CHUNK_BLOCKS);
	uint32_t *frees = chunk ? bulk_take(&table->bulk, sizeof *frees * LIVE_CHUNK_BLOCKS) : NULL;
	if (!frees)
		return -ENOMEM; /* the chunk is lost until the end: there will be no more anyway */
	table->chunks[table->chunk_count] = chunk;
	table->frees[table->chunk_count++] = frees;
	return 0;
}

static size_t directory_count(const struct live_table *table)
{
	return (size_t)1 << (64 - table->shift);
}

static int double_directory(struct live_table *table)
{
	size_t count = directory_count(table);
	struct live_page **wider = tm_alloc_array(2 * count, sizeof *wider);
	if (!wider)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		wider[2 * i] = wider[2 * i + 1] = table->directory[i];
	tm_free(table->directory);
	table->directory = wider;
	table->shift--;
	return 0;
}

/* The upper half of the directory entries of `page` move to `sibling`. */
static void point_to_sibling(struct live_table *table, uint64_t mixed, struct live_page *sibling,
			     uint32_t depth)
{
	size_t span = directory_count(table) >> depth; /* entries of the page before the split */
	size_t first = (size_t)(mixed >> table->shift) & ~(span - 1);
	for (size_t i = first + span / 2; i < first + span; i++)
		table->directory[i] = sibling;
}

static int split(struct live_table *table, uint64_t mixed)
{
	struct live_page *page = live_page_of(table, mixed);
	if (page->depth == 64 - table->shift && double_directory(table))
		return -ENOMEM;
	struct live_page *sibling = bulk_take(&table->bulk, sizeof *sibling);
	if (!sibling)
		return -ENOMEM;
	uint32_t depth = page->depth;
	memcpy(table->scratch, page->lines, sizeof page->lines);
	memset(page->lines, 0, sizeof page->lines);
	page->count = 0;
	page->depth = sibling->depth = depth + 1;
	for (size_t i = 0; i < LIVE_PAGE_LINES; i++) {
		const struct live_line *line = &table->scratch[i];
		for (size_t slot = 0; slot < LIVE_LINE_SLOTS; slot++) {
			uint32_t tag = line->tags[slot];
			if (line->used >> slot & 1)
				live_put(tag >> (31 - depth) & 1 ? sibling : page, tag,
					 line->numbers[slot]);
		}
	}
	point_to_sibling(table, mixed, sibling, depth);
	return 0;
}

int live_split_page(struct live_table *table, uint64_t mixed)
{
	struct live_page *page;
	while (live_page_is_full(page = live_page_of(table, mixed))) {
		if (page->depth == LIVE_DEPTH_MAX)
			return page->count < PAGE_HARD_FULL ? 0 : -EOVERFLOW;
		int rc = split(table, mixed);
		if (rc)
			return rc;
	}
	return 0;
}

/* The inverse of an odd number modulo 2^64, by Newton's method. */
static uint64_t inverse(uint64_t odd)
{
	uint64_t x = odd;
	for (int i = 0; i < 6; i++)
		x *= 2 - odd * x;
	return x;
}

uint64_t live_unmix(const struct live_table *table, uint64_t mixed)
{
	uint64_t key = mixed * inverse(LIVE_MIX_2);
	key ^= key >> 32;
	return key * inverse(LIVE_MIX_1) ^ table->seed;
}

static int page_each(const struct live_table *table, const struct live_page *page, live_visit_fn fn,
		     void *ctx)
{
	for (size_t i = 0; i < LIVE_PAGE_LINES; i++) {
		const struct live_line *line = &page->lines[i];
		for (size_t slot = 0; slot < LIVE_LINE_SLOTS; slot++) {
			if (!(line->used >> slot & 1))
				continue;
			const struct live_block *block = live_block_at(table, line->numbers[slot]);
			uint64_t mixed = (uint64_t)line->tags[slot] << 32 | block->low;
			int rc = fn(ctx, live_unmix(table, mixed), block);
			if (rc)
				return rc;
		}
	}
	return 0;
}

int live_each(const struct live_table *table, live_visit_fn fn, void *ctx)
{
	const struct live_page *last = NULL;
	for (size_t d = 0; d < directory_count(table); d++) {
		const struct live_page *page = table->directory[d];
		if (page == last)
			continue;
		last = page;
		int rc = page_each(table, page, fn, ctx);
		if (rc)
			return rc;
	}
	return 0;
}

uint64_t live_memory_bytes(const struct live_table *table)
{
	return table->bulk.taken_bytes + sizeof(struct live_line) * LIVE_PAGE_LINES +
	       sizeof(void *) * directory_count(table) + 2 * sizeof(void *) * table->chunk_room;
}
