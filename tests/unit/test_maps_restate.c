/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restated mappings: whoever applies the few rows comes to the same peaks, at the
 * same times, and to the same mappings at the end as who applies all of them;
 * also where what was restated is restated again, with what came since.
 */
#include "harness/tap.h"
#include "model/maps.h"
#include "model/maps_restate.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 4000, PAGES = 400, PAGE = 4096 };

struct rows {
	struct trace_map_event all[3 * ROWS];
	size_t count;
};

static bool each(const void *ctx, trace_map_fn fn, void *fn_ctx)
{
	const struct rows *rows = ctx;
	for (size_t i = 0; i < rows->count; i++)
		if (fn(fn_ctx, &rows->all[i]))
			return false;
	return true;
}

static int put(void *ctx, const struct trace_map_event *event)
{
	struct rows *rows = ctx;
	REQUIRE(rows->count < 3 * ROWS);
	rows->all[rows->count++] = *event;
	return 0;
}

static struct trace_map_event invent(size_t number)
{
	static const uint8_t ops[] = {TRACE_MAP, TRACE_MAP, TRACE_UNMAP, TRACE_MAP_PROTECT,
				      TRACE_MAP_ADVISE};
	struct trace_map_event event = {.op = ops[random() % 5],
					.time_ns = (number + 1) * 1000000,
					.address = (uint64_t)(1 + random() % PAGES) * PAGE,
					.bytes = (uint64_t)(1 + random() % 9) * PAGE,
					.stack_id = (uint32_t)(1 + random() % 90),
					.thread_id = (uint32_t)(random() % 3),
					.prot_or_advice = random() % 3 ? 3 : 0,
					.flags = random() % 4 ? 0 : TRACE_MAP_FILE};
	if (random() % 40 == 0)
		event = (struct trace_map_event){.op = TRACE_MAP_BRK,
						 .time_ns = event.time_ns,
						 .address = 0x700000,
						 .bytes = 0x700000 + event.address};
	return event;
}

/* What is mapped, page by page. */
struct end {
	uint8_t kinds[PAGES + 16];
	uint64_t calls, bytes;
};

static int fill(void *ctx, uint64_t start, uint64_t end, uint8_t kind, uint32_t call)
{
	struct end *state = ctx;
	(void)call;
	for (uint64_t page = start / PAGE; page < end / PAGE; page++)
		state->kinds[page] = (uint8_t)(kind + 1);
	return 0;
}

static void apply(const struct rows *rows, struct map_set *set, struct end *end)
{
	memset(end, 0, sizeof *end);
	maps_init(set, PAGE);
	for (size_t i = 0; i < rows->count; i++) {
		REQUIRE(!maps_apply(set, &rows->all[i]));
		end->calls += trace_map_calls(&rows->all[i]);
		if (trace_map_calls(&rows->all[i]))
			end->bytes += rows->all[i].bytes;
	}
	REQUIRE(!maps_each(set, fill, end));
}

static void same(const struct rows *a, const struct rows *b)
{
	struct map_set one, other;
	static struct end one_end, other_end;
	apply(a, &one, &one_end);
	apply(b, &other, &other_end);
	CHECK_EQ_U64(other.mapped_peak_bytes, one.mapped_peak_bytes);
	CHECK_EQ_U64(other.mapped_peak_us, one.mapped_peak_us);
	CHECK_EQ_U64(other.reserved_peak_bytes, one.reserved_peak_bytes);
	CHECK_EQ_U64(other.file_peak_bytes, one.file_peak_bytes);
	CHECK_EQ_U64(other.brk_peak_bytes, one.brk_peak_bytes);
	CHECK_EQ_U64(other.brk_bytes, one.brk_bytes);
	CHECK_EQ_U64(other_end.calls, one_end.calls);
	CHECK_EQ_U64(other_end.bytes, one_end.bytes);
	CHECK(!memcmp(one_end.kinds, other_end.kinds, sizeof one_end.kinds));
	maps_done(&one);
	maps_done(&other);
}

static void fewer_rows_say_the_same(void)
{
	static struct rows whole, few, again;
	for (int seed = 0; seed < 30; seed++) {
		srandom((unsigned)seed);
		whole.count = few.count = again.count = 0;
		size_t border = (size_t)(random() % ROWS);
		for (size_t i = 0; i < ROWS; i++) {
			if (i == border) {
				REQUIRE(!maps_restate(each, &whole, put, &few));
				same(&whole, &few);
			}
			whole.all[whole.count++] = invent(i);
			if (i >= border)
				few.all[few.count++] = whole.all[i];
		}
		same(&whole, &few);
		REQUIRE(!maps_restate(each, &few, put, &again));
		same(&whole, &again);
		CHECK(again.count < ROWS / 2);
	}
}

static void nothing_stays_nothing(void)
{
	static struct rows none, out;
	none.count = out.count = 0;
	REQUIRE(!maps_restate(each, &none, put, &out));
	CHECK_EQ_U64(out.count, 0);
}

static const struct tap_case cases[] = {
	{.name = "fewer rows lead to the same mappings and peaks", .run = fewer_rows_say_the_same},
	{.name = "without rows there are none", .run = nothing_stays_nothing},
};

TAP_MAIN(cases)
