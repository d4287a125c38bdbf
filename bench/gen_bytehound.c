/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a .dat file as bytehound writes them, for the figures of importing: threads
 * that allocate and free, some blocks that stay, events somewhat out of order.
 *
 * Usage: gen_bytehound FILE PAIRS
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "bytehound_file.h"

enum { CHUNK = 512 << 10, STACKS = 3000, DEPTH = 20, LIVE = 20000, THREADS = 4 };

static uint64_t dice(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void flush(struct dat *dat, FILE *file, size_t least)
{
	uint8_t *bytes;
	if (dat->used < least)
		return;
	size_t count = dat_file(dat, CHUNK, true, &bytes);
	if (fwrite(bytes, 1, count, file) != count)
		exit(1);
	tm_free(bytes);
	dat->used = 0;
}

static void put_stacks(struct dat *dat, uint64_t *state)
{
	for (uint64_t id = 1; id <= STACKS; id++) {
		uint64_t addresses[DEPTH];
		for (unsigned i = 0; i < DEPTH; i++)
			addresses[i] = 0x400000 + (i < 4 ? dice(state) % 5000 : i) * 16;
		dat_backtrace(dat, id, addresses, DEPTH);
	}
}

int main(int argc, char **argv)
{
	static struct dat_block live[LIVE];
	struct dat dat = {0};
	uint64_t state = 88172645463325252ull;
	FILE *file = argc == 3 ? fopen(argv[1], "wb") : NULL;
	if (!file) {
		fprintf(stderr, "usage: gen_bytehound FILE PAIRS\n");
		return 2;
	}
	dat_header(&dat, "made-up");
	put_stacks(&dat, &state);
	uint64_t pairs = strtoull(argv[2], NULL, 10);
	for (uint64_t i = 0; i < pairs; i++) {
		uint64_t roll = dice(&state);
		struct dat_block *place = &live[roll % LIVE];
		/* A queue is a little behind the other now and then. */
		uint64_t time_us = i / 3 + 10 - (roll >> 20 & 15 ? 0 : 5);
		if (place->size && time_us < place->time_us)
			time_us = place->time_us;
		if (place->size) {
			place->time_us = time_us;
			dat_free(&dat, place);
		}
		*place = (struct dat_block){
			.owner = 1 + roll % THREADS,
			.counter = i,
			.time_us = time_us,
			.pointer = 0x10000000 + (uint64_t)(place - live) * 4096,
			.size = 16 + (roll >> 32) % 500,
			.backtrace = 1 + (roll >> 12) % STACKS,
			.thread = (uint32_t)(100 + roll % THREADS),
		};
		dat_alloc(&dat, place);
		flush(&dat, file, CHUNK);
	}
	flush(&dat, file, 1);
	dat_done(&dat);
	return fclose(file) ? 1 : 0;
}
