/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace within bounds says the same as the whole one: both are written from
 * the same random events, and every figure of one is compared with the other.
 */
#include "bounded_pair.h"
#include "harness/tap.h"
#include "written_trace.h"

enum { SEEDS = 12, EVENTS = 12000, SLICES = 5000 };

static void with_bounds(const struct trace_writer_options *bounds)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct pair pair;
		pair_start(&pair, seed, bounds);
		pair_run(&pair, EVENTS);
		pair_finish(&pair.whole);
		pair_finish(&pair.bounded);
		tap_note("seed %d: %d bytes, %d whole", (int)seed,
			 (int)written_bytes(pair.bounded.path),
			 (int)written_bytes(pair.whole.path));
		CHECK(written_bytes(pair.bounded.path) < written_bytes(pair.whole.path));
		pair_compare(&pair);
		written_is_sound(pair.bounded.reader);
		pair_done(&pair);
	}
}

static void by_time(void)
{
	with_bounds(&(struct trace_writer_options){.addresses = true, .retain_ns = 50000000000});
}

static void by_size(void)
{
	with_bounds(&(struct trace_writer_options){.addresses = true, .retain_bytes = 200000});
}

/* By age alone: old slices are merged, too, when there are more than are kept in any case. */
static void by_time_for_long(void)
{
	const struct trace_writer_options bounds = {.addresses = true, .retain_ns = 50000000000};
	struct pair pair;
	pair_start(&pair, 5, &bounds);
	pair.batch_events = 2;
	pair.slice_every = 1;
	while (pair.slices < SLICES)
		pair_run(&pair, 2);
	pair_finish(&pair.whole);
	pair_finish(&pair.bounded);
	pair_compare(&pair);
	size_t kept = trace_reader_slice_count(pair.bounded.reader);
	tap_note("%zu of %zu slices, %d of %d bytes", kept,
		 trace_reader_slice_count(pair.whole.reader), (int)written_bytes(pair.bounded.path),
		 (int)written_bytes(pair.whole.path));
	CHECK(kept <= 4096 + 64);
	CHECK(kept > 2048);
	written_is_sound(pair.bounded.reader);
	pair_done(&pair);
}

/* ---- a file without its end ---- */

/* What a reader finds when the writer is killed: all that was recorded. */
static void unfinished(void)
{
	const struct trace_writer_options bounds = {.addresses = true, .retain_bytes = 200000};
	struct pair pair;
	pair_start(&pair, 3, &bounds);
	for (int i = 0; i < 20; i++) {
		struct model *model;
		struct model_totals totals;
		struct trace_reader *reader;
		struct tm_error err = {0};
		pair_run(&pair, EVENTS / 20);
		REQUIRE(trace_writer_tick(pair.bounded.writer) == 0);
		trace_writer_flush(pair.bounded.writer);
		written_open_copy(pair.bounded.path, &reader);
		if (!CHECK(!model_load(reader, &model, &err))) {
			tap_note("%s", err.text);
			tap_stop();
		}
		model_totals(model, &totals);
		CHECK_EQ_U64(totals.events, pair.events);
		CHECK_EQ_U64(totals.live_bytes, ref_live_bytes(pair.ref));
		CHECK_EQ_U64(totals.peak_bytes, pair.ref->peak_bytes);
		model_free(model);
		trace_reader_close(reader);
	}
	pair_finish(&pair.whole);
	pair_finish(&pair.bounded);
	pair_compare(&pair);
	pair_done(&pair);
}

static const struct tap_case cases[] = {
	{.name = "figures of a trace whose old events were folded by age", .run = by_time},
	{.name = "figures of a trace whose old events were folded to fit a size", .run = by_size},
	{.name = "figures where slices are merged by age alone", .run = by_time_for_long},
	{.name = "a folded trace whose writer was killed", .run = unfinished},
};

TAP_MAIN(cases)
