/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A large and varied trace: argv[1] million allocations of random sizes over
 * many stacks, with random lifetimes. For tests of size and of what a report reads.
 */
#include "ledger.h"

LEDGER_SITE(big_malloc);

enum { LIVE = 20000 };
static struct {
	void *block;
	size_t bytes;
} live[LIVE];

SITE void *big_malloc(size_t n)
{
	return ledger_alloc(&big_malloc_site, malloc(n), n);
}

SITE void *left(uint64_t path, int depth, size_t n);
SITE void *right(uint64_t path, int depth, size_t n)
{
	void *block = depth == 0 ? big_malloc(n)
		      : path & 1 ? left(path >> 1, depth - 1, n)
				 : right(path >> 1, depth - 1, n);
	KEEP(block);
	return block;
}

SITE void *left(uint64_t path, int depth, size_t n)
{
	void *block = depth == 0 ? big_malloc(n)
		      : path & 1 ? right(path >> 1, depth - 1, n)
				 : left(path >> 1, depth - 1, n);
	KEEP(block);
	return block;
}

int main(int argc, char **argv)
{
	uint64_t dice = 88172645463325252ull;
	uint64_t count = (uint64_t)(argc > 1 ? atol(argv[1]) : 1) * 1000000;
	ledger_open("");
	for (uint64_t i = 0; i < count; i++) {
		dice ^= dice << 13;
		dice ^= dice >> 7;
		dice ^= dice << 17;
		size_t at = dice % LIVE, bytes = (dice >> 20) % 900 + 1;
		ledger_free(&big_malloc_site, live[at].block, live[at].bytes);
		free(live[at].block);
		live[at].block = left(dice >> 40 & 63, 8, bytes);
		live[at].bytes = bytes;
	}
	ledger_print("big", LEDGER_EXACT | LEDGER_PEAK);
	return 0;
}
