/* SPDX-License-Identifier: Apache-2.0 */
#include "week_oracle.h"

#include <stdlib.h>

/* Blocks live in places; an old block goes when its place gets a new one. */
enum {
	YOUNG = 64,
	MIDDLE = 8192,
	OLD = 32768,
	PLACES = YOUNG + MIDDLE + OLD, /* per thread */
	PLACE_BYTES = 4096,
};

struct place {
	uint32_t bytes, stack; /* stack + 1; 0: empty */
};

struct lane {
	struct place places[PLACES];
	uint64_t base;    /* of its addresses */
	uint32_t last;    /* the place of its last allocation, if nothing came since; else PLACES */
	uint32_t to_fill; /* a place that was emptied and gets a block now; else PLACES */
	uint64_t random;
};

struct oracle {
	struct lane lanes[ORACLE_THREADS];
	struct oracle_figures all, stacks[ORACLE_STACKS];
	uint64_t random;
	uint32_t thread, run; /* whose turn it is, and for how many events */
};

static uint64_t next_random(uint64_t *state)
{
	uint64_t x = *state;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

struct oracle *oracle_new(uint64_t seed)
{
	struct oracle *oracle = calloc(1, sizeof *oracle);
	if (!oracle)
		return NULL;
	oracle->random = 88172645463325252ull ^ seed;
	for (unsigned i = 0; i < ORACLE_THREADS; i++) {
		oracle->lanes[i].base = 0x7f0000000000 + i * 0x100000000ull;
		oracle->lanes[i].random = next_random(&oracle->random);
		oracle->lanes[i].last = oracle->lanes[i].to_fill = PLACES;
	}
	return oracle;
}

struct oracle *oracle_free(struct oracle *oracle)
{
	free(oracle);
	return NULL;
}

/* Most blocks die young; one in 64 lives for long. */
static uint32_t choose_place(uint64_t random)
{
	uint32_t kind = random & 63, at = (uint32_t)(random >> 20);
	if (kind >= 8)
		return at % YOUNG;
	return kind ? YOUNG + at % MIDDLE : YOUNG + MIDDLE + at % OLD;
}

static void count_alloc(struct oracle_figures *figures, uint32_t bytes)
{
	figures->allocations++;
	figures->allocated_bytes += bytes;
	figures->live_blocks++;
	figures->live_bytes += bytes;
}

static void count_free(struct oracle_figures *figures, uint32_t bytes, bool is_temporary)
{
	figures->frees++;
	figures->freed_bytes += bytes;
	figures->live_blocks--;
	figures->live_bytes -= bytes;
	figures->temporary += is_temporary;
}

static void make_alloc(struct oracle *oracle, struct lane *lane, uint32_t at,
		       struct oracle_event *event)
{
	uint64_t random = next_random(&lane->random);
	/* Few stacks allocate most. */
	uint32_t spread = (uint32_t)(random >> 40) % ORACLE_STACKS;
	event->stack = random & 3 ? spread % 64 : spread;
	event->bytes = 16 + (uint32_t)(random >> 8) % (PLACE_BYTES - 16);
	lane->places[at] = (struct place){event->bytes, event->stack + 1};
	lane->last = at;
	lane->to_fill = PLACES;
	count_alloc(&oracle->all, event->bytes);
	count_alloc(&oracle->stacks[event->stack], event->bytes);
	if (oracle->all.live_bytes > oracle->all.peak_bytes)
		oracle->all.peak_bytes = oracle->all.live_bytes;
}

static void make_free(struct oracle *oracle, struct lane *lane, uint32_t at,
		      struct oracle_event *event)
{
	struct place *place = &lane->places[at];
	bool is_temporary = lane->last == at;
	event->is_free = true;
	count_free(&oracle->all, place->bytes, is_temporary);
	count_free(&oracle->stacks[place->stack - 1], place->bytes, is_temporary);
	*place = (struct place){0, 0};
	lane->last = PLACES;
	lane->to_fill = at;
}

void oracle_next(struct oracle *oracle, struct oracle_event *ret)
{
	if (!oracle->run) {
		uint64_t random = next_random(&oracle->random);
		oracle->thread = random % ORACLE_THREADS;
		oracle->run = 1 + (random >> 8) % 256;
	}
	oracle->run--;
	struct lane *lane = &oracle->lanes[oracle->thread];
	uint32_t at =
		lane->to_fill < PLACES ? lane->to_fill : choose_place(next_random(&lane->random));
	*ret = (struct oracle_event){.thread = oracle->thread,
				     .address = lane->base + (uint64_t)at * PLACE_BYTES};
	if (lane->places[at].stack)
		make_free(oracle, lane, at, ret);
	else
		make_alloc(oracle, lane, at, ret);
}

const struct oracle_figures *oracle_all(const struct oracle *oracle)
{
	return &oracle->all;
}

const struct oracle_figures *oracle_stack(const struct oracle *oracle, uint32_t stack)
{
	return &oracle->stacks[stack];
}
