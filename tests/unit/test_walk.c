/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking along the events with few blocks held at a time must tell of each block
 * once, with the same end as a walk that holds all of them.
 */
#include "harness/tap.h"
#include "model/model.h"
#include "model/walk.h"
#include "model_reference.h"

#include <stdlib.h>
#include <string.h>

enum { EVENTS = 4000 };

struct told {
	struct walk_block blocks[EVENTS];
	struct walk_end ends[EVENTS];
	size_t count;
};

static int take(void *ctx, const struct walk_block *block, const struct walk_end *end)
{
	struct told *told = ctx;
	REQUIRE(told->count < EVENTS);
	told->blocks[told->count] = *block;
	told->ends[told->count++] = *end;
	return 0;
}

static size_t make_events(uint64_t seed, struct trace_event *all)
{
	struct ref_model *ref = ref_new();
	struct ref_source source = {.random = seed, .addresses = 200, .honest = true};
	struct model *m;
	size_t used = 0;
	REQUIRE(model_new(&(struct model_options){0}, &m, NULL) == 0);
	while (used < EVENTS) {
		struct trace_event events[2], want;
		size_t count = ref_make(&source, ref, events);
		for (size_t i = 0; i < count; i++)
			ref_apply(ref, &events[i], &want);
		REQUIRE(model_apply(m, events, count, NULL) == 0);
		memcpy(all + used, events, count * sizeof *events);
		used += count;
	}
	model_free(m);
	ref_free(ref);
	return used;
}

/* How many walks it took. */
static unsigned walk_all(const struct trace_event *events, size_t count, uint64_t limit,
			 struct told *told)
{
	const struct trace_event_block facts = {.event_count = count};
	uint64_t from_id = 0;
	unsigned walks = 0;
	do {
		struct walk walk = {.chosen = take,
				    .ctx = told,
				    .from_id = from_id,
				    .limit = limit,
				    .now_event = UINT64_MAX};
		REQUIRE(walk_events(&walk, &facts, events, count) == 0);
		REQUIRE(walk_finish(&walk) == 0);
		CHECK(!walk.until_id || walk.until_id > from_id);
		from_id = walk.until_id;
		walk_done(&walk);
		walks++;
	} while (from_id && walks < EVENTS);
	return walks;
}

static const struct walk_end *find(const struct told *told, uint64_t block_id)
{
	const struct walk_end *found = NULL;
	for (size_t i = 0; i < told->count; i++)
		if (told->blocks[i].block_id == block_id) {
			CHECK(!found);
			found = &told->ends[i];
		}
	return found;
}

static void few_at_a_time(void)
{
	struct trace_event *events = calloc(EVENTS + 2, sizeof *events);
	struct told *all = calloc(1, sizeof *all), *some = calloc(1, sizeof *some);
	REQUIRE(events && all && some);
	size_t count = make_events(7, events);
	CHECK_EQ_U64(walk_all(events, count, 0, all), 1);
	static const uint64_t limits[] = {1, 7, 50};
	for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
		some->count = 0;
		CHECK(walk_all(events, count, limits[i], some) > 1);
		CHECK_EQ_U64(some->count, all->count);
		for (size_t k = 0; k < all->count; k++) {
			const struct walk_end *end = find(some, all->blocks[k].block_id);
			REQUIRE(end);
			CHECK_MEM(end, &all->ends[k], sizeof *end);
		}
	}
	free(events);
	free(all);
	free(some);
}

static const struct tap_case cases[] = {
	{.name = "an export that holds few blocks at a time tells of all", .run = few_at_a_time},
};
TAP_MAIN(cases)
