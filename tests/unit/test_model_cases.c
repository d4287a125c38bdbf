/* SPDX-License-Identifier: Apache-2.0 */
/* Each definition of docs/figures.md once, by hand; the arithmetic stands beside it. */
#include "base/memory.h"
#include "harness/tap.h"
#include "model/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct model *new_model(void)
{
	struct model *m;
	REQUIRE(model_new(NULL, &m, NULL) == 0);
	return m;
}

static struct trace_event apply(struct model *m, struct trace_event event)
{
	REQUIRE(model_apply(m, &event, 1, NULL) == 0);
	return event;
}

static struct trace_event alloc(struct model *m, uint64_t us, uint64_t address, uint64_t size,
				uint32_t stack_id)
{
	return apply(m, (struct trace_event){.time_ns = us * 1000,
					     .address = address,
					     .size_bytes = size,
					     .stack_id = stack_id});
}

static struct trace_event release(struct model *m, uint64_t us, uint64_t address)
{
	return apply(m, (struct trace_event){
				.time_ns = us * 1000, .address = address, .op = TRACE_FREE});
}

static struct trace_event by_thread(struct model *m, uint32_t thread_id, enum trace_op op,
				    uint64_t address)
{
	return apply(m, (struct trace_event){.address = address,
					     .size_bytes = 8,
					     .stack_id = 1,
					     .thread_id = thread_id,
					     .op = (uint8_t)op});
}

static struct model_totals totals_of(const struct model *m)
{
	struct model_totals totals;
	model_totals(m, &totals);
	return totals;
}

static struct model_stack stack_of(const struct model *m, uint32_t stack_id)
{
	struct model_stack stack;
	REQUIRE(model_stack_find(m, stack_id, &stack) == 0);
	return stack;
}

/* ---- the peak ---- */

static void peak_and_shares(void)
{
	struct model *m = new_model();
	alloc(m, 1, 0x10, 100, 1);
	alloc(m, 2, 0x20, 50, 2);
	alloc(m, 3, 0x30, 0, 3); /* no byte more: the peak's first moment is before */
	release(m, 4, 0x10);
	alloc(m, 5, 0x40, 100, 2); /* 50 + 100 = 150 again, but not above */
	struct model_totals t = totals_of(m);
	CHECK_EQ_U64(t.peak_bytes, 150);
	CHECK_EQ_U64(t.peak_blocks, 2);
	CHECK_EQ_U64(t.peak_time_ns, 2000);
	CHECK_EQ_U64(stack_of(m, 1).peak_bytes, 100);
	CHECK_EQ_U64(stack_of(m, 2).peak_bytes, 50);
	CHECK_EQ_U64(stack_of(m, 2).peak_blocks, 1);
	CHECK_EQ_U64(stack_of(m, 3).peak_blocks, 0);
	CHECK_EQ_U64(t.live_bytes, 150);
	CHECK_EQ_U64(t.live_blocks, 3);
	alloc(m, 6, 0x50, 1, 3);
	t = totals_of(m);
	CHECK_EQ_U64(t.peak_bytes, 151);
	CHECK_EQ_U64(t.peak_blocks, 4);
	CHECK_EQ_U64(t.peak_time_ns, 6000);
	CHECK_EQ_U64(stack_of(m, 1).peak_bytes, 0);
	CHECK_EQ_U64(stack_of(m, 2).peak_bytes, 150);
	CHECK_EQ_U64(stack_of(m, 3).peak_bytes, 1);
	model_free(m);
}

/* The peak of an earlier slice, met again in a later one, stays where it was. */
static void peak_met_again(void)
{
	struct model *m = new_model();
	struct trace_slice slice;
	alloc(m, 1, 0x10, 100, 1);
	release(m, 2, 0x10);
	REQUIRE(model_slice_take(m, &slice, NULL) == 0);
	CHECK(slice.rows[0].peak_known);
	CHECK_EQ_U64(slice.rows[0].peak_bytes, 100);
	alloc(m, 3, 0x10, 100, 2);
	REQUIRE(model_slice_take(m, &slice, NULL) == 0);
	CHECK_EQ_U64(slice.row_count, 1);
	CHECK(!slice.rows[0].peak_known);
	CHECK_EQ_U64(slice.max_live_bytes, 100);
	CHECK_EQ_U64(slice.max_live_time_ns, 3000);
	CHECK_EQ_U64(totals_of(m).peak_time_ns, 1000);
	CHECK_EQ_U64(stack_of(m, 1).peak_bytes, 100);
	CHECK_EQ_U64(stack_of(m, 2).peak_bytes, 0);
	model_free(m);
}

/* ---- temporary ---- */

static void temporary(void)
{
	struct model *m = new_model();
	by_thread(m, 1, TRACE_ALLOC, 0x10);
	by_thread(m, 2, TRACE_ALLOC, 0x20); /* another thread's doing does not matter */
	struct trace_event last = by_thread(m, 1, TRACE_FREE, 0x10);
	CHECK_EQ_U64(last.flags, TRACE_EVENT_TEMPORARY);
	last = by_thread(m, 1, TRACE_FREE, 0x20); /* not its own */
	CHECK_EQ_U64(last.flags, 0);
	by_thread(m, 1, TRACE_ALLOC, 0x30);
	by_thread(m, 1, TRACE_ALLOC, 0x40);
	CHECK_EQ_U64(by_thread(m, 1, TRACE_FREE, 0x30).flags, 0); /* not the last one */
	CHECK_EQ_U64(by_thread(m, 1, TRACE_FREE, 0x40).flags, 0); /* a free came between */
	by_thread(m, 1, TRACE_ALLOC, 0x50);
	by_thread(m, 1, TRACE_ALLOC_FAIL, 0); /* a failed call changes nothing else */
	CHECK_EQ_U64(by_thread(m, 1, TRACE_FREE, 0x50).flags, TRACE_EVENT_TEMPORARY);
	by_thread(m, 1, TRACE_ALLOC, 0x60);
	by_thread(m, 1, TRACE_FREE, 0x999); /* a stranger's block is a free, too */
	CHECK_EQ_U64(by_thread(m, 1, TRACE_FREE, 0x60).flags, 0);
	CHECK_EQ_U64(totals_of(m).temporary, 2);
	CHECK_EQ_U64(stack_of(m, 1).temporary, 2);
	model_free(m);
}

static void realloc_is_no_free_for_temporary(void)
{
	struct model *m = new_model();
	by_thread(m, 1, TRACE_ALLOC, 0x10);
	by_thread(m, 1, TRACE_REALLOC_FREE, 0x10);
	by_thread(m, 1, TRACE_REALLOC_ALLOC, 0x20);
	CHECK_EQ_U64(totals_of(m).temporary, 0);
	by_thread(m, 1, TRACE_FREE, 0x20); /* the block that the realloc began */
	CHECK_EQ_U64(totals_of(m).temporary, 1);
	CHECK_EQ_U64(totals_of(m).allocations, 2);
	CHECK_EQ_U64(totals_of(m).frees, 2);
	model_free(m);
}

/* ---- reallocs ---- */

static void realloc_that_fails(void)
{
	struct model *m = new_model();
	struct trace_slice slice;
	struct trace_event born = alloc(m, 1, 0x10, 100, 1);
	REQUIRE(model_slice_take(m, &slice, NULL) == 0);
	apply(m, (struct trace_event){.time_ns = 5000, .address = 0x10, .op = TRACE_REALLOC_FREE});
	CHECK_EQ_U64(totals_of(m).live_blocks, 0);
	CHECK_EQ_U64(totals_of(m).frees, 1);
	struct trace_event undo = apply(m, (struct trace_event){.time_ns = 6000,
								.size_bytes = 1ull << 40,
								.stack_id = 2,
								.op = TRACE_REALLOC_UNDO});
	CHECK_EQ_U64(undo.block_id, born.block_id);
	struct model_totals t = totals_of(m);
	CHECK_EQ_U64(t.live_blocks, 1);
	CHECK_EQ_U64(t.live_bytes, 100);
	CHECK_EQ_U64(t.frees, 0);
	CHECK_EQ_U64(t.failed, 1);
	CHECK_EQ_U64(stack_of(m, 2).failed, 1);
	CHECK_EQ_U64(t.peak_bytes, 100);
	struct trace_event end = release(m, 9, 0x10);
	CHECK_EQ_U64(end.block_id, born.block_id);
	CHECK_EQ_U64(end.stack_id, 1);
	CHECK_EQ_U64(end.size_bytes, 100);
	CHECK_EQ_U64(end.flags, TRACE_EVENT_OLD);
	REQUIRE(model_slice_take(m, &slice, NULL) == 0);
	REQUIRE(slice.row_count == 2 && slice.rows[0].death_count == 1);
	CHECK_EQ_U64(slice.rows[0].deaths[0].count, 1);
	CHECK_EQ_U64(slice.rows[0].deaths[0].birth_slice, 0);
	/* It lived from 1 to 9: 8 us, bucket floor(log2(8)) + 1 = 4; the undone end left none. */
	REQUIRE(slice.rows[0].life_bucket_count == 1);
	CHECK_EQ_U64(slice.rows[0].lives[0].bucket, 4);
	CHECK_EQ_U64(slice.rows[0].lives[0].count, 1);
	model_free(m);
}

/* The death stands in slice 1 and is taken back in slice 2: the sum over both is none. */
static void undo_in_a_later_slice(void)
{
	struct model *m = new_model();
	struct trace_slice slice;
	uint64_t deaths = 0, death_bytes = 0;
	alloc(m, 1, 0x10, 100, 1);
	REQUIRE(model_slice_take(m, &slice, NULL) == 0);
	apply(m, (struct trace_event){.time_ns = 5000, .address = 0x10, .op = TRACE_REALLOC_FREE});
	REQUIRE(model_slice_take(m, &slice, NULL) == 0);
	deaths += slice.rows[0].deaths[0].count;
	death_bytes += slice.rows[0].deaths[0].bytes;
	CHECK_EQ_U64(deaths, 1);
	CHECK_EQ_U64(slice.live_blocks, 0);
	apply(m, (struct trace_event){.time_ns = 6000, .stack_id = 1, .op = TRACE_REALLOC_UNDO});
	REQUIRE(model_slice_take(m, &slice, NULL) == 0);
	REQUIRE(slice.row_count == 1 && slice.rows[0].death_count == 1);
	deaths += slice.rows[0].deaths[0].count;
	death_bytes += slice.rows[0].deaths[0].bytes;
	CHECK_EQ_U64(deaths, 0);
	CHECK_EQ_U64(death_bytes, 0);
	CHECK_EQ_U64(slice.live_blocks, 1);
	CHECK_EQ_U64(slice.live_bytes, 100);
	model_free(m);
}

static void realloc_of_a_stranger(void)
{
	struct model *m = new_model();
	struct trace_event begin = by_thread(m, 1, TRACE_REALLOC_FREE, 0x70);
	CHECK_EQ_U64(begin.op, TRACE_REALLOC_FREE); /* the chain is not broken */
	CHECK_EQ_U64(begin.block_id, TRACE_NO_BLOCK);
	CHECK_EQ_U64(by_thread(m, 1, TRACE_REALLOC_ALLOC, 0x80).block_id, 0);
	CHECK_EQ_U64(totals_of(m).freed_older, 1);
	CHECK_EQ_U64(totals_of(m).frees, 0);
	by_thread(m, 1, TRACE_REALLOC_FREE, 0x90);
	CHECK_EQ_U64(by_thread(m, 1, TRACE_REALLOC_UNDO, 0).block_id, TRACE_NO_BLOCK);
	CHECK_EQ_U64(totals_of(m).live_blocks, 1);
	CHECK_EQ_U64(totals_of(m).failed, 1);
	model_free(m);
}

/* ---- other ends ---- */

static void frees_of_strangers(void)
{
	struct model *m = new_model();
	alloc(m, 1, 0x10, 10, 1);
	struct trace_event event = release(m, 2, 0x20);
	CHECK_EQ_U64(event.op, TRACE_FREE_OLDER);
	CHECK_EQ_U64(event.block_id, TRACE_NO_BLOCK);
	CHECK_EQ_U64(totals_of(m).freed_older, 1);
	CHECK_EQ_U64(totals_of(m).frees, 0);
	CHECK_EQ_U64(totals_of(m).live_blocks, 1);
	release(m, 3, 0x10);
	CHECK_EQ_U64(release(m, 4, 0x10).op, TRACE_FREE_OLDER); /* freed twice */
	model_free(m);
}

static void freed_unseen(void)
{
	struct model *m = new_model();
	alloc(m, 1, 0x10, 10, 1);
	CHECK(model_is_live(m, 0x10));
	struct trace_event event = apply(
		m, (struct trace_event){.time_ns = 2000, .address = 0x10, .op = TRACE_FREE_UNSEEN});
	CHECK_EQ_U64(event.block_id, 0);
	CHECK_EQ_U64(event.size_bytes, 10);
	CHECK(!model_is_live(m, 0x10));
	alloc(m, 2, 0x10, 20, 2);
	alloc(m, 3, 0x10, 30, 3); /* and without being told */
	struct model_totals t = totals_of(m);
	CHECK_EQ_U64(t.freed_unseen, 2);
	CHECK_EQ_U64(t.frees, 2);
	CHECK_EQ_U64(t.freed_bytes, 30);
	CHECK_EQ_U64(t.live_bytes, 30);
	CHECK_EQ_U64(t.temporary, 0);
	CHECK_EQ_U64(stack_of(m, 2).frees, 1);
	model_free(m);
}

static void empty_blocks(void)
{
	struct model *m = new_model();
	alloc(m, 1, 0x10, 0, 1);
	CHECK_EQ_U64(totals_of(m).live_blocks, 1);
	CHECK_EQ_U64(totals_of(m).allocations, 1);
	struct trace_slice slice;
	REQUIRE(model_slice_take(m, &slice, NULL) == 0);
	REQUIRE(slice.rows[0].size_bucket_count == 1);
	CHECK_EQ_U64(slice.rows[0].sizes[0].bucket, 0);
	release(m, 2, 0x10);
	CHECK_EQ_U64(totals_of(m).live_blocks, 0);
	model_free(m);
}

static void failed_calls(void)
{
	struct model *m = new_model();
	apply(m, (struct trace_event){
			 .size_bytes = 1ull << 50, .stack_id = 4, .op = TRACE_ALLOC_FAIL});
	struct model_totals t = totals_of(m);
	CHECK_EQ_U64(t.failed, 1);
	CHECK_EQ_U64(t.allocations, 0);
	CHECK_EQ_U64(t.allocated_bytes, 0);
	CHECK_EQ_U64(t.stacks, 0); /* it has not allocated */
	CHECK_EQ_U64(stack_of(m, 4).failed, 1);
	model_free(m);
}

/* ---- buckets and slices ---- */

static void buckets(void)
{
	struct model *m = new_model();
	struct trace_slice slice;
	/* 1 -> 1; 2, 3 -> 2; 4 -> 3; 255 -> 8; 256 -> 9; 511 -> 9; 2^20 -> 21: 9 and 1 share a
	 * place */
	static const uint64_t sizes[] = {1, 2, 3, 4, 255, 256, 511, 1 << 20};
	static const uint32_t want[][2] = {{1, 1}, {2, 2}, {3, 1}, {8, 1}, {9, 2}, {21, 1}};
	for (uint64_t i = 0; i < 8; i++)
		alloc(m, 0, 0x10 + 16 * i, sizes[i], 1);
	REQUIRE(model_slice_take(m, &slice, NULL) == 0);
	REQUIRE(slice.rows[0].size_bucket_count == 6);
	for (size_t i = 0; i < 6; i++) {
		CHECK_EQ_U64(slice.rows[0].sizes[i].bucket, want[i][0]);
		CHECK_EQ_U64(slice.rows[0].sizes[i].count, want[i][1]);
	}
	alloc(m, 0, 0x999, 1ull << 47, 1); /* beyond the last but one: the last takes it */
	REQUIRE(model_slice_take(m, &slice, NULL) == 0);
	CHECK_EQ_U64(slice.rows[0].sizes[0].bucket, TRACE_BUCKETS - 1);
	model_free(m);
}

static void slices_fall_due(void)
{
	struct model *m;
	struct trace_slice slice;
	struct model_options options = {.slice_events = 10, .slice_ns = 1000000};
	REQUIRE(model_new(&options, &m, NULL) == 0);
	CHECK(!model_slice_due(m));
	struct trace_sample sample = {.time_ns = 9000000};
	model_apply_sample(m, &sample);
	CHECK(!model_slice_due(m)); /* no events, no slice */
	for (uint64_t i = 0; i < 9; i++)
		alloc(m, 10000, 0x10 + 16 * i, 1, 1);
	CHECK(!model_slice_due(m));
	alloc(m, 10000, 0x900, 1, 1);
	CHECK(model_slice_due(m));
	REQUIRE(model_slice_take(m, &slice, NULL) == 0);
	CHECK_EQ_U64(slice.event_count, 10);
	alloc(m, 500000, 0xa00, 1, 1); /* long idle, but the slice begins with its first event */
	CHECK(!model_slice_due(m));
	alloc(m, 501000, 0xb00, 1, 1);
	CHECK(model_slice_due(m)); /* 1 ms later */
	for (int i = 0; i < 1023; i++)
		REQUIRE(model_slice_take(m, &slice, NULL) == 0);
	for (uint64_t i = 0; i < 19; i++)
		alloc(m, 600000, 0x10000 + 16 * i, 1, 1);
	CHECK(!model_slice_due(m)); /* after 1,024 slices both limits have doubled */
	alloc(m, 600000, 0x20000, 1, 1);
	CHECK(model_slice_due(m));
	model_free(m);
}

/* Where events come late, samples are far ahead of them: no slice for every few events. */
static void samples_far_ahead(void)
{
	struct model *m;
	struct trace_slice slice;
	const struct model_options options = {.slice_ns = 1000000};
	REQUIRE(model_new(&options, &m, NULL) == 0);
	unsigned slices = 0;
	for (uint64_t i = 0; i < 100; i++) {
		if (i % 50 == 0) {
			struct trace_sample sample = {.time_ns = 9000000000 + i * 100000000};
			model_apply_sample(m, &sample);
		}
		alloc(m, 1000 + i, 0x10 + 16 * i, 1, 1);
		if (model_slice_due(m)) {
			REQUIRE(model_slice_take(m, &slice, NULL) == 0);
			slices++;
		}
	}
	CHECK_EQ_U64(slices, 2);
	model_free(m);
}

/* ---- samples ---- */

static void rss_and_its_parts(void)
{
	struct model *m = new_model();
	struct trace_map_event map = {
		.time_ns = 1500, .address = 0x100000, .bytes = 8192, .prot_or_advice = 3};
	struct trace_sample sample = {.time_ns = 5000, .rss_bytes = 1 << 20, .agent_bytes = 77};
	alloc(m, 1, 0x10, 100, 1);
	REQUIRE(model_apply_map(m, &map, NULL) == 0);
	model_apply_sample(m, &sample);
	alloc(m, 5, 0x20, 10, 1); /* arrives after the sample, but is of its time */
	map.time_ns = 5000;
	map.address = 0x200000;
	REQUIRE(model_apply_map(m, &map, NULL) == 0);
	alloc(m, 6, 0x30, 1000, 1); /* later */
	map.time_ns = 7000;
	map.address = 0x300000;
	REQUIRE(model_apply_map(m, &map, NULL) == 0);
	sample = (struct trace_sample){.time_ns = 9000, .rss_bytes = 1 << 20};
	model_apply_sample(m, &sample); /* as large, but the first counts */
	struct model_totals t = totals_of(m);
	CHECK_EQ_U64(t.peak_rss_bytes, 1 << 20);
	CHECK_EQ_U64(t.peak_rss_time_ns, 5000);
	CHECK_EQ_U64(t.rss_heap_bytes, 110);
	CHECK_EQ_U64(t.rss_mapped_bytes, 2 * 8192);
	CHECK_EQ_U64(t.rss_agent_bytes, 77);
	CHECK_EQ_U64(t.duration_ns, 9000);
	model_free(m);
}

/* ---- limits ---- */

static void sums_saturate(void)
{
	struct model *m = new_model();
	const uint64_t most = (1ull << 48) - 1;
	struct trace_event event = alloc(m, 1, 0x10, UINT64_MAX, 1);
	CHECK_EQ_U64(event.size_bytes, most);
	CHECK(totals_of(m).saturated);
	for (uint64_t i = 1; i < 65536 + 100; i++)
		alloc(m, 1, 0x10 + 16 * i, most, 1);
	/* 65,536 of them are 2^64 - 65,536; what is left is 65,535 bytes more. */
	CHECK_EQ_U64(totals_of(m).allocated_bytes, UINT64_MAX);
	CHECK_EQ_U64(totals_of(m).live_bytes, UINT64_MAX);
	CHECK_EQ_U64(stack_of(m, 1).live_bytes, UINT64_MAX);
	for (uint64_t i = 0; i < 65536 + 100; i++)
		release(m, 2, 0x10 + 16 * i);
	CHECK_EQ_U64(totals_of(m).live_bytes, 0);
	CHECK_EQ_U64(totals_of(m).live_blocks, 0);
	CHECK_EQ_U64(totals_of(m).freed_bytes, UINT64_MAX);
	model_free(m);
}

static void times_never_fall(void)
{
	struct model *m = new_model();
	alloc(m, 100, 0x10, 1, 1);
	release(m, 50, 0x10); /* a clock that went back: the block lived no time, not 2^64 us */
	struct trace_slice slice;
	REQUIRE(model_slice_take(m, &slice, NULL) == 0);
	REQUIRE(slice.rows[0].life_bucket_count == 1);
	CHECK_EQ_U64(slice.rows[0].lives[0].bucket, 0);
	alloc(m, UINT64_MAX / 1000, 0x10, 1, 1);
	release(m, UINT64_MAX / 1000, 0x10);
	model_free(m);
}

/* A million blocks: pages split, chunks are added, and each block is found again. */
static void many_blocks(void)
{
	enum { COUNT = 1000000, GROUP = 500 };
	struct model *m = new_model();
	struct trace_event events[GROUP];
	struct trace_slice slice;
	for (int pass = 0; pass < 2; pass++) {
		for (uint64_t i = 0; i < COUNT; i += GROUP) {
			for (uint64_t k = 0; k < GROUP; k++)
				events[k] = (struct trace_event){
					.address = 0x1000 + 48 * (i + k),
					.size_bytes = i + k,
					.stack_id = (uint32_t)((i + k) % 50000),
					.thread_id = (uint32_t)k,
					.op = pass ? TRACE_FREE : TRACE_ALLOC};
			REQUIRE(model_apply(m, events, GROUP, NULL) == 0);
			CHECK_EQ_U64(events[7].block_id, i + 7);
			CHECK_EQ_U64(events[9].size_bytes, i + 9);
			CHECK_EQ_U64(events[11].stack_id, (i + 11) % 50000);
			if (model_slice_due(m))
				REQUIRE(model_slice_take(m, &slice, NULL) == 0);
		}
		CHECK_EQ_U64(totals_of(m).live_blocks, pass ? 0 : COUNT);
		/* 64 bytes per live block, 512 per stack; the rest is some MiB of room. */
		CHECK(model_memory_bytes(m) < 64ull * COUNT + 512ull * 50000 + (64 << 20));
	}
	CHECK_EQ_U64(totals_of(m).peak_bytes, (uint64_t)COUNT * (COUNT - 1) / 2);
	CHECK_EQ_U64(totals_of(m).stacks, 50000);
	model_free(m);
}

/* ---- lack of memory ---- */

/* Until everything fits, allocation number n fails; a failed event was not applied. */
static void feed(struct model *m, long n)
{
	uint64_t done = 0;
	for (uint64_t i = 0; i < 30000; i++) {
		struct trace_event event = {.time_ns = i * 1000,
					    .address = 0x10 + 16 * (i / 2 * 7 % 9001),
					    .size_bytes = i % 100,
					    .stack_id = (uint32_t)(i % 3000),
					    .thread_id = (uint32_t)(i % 5000),
					    .op = i % 7 == 6 ? TRACE_REALLOC_FREE : TRACE_ALLOC};
		tm_alloc_fail_at(i == (uint64_t)n * 100 ? 0 : -1);
		int rc = model_apply(m, &event, 1, NULL);
		tm_alloc_fail_at(-1);
		if (rc) {
			CHECK_EQ_I64(rc, -ENOMEM);
			CHECK_EQ_U64(totals_of(m).events, done);
			REQUIRE(model_apply(m, &event, 1, NULL) == 0);
		}
		done++;
	}
	CHECK_EQ_U64(totals_of(m).events, done);
}

static void no_memory_once(void)
{
	struct model *m = new_model();
	feed(m, -1);
	struct model_totals want = totals_of(m), got;
	model_free(m);
	for (long n = 0; n < 300; n += 7) {
		m = new_model();
		feed(m, n);
		got = totals_of(m);
		CHECK_MEM(&got, &want, sizeof got);
		model_free(m);
	}
}

/* A whole little life, with allocation number n failing, for all n. */
static int live_a_life(void)
{
	struct model *m;
	struct trace_event events[64];
	struct trace_slice slice;
	int rc = model_new(NULL, &m, NULL);
	if (rc)
		return rc;
	for (uint32_t round = 0; round < 40 && !rc; round++) {
		for (uint32_t i = 0; i < 64; i++) {
			uint32_t serial = round * 64 + i;
			events[i] = (struct trace_event){.time_ns = serial * 900ull,
							 .address = 0x10 + 16 * (serial % 700),
							 .size_bytes = 1u << (i % 30),
							 .stack_id = serial * 37 % 5000,
							 .thread_id = serial % 3000};
			if (i % 3 == 2)
				events[i].op = i % 2 ? TRACE_FREE : TRACE_REALLOC_FREE;
		}
		rc = model_apply(m, events, 64, NULL);
		struct trace_map_event map = {.address = 8192ull * (1 + round), .bytes = 4096};
		if (!rc)
			rc = model_apply_map(m, &map, NULL);
		if (!rc && round % 9 == 8)
			rc = model_slice_take(m, &slice, NULL);
	}
	/* Whatever happened: the sums agree with the stacks. */
	struct model_totals t = totals_of(m);
	CHECK_EQ_U64(t.allocations - t.frees, t.live_blocks);
	CHECK_EQ_U64(t.allocated_bytes - t.freed_bytes, t.live_bytes);
	model_free(m);
	return rc;
}

static void no_memory_anywhere(void)
{
	int rc = -1;
	for (long n = 0; rc && n < 5000; n++) {
		tm_alloc_fail_at(n);
		rc = live_a_life();
		tm_alloc_fail_at(-1);
		CHECK(rc == 0 || rc == -ENOMEM);
	}
	CHECK_EQ_I64(rc, 0);
}

static const struct tap_case cases[] = {
	{.name = "the peak is the largest sum at its first moment, and shares add up",
	 .run = peak_and_shares},
	{.name = "a peak that is met again stays where it was", .run = peak_met_again},
	{.name = "temporary means freed by the thread's next event", .run = temporary},
	{.name = "a realloc is no free for temporary", .run = realloc_is_no_free_for_temporary},
	{.name = "a block whose realloc fails lives on", .run = realloc_that_fails},
	{.name = "a realloc that fails in the next slice leaves sums right",
	 .run = undo_in_a_later_slice},
	{.name = "a realloc of an older block begins a new one", .run = realloc_of_a_stranger},
	{.name = "frees of older blocks are counted and change nothing else",
	 .run = frees_of_strangers},
	{.name = "blocks freed unseen are closed and counted", .run = freed_unseen},
	{.name = "malloc(0) is a block", .run = empty_blocks},
	{.name = "failed calls change nothing else", .run = failed_calls},
	{.name = "sizes fall into the right buckets", .run = buckets},
	{.name = "slices end in time", .run = slices_fall_due},
	{.name = "slices end in time where events come late", .run = samples_far_ahead},
	{.name = "peak RSS is told with its parts", .run = rss_and_its_parts},
	{.name = "sums beyond all bounds saturate and say so", .run = sums_saturate},
	{.name = "a clock that goes back gives no absurd lifetimes", .run = times_never_fall},
	{.name = "a million blocks are all found again, within the memory promised",
	 .run = many_blocks},
	{.name = "an event that found no memory can be given again", .run = no_memory_once},
	{.name = "lack of memory anywhere is an error, and sums still agree",
	 .run = no_memory_anywhere},
};
TAP_MAIN(cases)
