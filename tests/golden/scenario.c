/* SPDX-License-Identifier: Apache-2.0 */
/* The golden trace's scenario: see the header. */
#include "golden/scenario.h"

#include <stdio.h>
#include <string.h>

struct scenario {
	struct trace_event events[SCENARIO_EVENTS];
	size_t count;
};

static struct trace_event block(uint64_t i)
{
	return (struct trace_event){
		.op = TRACE_ALLOC,
		.time_ns = i * 1000,
		.address = 0x555500000000u + i * 192,
		.size_bytes = 16 * (i % 10 + 1),
		.block_id = i,
		.stack_id = 1 + (uint32_t)(i % SCENARIO_STACKS),
		.thread_id = (uint32_t)(i % SCENARIO_THREADS),
	};
}

static struct trace_event end_of(uint64_t i, uint8_t op, uint64_t time_ns)
{
	struct trace_event event = block(i);
	event.op = op;
	event.time_ns = time_ns;
	return event;
}

static void add(struct scenario *s, struct trace_event event)
{
	s->events[s->count++] = event;
}

static void make_events(struct scenario *s)
{
	for (uint64_t i = 0; i < SCENARIO_BLOCKS; i++) {
		add(s, block(i));
		if (i % 2 == 1)
			add(s, end_of(i - 1, TRACE_FREE, i * 1000));
	}
	struct trace_event grown = block(1), huge = block(3), aligned = block(2);
	add(s, end_of(1, TRACE_REALLOC_FREE, 1000000));
	grown.op = TRACE_REALLOC_ALLOC;
	grown.api = TRACE_API_REALLOC;
	grown.size_bytes = 5000;
	grown.block_id = SCENARIO_BLOCKS;
	grown.time_ns = 1000000;
	add(s, grown);
	add(s, end_of(3, TRACE_REALLOC_FREE, 2000000));
	huge.op = TRACE_REALLOC_UNDO;
	huge.api = TRACE_API_REALLOC;
	huge.size_bytes = UINT64_C(1) << 40;
	huge.block_id = TRACE_NO_BLOCK;
	huge.time_ns = 2000000;
	add(s, huge);
	aligned.op = TRACE_ALLOC_FAIL;
	aligned.api = TRACE_API_ALIGNED;
	aligned.align_log2 = 12;
	aligned.size_bytes = UINT64_C(1) << 41;
	aligned.block_id = TRACE_NO_BLOCK;
	aligned.time_ns = 3000000;
	add(s, aligned);
	add(s, end_of(5, TRACE_FREE_UNSEEN, 4000000));
	add(s, (struct trace_event){
		       .op = TRACE_FREE_OLDER, .block_id = TRACE_NO_BLOCK, .time_ns = 5000000});
}

static void write_tables(struct trace_writer *w)
{
	struct trace_module modules[] = {
		{.module_id = 1,
		 .bias = 0x555500000000u,
		 .start = 0x555500001000u,
		 .end = 0x555500009000u,
		 .unmapped_ns = UINT64_MAX,
		 .path = "/usr/bin/golden",
		 .build_id = {0xde, 0xad, 0xbe, 0xef},
		 .build_id_bytes = 4},
		{.module_id = 2,
		 .bias = 0x7f0000000000u,
		 .start = 0x7f0000000000u,
		 .end = 0x7f0000100000u,
		 .mapped_ns = 500,
		 .unmapped_ns = 4500000,
		 .path = "/usr/lib/libplugin.so"},
	};
	for (size_t i = 0; i < 2; i++)
		trace_writer_module(w, &modules[i]);
	for (uint32_t i = 1; i <= SCENARIO_STACKS; i++) {
		struct trace_stack stack = {
			.parent_id = i / 2, .module_id = 1 + i % 2, .pc = 0x555500001000u + i * 16};
		trace_writer_stacks(w, &stack, 1);
	}
	for (uint32_t i = 0; i < SCENARIO_THREADS; i++) {
		struct trace_thread thread = {.thread_id = i, .tid = 100 + i, .end_ns = UINT64_MAX};
		snprintf(thread.name, sizeof thread.name, "thread %u", i);
		trace_writer_thread(w, &thread);
	}
}

/*
 * One slice over the first thousand events, with the rows of one stack only. Its numbers are
 * invented, so that each shows where it was stored: 'tidemark verify' says that they are not true.
 */
static void write_slice(struct trace_writer *w)
{
	static const struct trace_death deaths[] = {{.birth_slice = 0, .count = 40, .bytes = 4000}};
	static const struct trace_bucket sizes[] = {{.bucket = 5, .count = 17},
						    {.bucket = 8, .count = 66}};
	static const struct trace_bucket lives[] = {{.bucket = 1, .count = 40}};
	static const struct trace_slice_row rows[] = {
		{.stack_id = 7,
		 .births = 83,
		 .birth_bytes = 7000,
		 .temporary = 3,
		 .failed = 1,
		 .death_count = 1,
		 .deaths = deaths,
		 .size_bucket_count = 2,
		 .sizes = sizes,
		 .life_bucket_count = 1,
		 .lives = lives,
		 .peak_known = true,
		 .peak_count = 43,
		 .peak_bytes = 3000},
	};
	static const struct trace_slice slice = {
		.end_ns = 666000,
		.event_count = 1000,
		.live_bytes = 32000,
		.live_blocks = 333,
		.max_live_bytes = 32000,
		.max_live_time_ns = 666000,
		.births = 667,
		.birth_bytes = 58000,
		.deaths = 333,
		.death_bytes = 26000,
		.temporary = 3,
		.peak_bytes = 32000,
		.peak_blocks = 333,
		.peak_time_ns = 666000,
		.row_count = 1,
		.rows = rows,
	};
	trace_writer_slice(w, &slice);
}

static void write_others(struct trace_writer *w)
{
	for (uint64_t i = 1; i <= 3; i++) {
		struct trace_sample sample = {.time_ns = i * 1000000, .rss_bytes = i << 20};
		trace_writer_sample(w, &sample);
	}
	struct trace_map_event maps[] = {
		{.op = TRACE_MAP,
		 .time_ns = 10,
		 .address = 0x7f1000000000u,
		 .bytes = 1 << 20,
		 .stack_id = 3,
		 .prot_or_advice = 3,
		 .flags = 0x22},
		{.op = TRACE_UNMAP, .time_ns = 20, .address = 0x7f1000000000u, .bytes = 1 << 20},
	};
	trace_writer_maps(w, maps, 2);
	struct trace_symbol symbols[] = {
		{.module_id = 1,
		 .address = 0x555500001010u,
		 .function = "inlined_one",
		 .file = "golden.c",
		 .line = 7,
		 .column = 3,
		 .inlined = 1,
		 .source = TRACE_SYM_DWARF},
		{.module_id = 1,
		 .address = 0x555500001010u,
		 .function = "main",
		 .file = "golden.c",
		 .line = 42,
		 .source = TRACE_SYM_DWARF},
	};
	trace_writer_symbols(w, symbols, 2);
}

void scenario_write(struct trace_writer *w)
{
	static struct scenario s;
	struct trace_meta first = {.tool_version = "1",
				   .program = "/bin/sh",
				   .command = "sh -c golden",
				   .pid = 4711,
				   .addresses = true};
	struct trace_meta second = {.tool_version = "1",
				    .program = "/usr/bin/golden",
				    .command = "golden",
				    .host = "host",
				    .mode = "exact",
				    .source = "run",
				    .clock = "tsc",
				    .pid = 4711,
				    .ppid = 1,
				    .start_unix_ns = 1700000000000000000u,
				    .page_bytes = 4096,
				    .machine_bytes = UINT64_C(1) << 34,
				    .addresses = true,
				    .depth = 1024};
	struct trace_event only = {.op = TRACE_ALLOC, .size_bytes = 100, .time_ns = 1000};
	struct trace_end exec = {.cause = TRACE_END_EXEC, .duration_ns = 2000};
	struct trace_end end = {.cause = TRACE_END_EXIT,
				.status = 3,
				.duration_ns = 6000000,
				.lost_events = 0,
				.waited_ns = 12,
				.note = "Made by hand."};
	s.count = 0;
	make_events(&s);
	trace_writer_begin(w, &first);
	trace_writer_events(w, &only, 1);
	trace_writer_end(w, &exec);
	trace_writer_begin(w, &second);
	write_tables(w);
	trace_writer_events(w, s.events, 1000);
	write_slice(w);
	trace_writer_events(w, s.events + 1000, s.count - 1000);
	write_others(w);
	trace_writer_end(w, &end);
}
