/* SPDX-License-Identifier: Apache-2.0 */
/* Sites, functions and the resident set of a small heap whose figures are written here. */
#include "base/memory.h"
#include "harness/tap.h"
#include "shop_heap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct view_rows fill(const struct view_data *data, const char *name)
{
	struct view_rows rows = {0};
	const struct view *view = view_find(name);
	REQUIRE(view);
	REQUIRE(view_fill(view, data, &rows, NULL) == 0);
	return rows;
}

static void check_row(const struct view_row *row, const char *function, enum view_figure figure,
		      uint64_t wanted)
{
	CHECK_STR(row->function ? row->function : "(none)", function);
	CHECK_EQ_U64(row->self.of[figure], wanted);
}

static void peak(void)
{
	struct shop heap;
	struct view_data *data = shop_load(&heap);
	struct view_rows rows = fill(data, "peak");
	REQUIRE(rows.count == 3);
	check_row(&rows.rows[0], "(none)", VIEW_PEAK_BYTES, 1000);
	CHECK_STR(view_module_name(rows.rows[0].module), "libwidget.so.3");
	check_row(&rows.rows[1], "cart_add", VIEW_PEAK_BYTES, 250);
	CHECK_EQ_U64(rows.rows[1].self.of[VIEW_PEAK_BLOCKS], 3);
	check_row(&rows.rows[2], "walk", VIEW_PEAK_BYTES, 7);
	/* Shares add up to the peak. */
	struct model_totals totals;
	model_totals(heap.model, &totals);
	CHECK_EQ_U64(totals.peak_bytes, 1000 + 250 + 7);
	view_rows_done(&rows);
	shop_unload(&heap, data);
}

/* Two addresses of one line are one stack for a reader. */
static void merged_stacks(void)
{
	struct shop heap;
	struct view_data *data = shop_load(&heap);
	struct view_rows rows = fill(data, "unfreed");
	REQUIRE(rows.count == 3);
	check_row(&rows.rows[0], "cart_add", VIEW_UNFREED_BYTES, 150);
	CHECK_EQ_U64(rows.rows[0].self.of[VIEW_ALLOCATED_BYTES], 250);
	REQUIRE(rows.rows[0].stack_count == 1);
	static const char *const names[] = {"operator new(unsigned long)", "cart_add", "main"};
	uint32_t cursor = rows.rows[0].stacks[0].stack;
	for (size_t i = 0; i < 3; i++) {
		const struct view_frame *frame = view_next_frame(data, &cursor);
		REQUIRE(frame);
		CHECK_STR(frame->function, names[i]);
		CHECK(frame->is_allocator == (i == 0));
		CHECK(frame->is_root == (i == 2));
	}
	CHECK(!view_next_frame(data, &cursor));
	view_rows_done(&rows);
	shop_unload(&heap, data);
}

static void temporary(void)
{
	struct shop heap;
	struct view_data *data = shop_load(&heap);
	struct view_rows rows = fill(data, "temporary");
	/* The inlined function is the site. The free of 1000 bytes follows its allocation, too. */
	REQUIRE(rows.count == 2);
	check_row(&rows.rows[0], "draw", VIEW_TEMPORARY, 4);
	check_row(&rows.rows[1], "(none)", VIEW_TEMPORARY, 1);
	uint32_t cursor = rows.rows[0].stacks[0].stack;
	const struct view_frame *frame = view_next_frame(data, &cursor);
	CHECK(frame->inlined);
	CHECK_EQ_U64(frame->line, 3);
	frame = view_next_frame(data, &cursor);
	CHECK_STR(frame->function, "render");
	CHECK_EQ_U64(frame->line, 77);
	view_rows_done(&rows);
	shop_unload(&heap, data);
}

static const struct view_row *find_row(const struct view_rows *rows, const char *function)
{
	for (size_t i = 0; i < rows->count; i++)
		if (rows->rows[i].function && !strcmp(rows->rows[i].function, function))
			return &rows->rows[i];
	tap_note("no row for %s", function);
	tap_stop();
}

static void functions(void)
{
	struct shop heap;
	struct view_data *data = shop_load(&heap);
	struct view_rows rows = fill(data, "functions");
	const struct view_row *row = find_row(&rows, "main");
	CHECK_EQ_U64(row->inclusive.of[VIEW_ALLOCATIONS], 3 + 4 + 1 + 1 + 1);
	CHECK_EQ_U64(row->inclusive.of[VIEW_ALLOCATED_BYTES], 250 + 40 + 7 + 1000 + 20);
	CHECK_EQ_U64(row->self.of[VIEW_ALLOCATIONS], 0);
	/* A function that calls itself counts once. */
	row = find_row(&rows, "walk");
	CHECK_EQ_U64(row->inclusive.of[VIEW_ALLOCATED_BYTES], 7);
	CHECK_EQ_U64(row->self.of[VIEW_ALLOCATED_BYTES], 7);
	row = find_row(&rows, "render");
	CHECK_EQ_U64(row->inclusive.of[VIEW_FREES], 4);
	CHECK_EQ_U64(row->self.of[VIEW_FREES], 0);
	row = find_row(&rows, "operator new(unsigned long)");
	CHECK_EQ_U64(row->inclusive.of[VIEW_ALLOCATIONS], 3);
	CHECK_EQ_U64(row->self.of[VIEW_ALLOCATIONS], 0);
	CHECK_STR(rows.rows[0].function, "main");
	view_rows_done(&rows);
	shop_unload(&heap, data);
}

static void odd_frames(void)
{
	struct shop heap;
	struct view_data *data = shop_load(&heap);
	size_t count, found = 0;
	const struct view_stack_row *rows = view_stacks(data, &count);
	for (size_t i = 0; i < count; i++) {
		uint32_t cursor = rows[i].stack;
		const struct view_frame *frame = view_next_frame(data, &cursor);
		if (!strcmp(frame->module, "[mark]")) {
			found++;
			CHECK_HAS(frame->function, "too deep");
			frame = view_next_frame(data, &cursor);
			CHECK_STR(frame->module, "[anonymous]");
			CHECK_EQ_U64(frame->address, 0x7f001233);
			CHECK(!frame->function);
		} else if (!frame->function) {
			found++;
			CHECK_EQ_U64(frame->address, 0x776);
		}
	}
	CHECK_EQ_U64(found, 2);
	shop_unload(&heap, data);
}

static void damaged(void)
{
	struct shop heap;
	struct view_data *data = NULL;
	struct tm_error err = {0};
	struct trace_stack bad[SHOP_STACKS];
	shop_make(&heap);
	memcpy(bad, shop_stacks, sizeof bad);
	bad[2].parent_id = 2;
	heap.input.stacks = bad;
	CHECK_EQ_I64(view_data_new(&heap.input, &data, &err), -EBADMSG);
	CHECK_HAS(err.text, "stack 2");
	/* Ids beyond what the trace holds stay unnamed. */
	memcpy(bad, shop_stacks, sizeof bad);
	bad[3].module_id = 77;
	heap.input.stack_count = 5;
	REQUIRE(view_data_new(&heap.input, &data, &err) == 0);
	struct view_rows rows = fill(data, "allocations");
	CHECK(rows.count > 0);
	view_rows_done(&rows);
	shop_unload(&heap, data);
}

static void memory_runs_out(void)
{
	struct shop heap;
	shop_make(&heap);
	int code = -1;
	for (long n = 0; n < 500 && code; n++) {
		struct view_data *data = NULL;
		struct view_rows rows = {0};
		tm_alloc_fail_at(n);
		code = view_data_new(&heap.input, &data, NULL);
		for (size_t i = 0; !code && i < view_count; i++) {
			code = view_fill(&view_list[i], data, &rows, NULL);
			view_rows_done(&rows);
		}
		view_data_free(data);
		CHECK(code == 0 || code == -ENOMEM);
	}
	tm_alloc_fail_at(-1);
	CHECK_EQ_I64(code, 0);
	model_free(heap.model);
}

static void sample(struct shop *heap, uint64_t rss, uint64_t anon, uint64_t agent)
{
	const struct trace_sample one = {.time_ns = heap->time_ns += 10,
					 .rss_bytes = rss,
					 .anon_bytes = anon,
					 .agent_bytes = agent};
	model_apply_sample(heap->model, &one);
}

static void rss(void)
{
	struct shop heap;
	shop_make(&heap);
	sample(&heap, 90 << 20, 64 << 20, 4 << 20);
	struct view_data *data = NULL;
	REQUIRE(view_data_new(&heap.input, &data, NULL) == 0);
	struct view_rss rss_now;
	view_rss(data, &rss_now);
	/* live: 100 + 50 + 7 + 20 */
	CHECK_EQ_U64(rss_now.heap_bytes, 177);
	CHECK_EQ_U64(rss_now.agent_bytes, 4 << 20);
	CHECK_EQ_I64(rss_now.rest_bytes, (90 << 20) - 177 - (4 << 20));
	CHECK_EQ_U64(rss_now.anonymous_bytes, 60 << 20);
	/* The allocator may have kept what was freed after the peak of 1257. */
	CHECK_EQ_U64(rss_now.explained_bytes, 1257);
	REQUIRE(rss_now.cause);
	CHECK_HAS(rss_now.cause, "linked into the program");
	shop_unload(&heap, data);
}

static void rss_causes(void)
{
	static const struct {
		const char *path, *source, *cause;
	} runs[] = {
		{"/usr/bin/node", "run", "V8"},
		{"/usr/bin/python3.11", "run", "Python"},
		{"/usr/bin/node", "attach", "attached late"},
	};
	for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
		struct shop heap;
		struct view_data *data = NULL;
		struct view_rss rss_now;
		const struct trace_meta meta = {.source = runs[i].source};
		const struct trace_module one[] = {{0}, {.module_id = 1, .path = runs[i].path}};
		shop_make(&heap);
		sample(&heap, 90 << 20, 64 << 20, 0);
		heap.input.meta = &meta;
		heap.input.modules = one;
		heap.input.module_count = 2;
		REQUIRE(view_data_new(&heap.input, &data, NULL) == 0);
		view_rss(data, &rss_now);
		CHECK_HAS(rss_now.cause, runs[i].cause);
		CHECK(rss_now.advice != NULL);
		shop_unload(&heap, data);
	}
}

static void rss_explained(void)
{
	struct shop heap;
	shop_make(&heap);
	shop_event(&heap, TRACE_ALLOC, 0x100000, 40 << 20, 3);
	sample(&heap, 50 << 20, 42 << 20, 1 << 20);
	struct view_data *data = NULL;
	struct view_rss rss_now;
	REQUIRE(view_data_new(&heap.input, &data, NULL) == 0);
	view_rss(data, &rss_now);
	CHECK(rss_now.known);
	CHECK(!rss_now.cause);
	CHECK(!rss_now.advice);
	shop_unload(&heap, data);
}

static const struct tap_case cases[] = {
	{.name = "the shares of the peak belong to the right functions", .run = peak},
	{.name = "stacks that read alike are one", .run = merged_stacks},
	{.name = "temporary allocations are found, inlined callers too", .run = temporary},
	{.name = "figures of functions, self and inclusive, are exact", .run = functions},
	{.name = "code without names and missing frames are shown as such", .run = odd_frames},
	{.name = "a damaged trace is refused or shown in part", .run = damaged},
	{.name = "running out of memory is an error, not a crash", .run = memory_runs_out},
	{.name = "the parts of the resident set add up", .run = rss},
	{.name = "unexplained memory has a probable cause", .run = rss_causes},
	{.name = "explained memory has no cause", .run = rss_explained},
};
TAP_MAIN(cases)
