/* SPDX-License-Identifier: Apache-2.0 */
/* What sampled blocks stand for, against the library of mathematics and plain sums. */
#include <math.h>
#include <stdlib.h>

#include "harness/tap.h"
#include "trace/weight.h"
#include "wire/filter.h"

static void words_keep_size_and_interval(void)
{
	static const uint64_t sizes[] = {0, 1, 15, 4096, 100000, 1ull << 30};
	for (unsigned log2 = TRACE_INTERVAL_LOG2_MIN; log2 <= TRACE_INTERVAL_LOG2_MAX; log2++) {
		for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
			uint64_t word = trace_word_make(sizes[i], log2);
			bool sure = sizes[i] >> log2 >= TRACE_SURE_INTERVALS;
			CHECK(trace_word_size(word) == sizes[i]);
			CHECK(trace_word_interval_log2(word) == (sure ? 0 : log2));
			CHECK(word < 1ull << 48);
		}
	}
	CHECK(trace_word_make(123, 0) == 123);
	/* Sizes as they are, the largest included, are no words. */
	CHECK(!trace_word_sampled((1ull << 47) - 1));
	CHECK(!trace_word_sampled((1ull << 48) - 1));
	CHECK(!trace_word_sampled(UINT64_MAX));
	struct trace_weight one = trace_weigh(77, 5);
	CHECK(one.count == 1 && one.bytes == 77);
}

static void chances_are_those_of_the_exponential(void)
{
	for (uint64_t size = 0; size < 1ull << 24; size = size * 3 / 2 + 1) {
		double expected = -expm1(-((double)size + 1) / 524288);
		double chance = trace_chance(size, 19);
		CHECK(fabs(chance - expected) <= expected * 1e-12);
	}
	CHECK(trace_chance(1, 0) == 1);
	CHECK(trace_chance(1ull << 40, 19) == 1);
}

/* The mean of the counts is 1 / p, though each is a whole number; bytes are the nearest. */
static void weights_have_no_bias(void)
{
	static const uint64_t sizes[] = {0, 16, 1000, 60000, 65536, 200000};
	enum { BLOCKS = 200000 };
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		uint64_t word = trace_word_make(sizes[i], 16), sum = 0;
		double weight = 1 / trace_chance(sizes[i], 16);
		for (uint64_t id = 0; id < BLOCKS; id++) {
			struct trace_weight w = trace_weigh(word, id);
			sum += w.count;
			CHECK(w.count == (uint64_t)weight || w.count == (uint64_t)weight + 1);
			CHECK(fabs((double)w.bytes - (double)sizes[i] * weight) <= 0.51);
		}
		/* A fraction that is rounded has a standard deviation of 1/2 at most: six sigma. */
		CHECK(fabs((double)sum / BLOCKS - weight) < 6 * 0.5 / sqrt(BLOCKS));
	}
}

/* The true variance of a sum, block by block, is never above the square of what is said. */
static void errors_are_bounds(void)
{
	srandom(1);
	for (int round = 0; round < 200; round++) {
		double bytes = 0, variance = 0, interval = 65536;
		unsigned blocks = 1 + (unsigned)random() % 500;
		unsigned bits = 4 + (unsigned)random() % 20;
		for (unsigned i = 0; i < blocks; i++) {
			double size = 1 + (double)(random() % (1l << (unsigned)(random() % bits)));
			double x = size / interval;
			bytes += size;
			variance += size * size / expm1(x);
		}
		double said = trace_standard_error(bytes, blocks, interval);
		CHECK(said * said >= variance * 0.9999);
	}
	/* And of many small ones it is right. */
	double said = trace_standard_error(1e6 * 100, 1e6, 65536);
	CHECK(fabs(said - sqrt(1e6 * 100 * 100 / expm1(100.0 / 65536))) < said * 0.01);
	CHECK(trace_standard_error(1e9, 1e3, 0) == 0);
}

/* No sampled block is ever missed; what is not sampled is passed on again when it has ended. */
static void the_filter_misses_nothing(void)
{
	enum { BLOCKS = 3000 };
	struct wire_filter *filter = calloc(1, sizeof *filter);
	uint64_t *blocks = calloc(BLOCKS, sizeof *blocks);
	REQUIRE(filter && blocks);
	srandom(2);
	for (size_t i = 0; i < BLOCKS; i++) {
		blocks[i] = (uint64_t)random() << 4 | (uint64_t)(random() & 7) << 44 | 16;
		if (i % 3)
			wire_filter_put(filter, blocks[i]);
		else
			wire_filter_add(filter, blocks[i]); /* outside */
	}
	for (size_t i = 0; i < BLOCKS; i++) {
		CHECK(wire_filter_get(filter, blocks[i]) != 0);
		CHECK(wire_filter_find(filter, blocks[i]) != WIRE_FILTER_NO);
	}
	for (size_t i = 0; i < BLOCKS; i++)
		if (!wire_filter_take(filter, blocks[i]))
			wire_filter_drop(filter, blocks[i]);
	for (size_t i = 0; i < BLOCKS; i++)
		CHECK(wire_filter_get(filter, blocks[i]) == 0);
	/* A neighbour with the same counter is told apart by its address; at the latest. */
	wire_filter_put(filter, 4096);
	uint64_t twin = 0, other = 0;
	for (uint64_t high = 1; !twin || !other; high++)
		for (uint64_t at = high << 24; at < (high << 24) + 8192; at += 16)
			if (wire_filter_index(at) != wire_filter_index(4096))
				continue;
			else if (wire_filter_region(at) == wire_filter_region(4096))
				twin = at;
			else
				other = at;
	CHECK(wire_filter_get(filter, other) == 0);
	CHECK(wire_filter_get(filter, twin) == 1);
	CHECK(wire_filter_find(filter, twin) == WIRE_FILTER_NO);
	CHECK(wire_filter_find(filter, 4096) == WIRE_FILTER_KNOWN);
	free(blocks);
	free(filter);
}

/* A counter that was full stays: it may not forget a block. */
static void full_counters_stay(void)
{
	struct wire_filter *filter = calloc(1, sizeof *filter);
	REQUIRE(filter);
	for (int i = 0; i < 300; i++)
		wire_filter_add(filter, 64);
	for (int i = 0; i < 300; i++)
		wire_filter_drop(filter, 64);
	CHECK(wire_filter_get(filter, 64) == WIRE_FILTER_FULL);
	CHECK(wire_filter_find(filter, 64) == WIRE_FILTER_OUTSIDE);
	/* So does a region, which then leaves it to the counters. */
	for (uint64_t at = 8192; at < 8192 + 2 * 2048; at += 16)
		for (int i = 0; i < 2; i++)
			wire_filter_put(filter, at);
	for (uint64_t at = 8192; at < 8192 + 2 * 2048; at += 16) {
		CHECK(wire_filter_get(filter, at) == 2);
		for (int i = 0; i < 2; i++)
			if (!wire_filter_take(filter, at))
				wire_filter_drop(filter, at);
		CHECK(wire_filter_get(filter, at) == 0);
	}
	CHECK(filter->regions[wire_filter_region(8192)] == WIRE_FILTER_FULL);
	free(filter);
}

static const struct tap_case cases[] = {
	{.name = "a sampled size is stored with its interval", .run = words_keep_size_and_interval},
	{.name = "blocks are chosen by the chance that is said",
	 .run = chances_are_those_of_the_exponential},
	{.name = "estimates have no bias", .run = weights_have_no_bias},
	{.name = "errors are not larger than said", .run = errors_are_bounds},
	{.name = "no end of a sampled block is missed", .run = the_filter_misses_nothing},
	{.name = "a full counter forgets nothing", .run = full_counters_stay},
};

TAP_MAIN(cases)
