/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator of the program's own, which only --hook can know: pieces of one
 * large block of malloc, with the region as an argument before the size.
 *
 *	--hook 'alloc=region_get(size=1) alloc=region_many(count=1,size=2)
 *	        realloc=region_grow(ptr=1,size=2) alloc=region_out(out=1,size=2)
 *	        free=region_put(ptr=1)'
 */
#include "ledger.h"

enum { ROUNDS = 50, REGION_BYTES = 1 << 22 };

struct region {
	char *memory;
	size_t used;
};

LEDGER_SITE(by_get);
LEDGER_SITE(by_many);
LEDGER_SITE(by_grow);
LEDGER_SITE(by_out);

/* Data of that name, a function too short to patch, and one that is only called region_get. */
int region_data = 1;
SITE void region_nothing(void)
{
}

SITE void *region_get(struct region *region, size_t bytes)
{
	char *block = region->memory + region->used;
	size_t whole = (bytes + 15) & ~(size_t)15;
	if (region->used + whole > REGION_BYTES)
		return NULL;
	region->used += whole + 16;
	return block;
}

/* Calls the other: one allocation, not two. */
SITE void *region_many(struct region *region, size_t count, size_t bytes)
{
	void *block = region_get(region, count * bytes);
	if (block)
		memset(block, 0, count * bytes);
	KEEP(block);
	return block;
}

SITE void *region_grow(struct region *region, void *old, size_t bytes)
{
	void *block = region_get(region, bytes);
	return old && block ? memcpy(block, old, 1) : block;
}

SITE int region_out(struct region *region, void **ret_block, size_t bytes)
{
	*ret_block = region_get(region, bytes);
	return *ret_block ? 0 : -1;
}

SITE void region_put(struct region *region, void *block)
{
	if (block)
		memset(block, 0xdd, 1);
	KEEP(region);
}

SITE void *by_get(struct region *region, size_t n)
{
	return ledger_alloc(&by_get_site, region_get(region, n), n);
}

SITE void *by_many(struct region *region, size_t n)
{
	return ledger_alloc(&by_many_site, region_many(region, 5, n), 5 * n);
}

SITE void *by_grow(struct region *region, struct ledger_site *from, void *old, size_t old_bytes,
		   size_t n)
{
	return ledger_realloc(from, old_bytes, &by_grow_site, region_grow(region, old, n), n);
}

SITE void *by_out(struct region *region, size_t n)
{
	void *block = NULL;
	check(!region_out(region, &block, n), "the region is full");
	return ledger_alloc(&by_out_site, block, n);
}

static void put(struct region *region, struct ledger_site *site, void *block, size_t bytes)
{
	ledger_free(site, block, bytes);
	region_put(region, block);
}

int main(void)
{
	ledger_open("");
	/* Not in the account: the test adds it where it is to be seen. */
	struct region region = {.memory = malloc(REGION_BYTES)};
	check(region.memory != NULL, "out of memory");
	region_nothing();
	for (size_t i = 1; i <= ROUNDS; i++) {
		void *a = by_get(&region, 10 * i), *b = by_many(&region, i),
		     *c = by_out(&region, i);
		a = by_grow(&region, &by_get_site, a, 10 * i, 20 * i);
		put(&region, &by_many_site, b, 5 * i);
		if (i % 2)
			put(&region, &by_grow_site, a, 20 * i);
		KEEP(c);
	}
	region_put(&region, NULL);
	check(!by_get(&region, REGION_BYTES), "the region has no end");
	ledger_print("custom", LEDGER_PEAK);
	return 0;
}
