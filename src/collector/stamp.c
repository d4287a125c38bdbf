/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/stamp.h"

#include <string.h>

#include "base/clock.h"
#include "base/io.h"

enum {
	CALIBRATE_NS = 10 * 1000 * 1000,
	PATIENCE_NS = 1000 * 1000 * 1000, /* a bad measurement is better than none after that */
	BASELINE_NS = 2000000000u,        /* the slope is that of the last two to four seconds */
};

static uint64_t read_tsc(void)
{
	uint32_t low, high;
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

static bool has_flag(const char *flags, const char *end, const char *flag)
{
	size_t bytes = strlen(flag);
	for (const char *at = flags; (at = strstr(at, flag)) && at < end; at += bytes)
		if (at[-1] == ' ' && (at[bytes] == ' ' || at[bytes] == '\n' || !at[bytes]))
			return true;
	return false;
}

static bool cpu_has_invariant_tsc(void)
{
	struct text info = {0};
	bool invariant = false;
	/* Only the first processor's lines are looked at: a part of the file will do. */
	int error = io_read_file("/proc/cpuinfo", 16 * 1024 * 1024, &info);
	const char *flags = error ? NULL : strstr(text_string(&info), "\nflags");
	if (flags) {
		const char *end = strchr(flags + 1, '\n');
		end = end ? end : flags + strlen(flags);
		invariant =
			has_flag(flags, end, "constant_tsc") && has_flag(flags, end, "nonstop_tsc");
	}
	text_done(&info);
	return invariant;
}

bool stamp_tsc_usable(void)
{
	struct text source = {0};
	int error = io_read_file("/sys/devices/system/clocksource/clocksource0/current_clocksource",
				 4096, &source);
	bool trusted = !error && strncmp(text_string(&source), "tsc", 3) == 0;
	text_done(&source);
	return trusted && cpu_has_invariant_tsc();
}

struct stamp_pair stamp_pair_read(void)
{
	struct stamp_pair best = {0};
	uint64_t best_width = UINT64_MAX;
	for (int i = 0; i < 4; i++) {
		uint64_t before = read_tsc();
		uint64_t steady_ns = clock_steady_ns();
		uint64_t width = read_tsc() - before;
		if (width < best_width) {
			best_width = width;
			best = (struct stamp_pair){before + width / 2, steady_ns, width};
		}
	}
	return best;
}

static void set_line(struct stamp_clock *clock, const struct stamp_pair *now)
{
	uint64_t stamps = now->stamp - clock->first.stamp;
	uint64_t ns = now->steady_ns - clock->first.steady_ns;
	if (stamps && ns)
		clock->mult = (uint64_t)(((unsigned __int128)ns << 32) / stamps);
	clock->base_stamp = now->stamp;
	clock->base_ns = (int64_t)(now->steady_ns - clock->origin_ns);
	clock->near = now->stamp;
	if (ns > 2ull * BASELINE_NS)
		clock->first = clock->last;
	else if (ns < BASELINE_NS)
		clock->last = *now; /* the next baseline's start once this one is long enough */
}

void stamp_clock_init(struct stamp_clock *clock, bool tsc, const struct stamp_pair *earlier)
{
	struct stamp_pair now = stamp_pair_read();
	*clock = (struct stamp_clock){.tsc = tsc,
				      .origin_ns = now.steady_ns,
				      .mult = 1ull << 32,
				      .first = *earlier,
				      .last = now,
				      .best_width = now.width,
				      .read_ns = now.steady_ns};
	if (tsc) {
		set_line(clock, &now);
		return;
	}
	clock->near = now.steady_ns;
	clock->base_stamp = now.steady_ns;
}

void stamp_clock_update(struct stamp_clock *clock)
{
	uint64_t now_ns = clock_steady_ns();
	if (!clock->tsc) {
		clock->near = now_ns;
		return;
	}
	if (now_ns - clock->read_ns < CALIBRATE_NS)
		return;
	struct stamp_pair now = stamp_pair_read();
	if (now.width < clock->best_width)
		clock->best_width = now.width;
	else if (now.width > 4 * clock->best_width && now_ns - clock->read_ns < PATIENCE_NS)
		return;
	clock->read_ns = now.steady_ns;
	set_line(clock, &now);
}
