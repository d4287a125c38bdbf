/* SPDX-License-Identifier: Apache-2.0 */
/* The model against the slow and obvious one, on random streams. */
#include "harness/tap.h"
#include "model/model.h"
#include "model_reference.h"

#include <stdlib.h>
#include <string.h>

enum { EVENTS = 6000 };

/* What the slices have said so far: births and deaths by (birth slice, death slice). */
struct sums {
	struct ref_stack stacks[REF_STACKS];
	uint64_t births[REF_SLICES], birth_bytes[REF_SLICES];
	uint64_t (*deaths)[REF_SLICES], (*death_bytes)[REF_SLICES]; /* [birth][death] */
};

struct run {
	struct model *m;
	struct ref_model *ref;
	struct ref_source source;
	struct sums *sums;
};

static void check_event(const struct trace_event *got, const struct trace_event *want)
{
	CHECK_EQ_U64(got->op, want->op);
	CHECK_EQ_U64(got->block_id, want->block_id);
	CHECK_EQ_U64(got->stack_id, want->stack_id);
	CHECK_EQ_U64(got->size_bytes, want->size_bytes);
	CHECK_EQ_U64(got->flags, want->flags);
}

static void check_totals(const struct run *run)
{
	const struct ref_model *ref = run->ref;
	struct model_totals t;
	uint64_t bytes = 0;
	model_totals(run->m, &t);
	for (uint64_t i = 0; i < ref->block_count; i++)
		bytes += ref->blocks[i].size_bytes;
	CHECK_EQ_U64(t.events, ref->events);
	CHECK_EQ_U64(t.allocations, ref->block_count);
	CHECK_EQ_U64(t.allocated_bytes, bytes);
	CHECK_EQ_U64(t.live_blocks, ref_live_blocks(ref));
	CHECK_EQ_U64(t.live_bytes, ref_live_bytes(ref));
	CHECK_EQ_U64(t.frees, ref->block_count - ref_live_blocks(ref));
	CHECK_EQ_U64(t.freed_bytes, bytes - ref_live_bytes(ref));
	CHECK_EQ_U64(t.temporary, ref->temporary);
	CHECK_EQ_U64(t.failed, ref->failed);
	CHECK_EQ_U64(t.freed_unseen, ref->freed_unseen);
	CHECK_EQ_U64(t.freed_older, ref->freed_older);
	CHECK_EQ_U64(t.peak_bytes, ref->peak_bytes);
	CHECK_EQ_U64(t.peak_blocks, ref->peak_blocks);
	CHECK_EQ_U64(t.peak_time_ns, ref->peak_ns);
	CHECK_EQ_U64(t.duration_ns, ref->now_ns / 1000 * 1000);
}

struct stack_check {
	const struct ref_model *ref;
	uint32_t next_id;
	uint64_t peak_bytes;
};

static int check_stack(void *ctx, const struct model_stack *got)
{
	struct stack_check *check = ctx;
	for (; check->next_id < got->stack_id; check->next_id++) {
		CHECK_EQ_U64(check->ref->stacks[check->next_id].births, 0);
		CHECK_EQ_U64(check->ref->stacks[check->next_id].failed, 0);
	}
	check->next_id++;
	check->peak_bytes += got->peak_bytes;
	const struct ref_stack *want = &check->ref->stacks[got->stack_id];
	CHECK_EQ_U64(got->allocations, want->births);
	CHECK_EQ_U64(got->allocated_bytes, want->birth_bytes);
	CHECK_EQ_U64(got->frees, want->deaths);
	CHECK_EQ_U64(got->freed_bytes, want->death_bytes);
	CHECK_EQ_U64(got->temporary, want->temporary);
	CHECK_EQ_U64(got->failed, want->failed);
	CHECK_EQ_U64(got->live_blocks, want->live_blocks);
	CHECK_EQ_U64(got->live_bytes, want->live_bytes);
	CHECK_EQ_U64(got->peak_blocks, want->peak_blocks);
	CHECK_EQ_U64(got->peak_bytes, want->peak_bytes);
	return 0;
}

static void check_stacks(const struct run *run)
{
	struct stack_check check = {.ref = run->ref};
	CHECK_EQ_I64(model_stacks(run->m, check_stack, &check), 0);
	CHECK_EQ_U64(check.peak_bytes, run->ref->peak_bytes); /* shares add up */
}

static int check_live_block(void *ctx, const struct model_block *got)
{
	struct ref_model *ref = ctx;
	if (!CHECK(got->block_id < ref->block_count))
		return 1;
	const struct ref_block *want = &ref->blocks[got->block_id];
	CHECK(want->live);
	CHECK_EQ_U64(got->address, want->address);
	CHECK_EQ_U64(got->size_bytes, want->size_bytes);
	CHECK_EQ_U64(got->birth_ns, want->birth_ns / 1000 * 1000);
	CHECK_EQ_U64(got->stack_id, want->stack_id);
	CHECK_EQ_U64(got->thread_id, want->thread_id);
	return 0;
}

/* ---- slices ---- */

static void check_buckets(const struct trace_bucket *got, size_t count, const uint64_t *want)
{
	uint64_t all[TRACE_BUCKETS] = {0};
	for (size_t i = 0; i < count; i++) {
		CHECK(i == 0 || got[i].bucket > got[i - 1].bucket);
		REQUIRE(got[i].bucket < TRACE_BUCKETS);
		CHECK(got[i].count != 0);
		all[got[i].bucket] = got[i].count;
	}
	CHECK_MEM(all, want, sizeof all);
}

static void check_deaths(struct run *run, const struct trace_slice_row *got, uint32_t slice_id)
{
	const struct ref_row *want = &run->ref->rows[got->stack_id];
	struct ref_stack *sum = &run->sums->stacks[got->stack_id];
	uint64_t counts[REF_SLICES] = {0}, bytes[REF_SLICES] = {0};
	for (uint32_t i = 0; i < got->death_count; i++) {
		const struct trace_death *death = &got->deaths[i];
		CHECK(i == 0 || death->birth_slice > got->deaths[i - 1].birth_slice);
		REQUIRE(death->birth_slice <= slice_id);
		counts[death->birth_slice] = death->count;
		bytes[death->birth_slice] = death->bytes;
		sum->deaths += death->count;
		sum->death_bytes += death->bytes;
		run->sums->deaths[death->birth_slice][slice_id] += death->count;
		run->sums->death_bytes[death->birth_slice][slice_id] += death->bytes;
	}
	CHECK_MEM(counts, want->death_count, sizeof counts);
	CHECK_MEM(bytes, want->death_bytes, sizeof bytes);
}

static void check_row(struct run *run, const struct trace_slice_row *got, uint32_t slice_id)
{
	const struct ref_row *want = &run->ref->rows[got->stack_id];
	struct ref_stack *sum = &run->sums->stacks[got->stack_id];
	CHECK(want->touched);
	CHECK_EQ_U64(got->births, want->births);
	CHECK_EQ_U64(got->birth_bytes, want->birth_bytes);
	CHECK_EQ_U64(got->temporary, want->temporary);
	CHECK_EQ_U64(got->failed, want->failed);
	check_buckets(got->sizes, got->size_bucket_count, want->sizes);
	check_buckets(got->lives, got->life_bucket_count, want->lives);
	CHECK(got->peak_known == run->ref->peak_rose);
	if (got->peak_known) {
		sum->peak_blocks = got->peak_count;
		sum->peak_bytes = got->peak_bytes;
	}
	sum->births += got->births;
	sum->birth_bytes += got->birth_bytes;
	run->sums->births[slice_id] += got->births;
	run->sums->birth_bytes[slice_id] += got->birth_bytes;
	check_deaths(run, got, slice_id);
}

/* Live at the end of slice t: born by t, dead after t. */
static void check_rectangle(const struct run *run, uint32_t t)
{
	uint64_t blocks = 0, bytes = 0;
	for (uint32_t birth = 0; birth <= t; birth++) {
		blocks += run->sums->births[birth];
		bytes += run->sums->birth_bytes[birth];
		for (uint32_t death = birth; death <= t; death++) {
			blocks -= run->sums->deaths[birth][death];
			bytes -= run->sums->death_bytes[birth][death];
		}
	}
	CHECK_EQ_U64(blocks, ref_live_blocks(run->ref));
	CHECK_EQ_U64(bytes, ref_live_bytes(run->ref));
}

/* A stack without a row had, at the peak, what it had live at the slice's start. */
static void check_shares(struct run *run, const struct trace_slice *slice)
{
	bool rose = slice->row_count > 0 && slice->rows[0].peak_known;
	for (uint32_t s = 0; s < REF_STACKS; s++) {
		struct ref_stack *sum = &run->sums->stacks[s];
		if (rose && !run->ref->rows[s].touched) {
			sum->peak_blocks = sum->births - sum->deaths;
			sum->peak_bytes = sum->birth_bytes - sum->death_bytes;
		}
		CHECK_EQ_U64(sum->peak_blocks, run->ref->stacks[s].peak_blocks);
		CHECK_EQ_U64(sum->peak_bytes, run->ref->stacks[s].peak_bytes);
	}
}

static void cut(struct run *run)
{
	struct trace_slice slice;
	struct tm_error err;
	REQUIRE(model_slice_take(run->m, &slice, &err) == 0);
	CHECK_EQ_U64(slice.slice_id, run->ref->slice_id);
	CHECK_EQ_U64(slice.live_bytes, ref_live_bytes(run->ref));
	CHECK_EQ_U64(slice.live_blocks, ref_live_blocks(run->ref));
	CHECK_EQ_U64(slice.first_event + slice.event_count, run->ref->events);
	CHECK_EQ_U64(slice.end_ns, run->ref->now_ns / 1000 * 1000);
	CHECK_EQ_U64(slice.min_live_bytes, run->ref->min_bytes);
	CHECK_EQ_U64(slice.max_live_bytes, run->ref->max_bytes);
	CHECK_EQ_U64(slice.peak_bytes, run->ref->peak_bytes);
	CHECK_EQ_U64(slice.peak_blocks, run->ref->peak_blocks);
	CHECK_EQ_U64(slice.peak_time_ns, run->ref->peak_ns);
	uint32_t touched = 0;
	for (size_t s = 0; s < REF_STACKS; s++)
		touched += run->ref->rows[s].touched;
	CHECK_EQ_U64(slice.row_count, touched);
	uint64_t births = 0;
	for (uint32_t i = 0; i < slice.row_count; i++) {
		CHECK(i == 0 || slice.rows[i].stack_id > slice.rows[i - 1].stack_id);
		REQUIRE(slice.rows[i].stack_id < REF_STACKS);
		check_row(run, &slice.rows[i], slice.slice_id);
		births += slice.rows[i].births;
	}
	CHECK_EQ_U64(slice.births, births);
	check_shares(run, &slice);
	check_rectangle(run, slice.slice_id);
	/* Short of memory: what is given back changes no figure. */
	if (slice.slice_id % 3 == 1)
		model_shrink(run->m);
	ref_next_slice(run->ref);
}

/* ---- runs ---- */

static void run_random(uint64_t seed, uint32_t addresses, unsigned cut_each, size_t batch_max)
{
	struct run run = {
		.ref = ref_new(),
		.source = {.random = seed, .addresses = addresses, .honest = seed % 2},
		.sums = calloc(1, sizeof *run.sums),
	};
	run.sums->deaths = calloc(REF_SLICES, sizeof *run.sums->deaths);
	run.sums->death_bytes = calloc(REF_SLICES, sizeof *run.sums->death_bytes);
	REQUIRE(model_new(NULL, &run.m, NULL) == 0);
	struct trace_event batch[256], want[256];
	for (size_t done = 0; done < EVENTS;) {
		size_t count = 0, limit = 1 + ref_random(&run.source, batch_max);
		while (count < limit) {
			size_t made = ref_make(&run.source, run.ref, &batch[count]);
			for (size_t i = 0; i < made; i++, count++)
				ref_apply(run.ref, &batch[count], &want[count]);
		}
		REQUIRE(model_apply(run.m, batch, count, NULL) == 0);
		for (size_t i = 0; i < count; i++)
			check_event(&batch[i], &want[i]);
		done += count;
		if (ref_random(&run.source, cut_each) == 0 && run.ref->slice_id < REF_SLICES - 2)
			cut(&run);
		if (ref_random(&run.source, 8) == 0) {
			check_totals(&run);
			check_stacks(&run);
		}
	}
	cut(&run);
	check_totals(&run);
	check_stacks(&run);
	CHECK_EQ_I64(model_live_blocks(run.m, check_live_block, run.ref), 0);
	model_free(run.m);
	ref_free(run.ref);
	free(run.sums->deaths);
	free(run.sums->death_bytes);
	free(run.sums);
}

static void few_addresses(void)
{
	for (uint64_t seed = 1; seed <= 6; seed++)
		run_random(seed, 12, 10, 100);
}

static void many_addresses(void)
{
	for (uint64_t seed = 11; seed <= 14; seed++)
		run_random(seed, 2000, 6, 250);
}

static void single_events(void)
{
	for (uint64_t seed = 21; seed <= 24; seed++)
		run_random(seed, 100, 40, 1);
}

static void few_slices(void)
{
	for (uint64_t seed = 31; seed <= 34; seed++)
		run_random(seed, 300, 1000, 200);
}

static const struct tap_case cases[] = {
	{.name = "figures are right where addresses are reused at once", .run = few_addresses},
	{.name = "figures are right where many blocks live", .run = many_addresses},
	{.name = "figures do not depend on the batches they came in", .run = single_events},
	{.name = "figures are right within one long slice", .run = few_slices},
};
TAP_MAIN(cases)
