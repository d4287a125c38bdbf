/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped memory, by hand and against one byte per page. */
#include "base/memory.h"
#include "harness/tap.h"
#include "model/model.h"

#include <errno.h>
#include <string.h>

enum { PAGE = 4096, NONE = 0, READ_WRITE = 3 };

static struct model *new_model(void)
{
	struct model *m;
	REQUIRE(model_new(NULL, &m, NULL) == 0);
	return m;
}

static void apply(struct model *m, struct trace_map_event event)
{
	REQUIRE(model_apply_map(m, &event, NULL) == 0);
}

static void map(struct model *m, uint64_t page, uint64_t pages, uint32_t prot, uint32_t flags)
{
	apply(m, (struct trace_map_event){.address = page * PAGE,
					  .bytes = pages * PAGE,
					  .prot_or_advice = prot,
					  .flags = flags,
					  .op = TRACE_MAP});
}

static void other(struct model *m, enum trace_map_op op, uint64_t page, uint64_t pages,
		  uint32_t prot)
{
	apply(m, (struct trace_map_event){.address = page * PAGE,
					  .bytes = pages * PAGE,
					  .prot_or_advice = prot,
					  .op = (uint8_t)op});
}

static void check(const struct model *m, uint64_t mapped, uint64_t reserved, uint64_t file)
{
	struct model_totals t;
	model_totals(m, &t);
	CHECK_EQ_U64(t.mapped_bytes, mapped * PAGE);
	CHECK_EQ_U64(t.reserved_bytes, reserved * PAGE);
	CHECK_EQ_U64(t.file_mapped_bytes, file * PAGE);
}

static void kinds(void)
{
	struct model *m = new_model();
	map(m, 100, 10, READ_WRITE, 0);
	map(m, 200, 20, NONE, 0);
	map(m, 300, 30, 1, TRACE_MAP_FILE);
	check(m, 10, 20, 30);
	other(m, TRACE_MAP_PROTECT, 205, 5, READ_WRITE); /* committed out of the reservation */
	check(m, 15, 15, 30);
	other(m, TRACE_MAP_PROTECT, 207, 1, NONE);
	check(m, 14, 16, 30);
	other(m, TRACE_MAP_PROTECT, 100, 300, READ_WRITE); /* holes between are no mappings */
	check(m, 30, 0, 30);
	other(m, TRACE_MAP_ADVISE, 100, 10, 4); /* given back, but still mapped */
	check(m, 30, 0, 30);
	struct model_totals t;
	model_totals(m, &t);
	CHECK_EQ_U64(t.mapped_peak_bytes, 30 * PAGE);
	CHECK_EQ_U64(t.reserved_peak_bytes, 20 * PAGE);
	CHECK_EQ_U64(t.file_mapped_peak_bytes, 30 * PAGE);
	model_free(m);
}

static void parts(void)
{
	struct model *m = new_model();
	map(m, 100, 10, READ_WRITE, 0);
	other(m, TRACE_UNMAP, 104, 2, 0);
	check(m, 8, 0, 0);
	other(m, TRACE_UNMAP, 90, 12, 0); /* 100 and 101 */
	check(m, 6, 0, 0);
	map(m, 103, 5, READ_WRITE, TRACE_MAP_FILE); /* over 103, 106, 107 */
	check(m, 3, 0, 5);
	other(m, TRACE_UNMAP, 0, 1000, 0);
	check(m, 0, 0, 0);
	apply(m, (struct trace_map_event){.address = 50 * PAGE, .bytes = 1, .prot_or_advice = 3});
	check(m, 1, 0, 0); /* a part of a page is a page */
	model_free(m);
}

static void moves(void)
{
	struct model *m = new_model();
	map(m, 100, 10, READ_WRITE, TRACE_MAP_FILE);
	other(m, TRACE_UNMAP, 100, 10, 0); /* the begin half of mremap, then its end */
	apply(m, (struct trace_map_event){
			 .address = 500 * PAGE, .bytes = 20 * PAGE, .moved_from = 100 * PAGE});
	check(m, 0, 0, 20); /* still the file's, though mremap did not say so */
	apply(m, (struct trace_map_event){
			 .address = 700 * PAGE, .bytes = 15 * PAGE, .moved_from = 500 * PAGE});
	check(m, 0, 0, 15); /* without a begin half */
	apply(m, (struct trace_map_event){.address = 900 * PAGE,
					  .bytes = PAGE,
					  .moved_from = 800 * PAGE,
					  .prot_or_advice = READ_WRITE});
	check(m, 1, 0, 15); /* from a place that nobody knows */
	model_free(m);
}

static void break_is_apart(void)
{
	struct model *m = new_model();
	struct trace_map_event event = {.address = 1 << 20, .bytes = 3 << 20, .op = TRACE_MAP_BRK};
	apply(m, event);
	event = (struct trace_map_event){.address = 3 << 20, .bytes = 2 << 20, .op = TRACE_MAP_BRK};
	apply(m, event);
	struct model_totals t;
	model_totals(m, &t);
	CHECK_EQ_U64(t.mapped_bytes, 0);
	CHECK_EQ_U64(t.brk_bytes, 1 << 20);
	CHECK_EQ_U64(t.brk_peak_bytes, 2 << 20);
	model_free(m);
}

static void absurd_ranges(void)
{
	struct model *m = new_model();
	apply(m, (struct trace_map_event){.address = UINT64_MAX - 5, .bytes = 100});
	apply(m, (struct trace_map_event){.address = 4096, .bytes = UINT64_MAX});
	apply(m, (struct trace_map_event){.address = 4096, .bytes = UINT64_MAX - 4096 - 10});
	apply(m, (struct trace_map_event){.address = 4096, .bytes = 0, .op = TRACE_UNMAP});
	check(m, 0, 0, 0);
	model_free(m);
}

/* ---- random, against one byte per page: 0 free, else 1 + kind ---- */

enum { PAGES = 300 };

static uint64_t next_random(uint64_t *state, uint64_t below)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (*state >> 33) % below;
}

static void check_pages(const struct model *m, const uint8_t *pages)
{
	uint64_t counts[5] = {0};
	for (size_t i = 0; i < PAGES; i++)
		counts[pages[i]]++;
	check(m, counts[1], counts[2] + counts[4], counts[3]);
}

static void random_against_pages(void)
{
	uint64_t state = 7, peak = 0;
	uint8_t pages[PAGES] = {0};
	struct model *m = new_model();
	for (int i = 0; i < 20000; i++) {
		uint64_t start = next_random(&state, PAGES - 1);
		uint64_t count = 1 + next_random(&state, (PAGES - start) < 40 ? PAGES - start : 40);
		uint32_t prot = next_random(&state, 2) ? READ_WRITE : NONE;
		uint32_t flags = next_random(&state, 3) ? 0 : TRACE_MAP_FILE;
		uint8_t kind = (uint8_t)(1 + (prot ? 0 : 1) + (flags ? 2 : 0));
		switch (next_random(&state, 3)) {
		case 0:
			map(m, 1 + start, count, prot, flags);
			memset(pages + start, kind, count);
			break;
		case 1:
			other(m, TRACE_UNMAP, 1 + start, count, 0);
			memset(pages + start, 0, count);
			break;
		default:
			other(m, TRACE_MAP_PROTECT, 1 + start, count, prot);
			for (uint64_t p = start; p < start + count; p++) {
				if (pages[p])
					pages[p] = (uint8_t)(((pages[p] - 1) & 2) + (prot ? 1 : 2));
			}
		}
		check_pages(m, pages);
		uint64_t mapped = 0;
		for (size_t p = 0; p < PAGES; p++)
			mapped += pages[p] == 1;
		peak = mapped > peak ? mapped : peak;
	}
	struct model_totals t;
	model_totals(m, &t);
	CHECK_EQ_U64(t.mapped_peak_bytes, peak * PAGE);
	model_free(m);
}

/* A program that commits its reservation page by page must not cost memory or time for each. */
static void page_by_page(void)
{
	struct model *m = new_model();
	uint64_t before = model_memory_bytes(m);
	map(m, 1, 1 << 20, NONE, 0);
	for (uint64_t i = 0; i < 1 << 20; i++)
		other(m, TRACE_MAP_PROTECT, 1 + i, 1, READ_WRITE);
	check(m, 1 << 20, 0, 0);
	CHECK(model_memory_bytes(m) - before < 64 * 1024);
	model_free(m);
}

static void half_a_million_ranges(void)
{
	enum { COUNT = 500000 };
	struct model *m = new_model();
	for (uint64_t i = 0; i < COUNT; i++)
		map(m, 2 + 2 * (i * 7919 % COUNT), 1, READ_WRITE, 0);
	check(m, COUNT, 0, 0);
	other(m, TRACE_UNMAP, 1, 3 * (uint64_t)COUNT, 0);
	check(m, 0, 0, 0);
	model_free(m);
}

static void no_memory(void)
{
	for (long n = 0; n < 4; n++) {
		struct model *m = new_model();
		uint64_t done = 0;
		tm_alloc_fail_at(n);
		for (uint64_t i = 0; i < 1000; i++) {
			struct trace_map_event event = {.address = (2 + 2 * i) * PAGE,
							.bytes = PAGE,
							.prot_or_advice = READ_WRITE};
			int rc = model_apply_map(m, &event, NULL);
			if (rc == 0)
				done++;
			else
				CHECK_EQ_I64(rc, -ENOMEM);
		}
		tm_alloc_fail_at(-1);
		check(m, done, 0, 0);
		CHECK(done >= 999);
		model_free(m);
	}
}

static const struct tap_case cases[] = {
	{.name = "committed, reserved and file-backed memory are told apart", .run = kinds},
	{.name = "unmapping and mapping over parts is counted right", .run = parts},
	{.name = "mremap keeps what kind of memory it moves", .run = moves},
	{.name = "the break is not counted as mapped memory", .run = break_is_apart},
	{.name = "ranges beyond the address space change nothing", .run = absurd_ranges},
	{.name = "any sequence of calls gives the sums of its pages", .run = random_against_pages},
	{.name = "committing page by page costs no memory", .run = page_by_page},
	{.name = "half a million ranges take no minutes", .run = half_a_million_ranges},
	{.name = "lack of memory loses one call, not the sums", .run = no_memory},
};
TAP_MAIN(cases)
