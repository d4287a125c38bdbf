/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "collector/stamp.h"
#include "harness/tap.h"

#include <time.h>
#include <unistd.h>

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a < b ? b - a : a - b;
}

/* Stamps become times that agree with the clock to 50 us (the machine may be busy). */
static void agrees_with_the_clock(void)
{
	if (!stamp_tsc_usable())
		tap_skip("the time-stamp counter is not trusted here");
	struct stamp_clock clock;
	struct stamp_pair earlier = stamp_pair_read();
	usleep(2000);
	stamp_clock_init(&clock, true, &earlier);
	for (int i = 0; i < 200; i++) {
		usleep(1000);
		stamp_clock_update(&clock);
		struct stamp_pair now = stamp_pair_read();
		uint64_t ns = stamp_to_ns(&clock, stamp_extend(&clock, now.stamp << 8));
		CHECK(distance(ns, now.steady_ns - clock.origin_ns) < 50000);
	}
}

static void survives_the_wrap_of_56_bits(void)
{
	struct stamp_clock clock = {.tsc = true, .near = (1ull << 56) + 5, .mult = 1ull << 32};
	CHECK_EQ_U64(stamp_extend(&clock, ((1ull << 56) - 3) << 8), (1ull << 56) - 3);
	CHECK_EQ_U64(stamp_extend(&clock, 7ull << 8), (1ull << 56) + 7);
	clock.near = (1ull << 56) - 5;
	CHECK_EQ_U64(stamp_extend(&clock, 7ull << 8 | 0xff), (1ull << 56) + 7);
}

static void nothing_is_before_the_start(void)
{
	struct stamp_clock clock = {
		.tsc = true, .near = 1000, .base_stamp = 1000, .mult = 1ull << 32};
	CHECK_EQ_U64(stamp_to_ns(&clock, 900), 0);
	CHECK_EQ_U64(stamp_to_ns(&clock, 1100), 100);
}

static void nanoseconds_pass_through(void)
{
	struct stamp_clock clock;
	struct stamp_pair earlier = stamp_pair_read();
	stamp_clock_init(&clock, false, &earlier);
	stamp_clock_update(&clock);
	uint64_t now = clock_steady_ns();
	CHECK_EQ_U64(stamp_to_ns(&clock, stamp_extend(&clock, now << 8)), now - clock.origin_ns);
}

static const struct tap_case cases[] = {
	{.name = "times in the trace are those of the clock", .run = agrees_with_the_clock},
	{.name = "a machine that is up for nine months keeps its time",
	 .run = survives_the_wrap_of_56_bits},
	{.name = "no event is before the start", .run = nothing_is_before_the_start},
	{.name = "without a trusted counter the kernel's clock is used",
	 .run = nanoseconds_pass_through},
};
TAP_MAIN(cases)
