/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that die young and blocks that last: wherever the model keeps a block,
 * its end must find it. The lifetimes of each stack change while it goes on, so
 * that blocks are expected to last and do not, and the other way round.
 */
#include "harness/tap.h"
#include "model/model.h"
#include "model/young.h"

#include <stdlib.h>

enum { PLACES = 40000, EVENTS = 600000, BATCH = 257, STACKS = 6 };

/* What is known of each address, kept in the plainest way. */
struct place {
	bool live;
	uint32_t stack_id;
	uint64_t block_id, size_bytes;
};

struct world {
	struct place *places;
	uint64_t random, blocks, unseen, older, live;
	struct trace_event events[BATCH], wanted[BATCH];
};

static uint64_t next_random(struct world *w)
{
	w->random = w->random * 6364136223846793005ull + 1442695040888963407ull;
	return w->random >> 33;
}

static uint64_t address_of(uint64_t place)
{
	return 0x7f0000000000ull + (place % 3) * 0x4000000 + place * 16;
}

/* Odd stacks take few addresses again and again, even ones any; who is odd changes. */
static uint64_t choose_place(struct world *w, uint32_t stack_id, uint64_t event)
{
	bool few = ((stack_id ^ event / (EVENTS / 8)) & 1) != 0;
	return next_random(w) % (few ? 64 : PLACES);
}

static void end_wanted(struct world *w, struct place *place, struct trace_event *wanted)
{
	wanted->block_id = place->block_id;
	wanted->stack_id = place->stack_id;
	wanted->size_bytes = place->size_bytes;
	place->live = false;
	w->live--;
}

static void make_event(struct world *w, size_t i, uint64_t event)
{
	uint32_t stack_id = 1 + (uint32_t)(next_random(w) % STACKS);
	uint64_t number = choose_place(w, stack_id, event);
	struct place *place = &w->places[number];
	struct trace_event *made = &w->events[i], *wanted = &w->wanted[i];
	*made = (struct trace_event){.time_ns = event * 50, .address = address_of(number)};
	/* One in 64 is what cannot be: a birth where a block lives, or the end of none. */
	bool begins = place->live ? next_random(w) % 64 == 0 : next_random(w) % 64 != 0;
	made->op = begins ? TRACE_ALLOC : TRACE_FREE;
	made->stack_id = begins ? stack_id : 0;
	made->size_bytes = begins ? next_random(w) % 5000 : 0;
	*wanted = *made;
	if (begins) {
		w->unseen += place->live;
		w->live += !place->live;
		wanted->block_id = w->blocks++;
		*place = (struct place){true, stack_id, wanted->block_id, made->size_bytes};
	} else if (place->live) {
		end_wanted(w, place, wanted);
	} else {
		w->older++;
		wanted->op = TRACE_FREE_OLDER;
		wanted->block_id = TRACE_NO_BLOCK;
	}
}

static int visit(void *ctx, const struct model_block *block)
{
	struct world *w = ctx;
	uint64_t offset = block->address - 0x7f0000000000ull, number = offset % 0x4000000 / 16;
	CHECK(w->places[number].live && w->places[number].block_id == block->block_id);
	w->live--;
	return 0;
}

static void check_batch(struct world *w, struct model *m)
{
	struct tm_error err = {0};
	REQUIRE(model_apply(m, w->events, BATCH, &err) == 0);
	for (size_t i = 0; i < BATCH; i++) {
		const struct trace_event *got = &w->events[i], *want = &w->wanted[i];
		if (got->op != want->op || got->block_id != want->block_id ||
		    got->stack_id != want->stack_id || got->size_bytes != want->size_bytes) {
			CHECK_EQ_U64(got->block_id, want->block_id);
			REQUIRE(false);
		}
	}
	uint64_t number = next_random(w) % PLACES;
	CHECK_EQ_U64(model_is_live(m, address_of(number)), w->places[number].live);
}

static void every_end_finds_its_block(void)
{
	struct tm_error err = {0};
	struct world *w = calloc(1, sizeof *w);
	struct model *m;
	REQUIRE(w && (w->places = calloc(PLACES, sizeof *w->places)));
	REQUIRE(model_new(NULL, &m, &err) == 0);
	for (uint64_t event = 0; event + BATCH < EVENTS; event += BATCH) {
		for (size_t i = 0; i < BATCH; i++)
			make_event(w, i, event + i);
		check_batch(w, m);
		struct trace_slice slice;
		if (model_slice_due(m))
			REQUIRE(model_slice_take(m, &slice, &err) == 0);
	}
	struct model_totals totals;
	model_totals(m, &totals);
	CHECK_EQ_U64(totals.live_blocks, w->live);
	CHECK_EQ_U64(totals.freed_unseen, w->unseen);
	CHECK_EQ_U64(totals.freed_older, w->older);
	CHECK(w->live > YOUNG_COUNT); /* some must be old */
	CHECK_EQ_I64(model_live_blocks(m, visit, w), 0);
	CHECK_EQ_U64(w->live, 0); /* each was visited once */
	model_free(m);
	free(w->places);
	free(w);
}

static const struct tap_case cases[] = {
	{.name = "every end finds its block, young or old", .run = every_end_finds_its_block},
};
TAP_MAIN(cases)
