/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the stamps in events (56 bits of the time-stamp counter, or of
 * CLOCK_MONOTONIC nanoseconds) to nanoseconds since the section began.
 * Calibrated piecewise: each pass of the drain thread that comes 10 ms or more
 * after the last one measures again, so that the error never adds up.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct stamp_pair {
	uint64_t stamp; /* full width */
	uint64_t steady_ns;
	uint64_t width; /* stamps that passed while it was read: how good it is */
};

struct stamp_clock {
	bool tsc;
	uint64_t origin_ns; /* CLOCK_MONOTONIC at time 0 of the section */
	uint64_t near;      /* a full stamp less than 2^55 away from all that come */
	/* The line in use: ns = base_ns + (stamp - base_stamp) * mult / 2^32, ns since the origin.
	 */
	uint64_t base_stamp;
	int64_t base_ns;
	uint64_t mult;
	struct stamp_pair first; /* the slope is measured from here */
	struct stamp_pair last;  /* and later from here: the middle of the baseline, about */
	uint64_t best_width;
	uint64_t read_ns; /* when it was measured last */
};

/* Is the time-stamp counter invariant, and does the kernel trust it? Reads /proc and /sys. */
bool stamp_tsc_usable(void);
/* Both clocks at one moment, to about 50 ns, unless we are interrupted again and again. */
struct stamp_pair stamp_pair_read(void);
/* Time 0 is now. `earlier` was read at least a millisecond ago. */
void stamp_clock_init(struct stamp_clock *clock, bool tsc, const struct stamp_pair *earlier);
/* Call on each pass: measures again when 10 ms have passed. */
void stamp_clock_update(struct stamp_clock *clock);

/* The full stamp of an event's first word. */
static inline uint64_t stamp_extend(const struct stamp_clock *clock, uint64_t word0)
{
	int64_t distance = (int64_t)((word0 & ~0xffull) - (clock->near << 8)) >> 8;
	return clock->near + (uint64_t)distance;
}

/* Nanoseconds since the section began; 0 for what came before. Not monotone by itself. */
static inline uint64_t stamp_to_ns(const struct stamp_clock *clock, uint64_t stamp)
{
	int64_t distance = (int64_t)(stamp - clock->base_stamp);
	int64_t ns = clock->base_ns + (int64_t)(((__int128)distance * (int64_t)clock->mult) >> 32);
	return ns > 0 ? (uint64_t)ns : 0;
}
