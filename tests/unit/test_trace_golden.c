/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces of every released format version stay readable for ever. Figures come
 * from the scenario in tests/golden/scenario.h, counted by hand:
 *   sizes 16 * (1..10): 880 bytes in ten blocks, 88,000 in a thousand
 *   even numbers freed: 16 * (1 + 3 + 5 + 7 + 9) = 400 in ten, 40,000 in all
 */
#include "trace/trace.h"

#include "golden/scenario.h"
#include "harness/tap.h"

#include <stdio.h>
#include <stdlib.h>

struct sums {
	uint64_t ops[TRACE_OP_COUNT];
	uint64_t allocated_bytes, freed_bytes;
	bool live[SCENARIO_BLOCKS + 1];
	uint64_t sizes[SCENARIO_BLOCKS + 1];
};

static struct trace_reader *open_golden(const char *name)
{
	struct trace_reader *r = NULL;
	struct tm_error err = {0};
	char path[4096];
	const char *folder = getenv("GOLDEN_FOLDER");
	snprintf(path, sizeof path, "%s/%s", folder ? folder : GOLDEN_FOLDER, name);
	if (!CHECK_EQ_I64(trace_reader_open(path, &r, &err), 0))
		tap_note("%s", err.text);
	REQUIRE(r != NULL);
	return r;
}

static void check_birth(const struct trace_event *event)
{
	uint64_t i = event->block_id;
	if (i == SCENARIO_BLOCKS) {
		CHECK_EQ_U64(event->size_bytes, 5000);
		CHECK_EQ_U64(event->api, TRACE_API_REALLOC);
		return;
	}
	CHECK_EQ_U64(event->size_bytes, 16 * (i % 10 + 1));
	CHECK_EQ_U64(event->stack_id, 1 + i % SCENARIO_STACKS);
	CHECK_EQ_U64(event->thread_id, i % SCENARIO_THREADS);
	CHECK_EQ_U64(event->time_ns, i * 1000);
	CHECK_EQ_U64(event->address, 0x555500000000u + i * 192);
}

static void add(struct sums *sums, const struct trace_event *event)
{
	sums->ops[event->op]++;
	if (event->op == TRACE_ALLOC || event->op == TRACE_REALLOC_ALLOC) {
		REQUIRE(event->block_id <= SCENARIO_BLOCKS);
		check_birth(event);
		sums->allocated_bytes += event->size_bytes;
		sums->sizes[event->block_id] = event->size_bytes;
		sums->live[event->block_id] = true;
	} else if (event->block_id != TRACE_NO_BLOCK) {
		REQUIRE(event->block_id <= SCENARIO_BLOCKS);
		CHECK(sums->live[event->block_id]);
		sums->freed_bytes += sums->sizes[event->block_id];
		sums->live[event->block_id] = event->block_id == 3; /* its realloc failed */
	}
}

static void events_of_v1(void)
{
	static struct trace_event events[SCENARIO_EVENTS];
	static struct sums sums;
	struct trace_reader *r = open_golden("v1.tide");
	struct trace_event_block block;
	CHECK(trace_reader_complete(r));
	CHECK(trace_reader_warning(r) == NULL);
	REQUIRE(trace_reader_event_block_count(r) == 1);
	REQUIRE(trace_reader_event_block(r, 0, &block) == 0);
	REQUIRE(block.event_count == SCENARIO_EVENTS);
	CHECK_EQ_U64(block.end_ns, 5000000);
	CHECK_EQ_U64(block.min_size_bytes, 16);
	REQUIRE(trace_reader_events(r, 0, events, NULL) == 0);
	for (size_t i = 0; i < SCENARIO_EVENTS; i++)
		add(&sums, &events[i]);
	CHECK_EQ_U64(sums.ops[TRACE_ALLOC], 1000);
	CHECK_EQ_U64(sums.ops[TRACE_FREE], 500);
	CHECK_EQ_U64(sums.ops[TRACE_REALLOC_FREE], 2);
	CHECK_EQ_U64(sums.ops[TRACE_REALLOC_ALLOC], 1);
	CHECK_EQ_U64(sums.ops[TRACE_REALLOC_UNDO], 1);
	CHECK_EQ_U64(sums.ops[TRACE_ALLOC_FAIL], 1);
	CHECK_EQ_U64(sums.ops[TRACE_FREE_UNSEEN], 1);
	CHECK_EQ_U64(sums.ops[TRACE_FREE_OLDER], 1);
	CHECK_EQ_U64(sums.allocated_bytes, 88000 + 5000);
	/* The even ones; block 1 (32 bytes); block 3 (64), which lives on; block 5 (96). */
	CHECK_EQ_U64(sums.freed_bytes, 40000 + 32 + 64 + 96);
	CHECK_EQ_U64(events[SCENARIO_EVENTS - 3].align_log2, 12);
	CHECK_EQ_U64(events[SCENARIO_EVENTS - 3].size_bytes, UINT64_C(1) << 41);
	CHECK_EQ_U64(events[SCENARIO_EVENTS - 4].size_bytes, UINT64_C(1) << 40);
	trace_reader_close(r);
}

static int check_slice(void *ctx, const struct trace_slice *slice)
{
	unsigned *count = ctx;
	(*count)++;
	CHECK_EQ_U64(slice->event_count, 1000);
	CHECK_EQ_U64(slice->live_bytes, 32000);
	CHECK_EQ_U64(slice->births, 667);
	REQUIRE(slice->row_count == 1);
	CHECK_EQ_U64(slice->rows[0].stack_id, 7);
	CHECK_EQ_U64(slice->rows[0].deaths[0].bytes, 4000);
	CHECK_EQ_U64(slice->rows[0].sizes[1].count, 66);
	CHECK_EQ_U64(slice->rows[0].peak_bytes, 3000);
	return 0;
}

static void tables_of_v1(void)
{
	struct trace_reader *r = open_golden("v1.tide");
	const struct trace_stack *stacks = NULL;
	const struct trace_module *modules = NULL;
	const struct trace_thread *threads = NULL;
	const struct trace_sample *samples = NULL;
	const struct trace_map_event *maps = NULL;
	const struct trace_symbol *symbols = NULL;
	size_t count = 0;
	unsigned slices = 0;
	REQUIRE(trace_reader_stacks(r, &stacks, &count, NULL) == 0);
	REQUIRE(count == SCENARIO_STACKS + 1);
	CHECK_EQ_U64(stacks[12].parent_id, 6);
	CHECK_EQ_U64(stacks[12].pc, 0x555500001000u + 192);
	REQUIRE(trace_reader_modules(r, &modules, &count, NULL) == 0);
	REQUIRE(count == 3);
	CHECK_STR(modules[2].path, "/usr/lib/libplugin.so");
	CHECK_EQ_U64(modules[2].unmapped_ns, 4500000);
	CHECK_EQ_U64(modules[1].build_id[3], 0xef);
	REQUIRE(trace_reader_threads(r, &threads, &count, NULL) == 0);
	REQUIRE(count == SCENARIO_THREADS);
	CHECK_STR(threads[2].name, "thread 2");
	REQUIRE(trace_reader_samples(r, &samples, &count, NULL) == 0);
	REQUIRE(count == 3);
	CHECK_EQ_U64(samples[2].rss_bytes, 3 << 20);
	REQUIRE(trace_reader_maps(r, &maps, &count, NULL) == 0);
	REQUIRE(count == 2);
	CHECK_EQ_U64(maps[1].op, TRACE_UNMAP);
	REQUIRE(trace_reader_symbols(r, &symbols, &count, NULL) == 0);
	REQUIRE(count == 2);
	CHECK_STR(symbols[0].function, "inlined_one");
	CHECK_EQ_U64(symbols[1].line, 42);
	REQUIRE(trace_reader_slices(r, check_slice, &slices, NULL) == 0);
	CHECK_EQ_U64(slices, 1);
	trace_reader_close(r);
}

static void sections_of_v1(void)
{
	struct trace_reader *r = open_golden("v1.tide");
	const struct trace_meta *meta = NULL;
	const struct trace_end *end = NULL;
	struct trace_event event;
	REQUIRE(trace_reader_section_count(r) == 2);
	REQUIRE(trace_reader_meta(r, &meta, NULL) == 0);
	CHECK_STR(meta->program, "/usr/bin/golden");
	CHECK_EQ_U64(meta->start_unix_ns, 1700000000000000000u);
	REQUIRE(trace_reader_end(r, &end, NULL) == 0);
	CHECK_EQ_I64(end->status, 3);
	CHECK_STR(end->note, "Made by hand.");
	REQUIRE(trace_reader_select(r, 0, NULL) == 0);
	REQUIRE(trace_reader_meta(r, &meta, NULL) == 0);
	CHECK_STR(meta->command, "sh -c golden");
	REQUIRE(trace_reader_end(r, &end, NULL) == 0);
	CHECK_EQ_U64(end->cause, TRACE_END_EXEC);
	REQUIRE(trace_reader_event_block_count(r) == 1);
	REQUIRE(trace_reader_events(r, 0, &event, NULL) == 0);
	CHECK_EQ_U64(event.size_bytes, 100);
	trace_reader_close(r);
}

static const struct tap_case cases[] = {
	{.name = "events of a version 1 trace are read", .run = events_of_v1},
	{.name = "tables of a version 1 trace are read", .run = tables_of_v1},
	{.name = "sections of a version 1 trace are read", .run = sections_of_v1},
};
TAP_MAIN(cases)
