/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of curves, and a trace whose stacks have each of them. */
#include "base/memory.h"
#include "harness/tap.h"
#include "views/growth.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOMENTS = GROWTH_MOMENTS, MS = 1000000, RUN_MS = 1000 };

/* ---- curves ---- */

static struct growth_line judge(uint64_t (*at)(int i))
{
	static uint64_t times_ns[MOMENTS], bytes[MOMENTS];
	struct growth_line line;
	for (int i = 0; i < MOMENTS; i++) {
		times_ns[i] = 5000000000000000000u + (uint64_t)i * 1000000000;
		bytes[i] = at(i);
	}
	growth_judge(times_ns, bytes, MOMENTS, &line);
	return line;
}

static uint64_t flat(int i)
{
	return 1000000 + (uint64_t)(i % 3) * 9000; /* 1.8 % */
}
static uint64_t nothing(int i)
{
	(void)i;
	return 0;
}
static uint64_t steady(int i)
{
	return 5000 + (uint64_t)i * 300;
}
static uint64_t noisy(int i)
{
	return 5000 + (uint64_t)i * 300 + (uint64_t)(i * 7919 % 5) * 250;
}
static uint64_t stairs(int i)
{
	return 1000 + (uint64_t)(i / 9) * 4000;
}
static uint64_t saw(int i)
{
	return 2000 + (uint64_t)(i % 8) * 500; /* begins low, ends low */
}
static uint64_t saw_in_phase(int i)
{
	return 2000 + (uint64_t)(i % 7) * 500; /* begins low, ends high */
}
static uint64_t rising_saw(int i)
{
	return 2000 + (uint64_t)(i % 4) * 500 + (uint64_t)i * 200;
}
static uint64_t filled(int i)
{
	return i < 6 ? (uint64_t)i * 1000 : 6000;
}
static uint64_t falling(int i)
{
	return 100000 - (uint64_t)i * 2000;
}
static uint64_t hump(int i)
{
	return i < 20 ? 100 + (uint64_t)i * 50 : 100 + (uint64_t)(40 - i) * 50;
}
static uint64_t dip(int i)
{
	return i < 20 ? 2000 - (uint64_t)i * 50 : 1000 + (uint64_t)(i - 20) * 45;
}

static void shapes(void)
{
	CHECK_EQ_I64(judge(flat).shape, GROWTH_PLATEAU);
	CHECK_EQ_I64(judge(nothing).shape, GROWTH_PLATEAU);
	CHECK_EQ_I64(judge(steady).shape, GROWTH_STEADY);
	CHECK_EQ_I64(judge(noisy).shape, GROWTH_STEADY);
	CHECK_EQ_I64(judge(stairs).shape, GROWTH_STEPS);
	CHECK_EQ_I64(judge(saw).shape, GROWTH_SAWTOOTH);
	CHECK_EQ_I64(judge(saw_in_phase).shape, GROWTH_SAWTOOTH);
	CHECK_EQ_I64(judge(rising_saw).shape, GROWTH_STEADY);
	CHECK_EQ_I64(judge(filled).shape, GROWTH_PLATEAU);
	CHECK_EQ_I64(judge(falling).shape, GROWTH_FELL);
	CHECK_EQ_I64(judge(hump).shape, GROWTH_FELL);
	CHECK_EQ_I64(judge(dip).shape, GROWTH_SAWTOOTH);
}

static bool near(double value, double wanted)
{
	double off = value - wanted;
	return (off < 0 ? -off : off) < 1e-6 * (wanted > 1 ? wanted : 1);
}

static void numbers(void)
{
	struct growth_line line = judge(steady);
	CHECK(near(line.slope, 300));
	CHECK(near(line.fit, 1));
	CHECK_EQ_U64(line.first_bytes, 5000);
	CHECK_EQ_U64(line.last_bytes, 5000 + 40 * 300);
	CHECK_EQ_I64(line.growth_bytes, 40 * 300);
	CHECK(near(judge(falling).slope, -2000));
	CHECK_EQ_I64(judge(falling).growth_bytes, -80000);
	/* The floor of a sawtooth stays where it is. */
	CHECK_EQ_I64(judge(saw_in_phase).growth_bytes, 0);
	CHECK(near(judge(nothing).slope, 0));
	const struct growth growth = {
		.limit = GROWTH_LIMIT_GIVEN, .limit_bytes = 100300, .used_bytes = 100000};
	CHECK(near(growth_full_in_s(&growth, &line), 1));
	line = judge(saw);
	CHECK(growth_full_in_s(&growth, &line) < 0);
	line = judge(steady);
	const struct growth full = {
		.limit = GROWTH_LIMIT_GIVEN, .limit_bytes = 1, .used_bytes = 100000};
	CHECK(near(growth_full_in_s(&full, &line), 0));
	const struct growth none = {.used_bytes = 1};
	CHECK(growth_full_in_s(&none, &line) < 0);
}

/* ---- a trace ---- */

struct maker {
	char path[64];
	struct trace_writer *w;
	struct model *m;
	uint64_t time_ns, next_address;
};

static uint64_t allocate(struct maker *k, uint32_t stack_id, uint64_t bytes)
{
	struct trace_event event = {.time_ns = k->time_ns,
				    .address = k->next_address += 0x10000000,
				    .size_bytes = bytes,
				    .stack_id = stack_id,
				    .op = TRACE_ALLOC};
	REQUIRE(model_apply(k->m, &event, 1, NULL) == 0);
	REQUIRE(trace_writer_events(k->w, &event, 1) == 0);
	return event.address;
}

static void release(struct maker *k, uint64_t address)
{
	struct trace_event event = {.time_ns = k->time_ns, .address = address, .op = TRACE_FREE};
	REQUIRE(model_apply(k->m, &event, 1, NULL) == 0);
	REQUIRE(trace_writer_events(k->w, &event, 1) == 0);
}

static void open_maker(struct maker *k)
{
	struct tm_error err;
	*k = (struct maker){.path = "/tmp/tidemark-test-growth-XXXXXX"};
	int fd = mkstemp(k->path);
	REQUIRE(fd >= 0);
	REQUIRE(model_new(NULL, &k->m, NULL) == 0);
	struct trace_writer_options options = {.addresses = true};
	REQUIRE(trace_writer_open(fd, &options, &k->w, &err) == 0);
	struct trace_meta meta = {.tool_version = "0",
				  .program = "/bin/x",
				  .command = "x",
				  .host = "",
				  .mode = "exact",
				  .source = "run",
				  .clock = "tsc",
				  .page_bytes = 4096,
				  .machine_bytes = 1000000000,
				  .addresses = true};
	REQUIRE(trace_writer_begin(k->w, &meta) == 0);
	for (uint64_t i = 0; i < 6; i++) {
		struct trace_stack stack = {.parent_id = 0, .pc = 0x1000 + i};
		REQUIRE(trace_writer_stacks(k->w, &stack, 1) == 0);
	}
	REQUIRE(trace_writer_thread(k->w, &(struct trace_thread){.end_ns = UINT64_MAX}) == 0);
}

/* Stack 1 leaks 1000 bytes each ms, 2 takes steps, 3 swings, 4 falls, 5 stays, 6 is a warm-up. */
static void run_program(struct maker *k)
{
	uint64_t swinging[100], falling[RUN_MS];
	size_t swing = 0;
	allocate(k, 5, 700000);
	for (size_t i = 0; i < RUN_MS; i++)
		falling[i] = allocate(k, 4, 300);
	for (uint64_t ms = 0; ms < RUN_MS; ms++) {
		k->time_ns = ms * MS + 1000;
		allocate(k, 1, 1000);
		if (ms % 250 == 200)
			allocate(k, 2, 90000);
		swinging[swing++] = allocate(k, 3, 777);
		while (swing == 100 || (swing < 100 && swing > 0 && ms % 100 == 99))
			release(k, swinging[--swing]);
		release(k, falling[ms]);
		if (ms < 80)
			allocate(k, 6, 5000);
	}
}

static void close_maker(struct maker *k, uint64_t cgroup_limit_bytes)
{
	struct trace_slice slice;
	struct trace_sample sample = {.time_ns = k->time_ns,
				      .rss_bytes = 4000000,
				      .cgroup_bytes = cgroup_limit_bytes ? 6000000 : 0,
				      .cgroup_limit_bytes = cgroup_limit_bytes};
	model_apply_sample(k->m, &sample);
	REQUIRE(trace_writer_sample(k->w, &sample) == 0);
	REQUIRE(model_slice_take(k->m, &slice, NULL) == 0);
	REQUIRE(trace_writer_slice(k->w, &slice) == 0);
	REQUIRE(trace_writer_end(k->w, &(struct trace_end){.cause = TRACE_END_EXIT,
							   .duration_ns = RUN_MS * MS}) == 0);
	REQUIRE(trace_writer_close(k->w, NULL) == 0);
	model_free(k->m);
}

struct opened {
	struct trace_reader *reader;
	struct query_section *section;
	struct view_input input;
	struct view_data *data;
};

static void open_trace(const char *path, struct opened *o)
{
	*o = (struct opened){0};
	REQUIRE(trace_reader_open(path, &o->reader, NULL) == 0);
	REQUIRE(query_open(o->reader, NULL, &o->section, NULL) == 0);
	REQUIRE(view_input_read(o->reader, &o->input, NULL) == 0);
	o->input.model = query_model(o->section);
	REQUIRE(view_data_new(&o->input, &o->data, NULL) == 0);
}

static void close_trace(struct opened *o)
{
	view_data_free(o->data);
	query_close(o->section);
	trace_reader_close(o->reader);
}

static const struct growth_row *row_of(const struct opened *o, const struct growth *growth,
				       uint32_t stack_id)
{
	for (size_t i = 0; i < growth->row_count; i++)
		if (growth->rows[i].stack == view_node_of(o->data, stack_id))
			return &growth->rows[i];
	tap_note("stack %u has no row", stack_id);
	tap_stop();
}

static void check_rows(const struct opened *o, const struct growth *growth)
{
	static const enum growth_shape wanted[] = {
		[1] = GROWTH_STEADY, [2] = GROWTH_STEPS,   [3] = GROWTH_SAWTOOTH,
		[4] = GROWTH_FELL,   [5] = GROWTH_PLATEAU, [6] = GROWTH_PLATEAU};
	double shares = 0;
	CHECK_EQ_U64(growth->row_count, 6);
	for (uint32_t id = 1; id <= 6; id++) {
		const struct growth_row *row = row_of(o, growth, id);
		shares += row->share;
		if (!CHECK_EQ_I64(row->line.shape, wanted[id]))
			tap_note("stack %u", id);
	}
	CHECK(near(shares, 1));
	/* 1000 bytes each millisecond are 1 MB per second, to the width of a moment. */
	const struct growth_line *leak = &row_of(o, growth, 1)->line;
	CHECK(leak->slope > 990000 && leak->slope < 1010000);
	CHECK(leak->fit > 0.999);
	CHECK(leak->growth_bytes > 750000 && leak->growth_bytes < 800000);
	/* What grows stands first, the steepest on top: the leak, then the steps. */
	CHECK_EQ_U64(growth->rows[0].stack, view_node_of(o->data, 1));
	CHECK_EQ_U64(growth->rows[1].stack, view_node_of(o->data, 2));
}

static void whole_trace(void)
{
	struct maker maker;
	struct opened o;
	struct growth growth;
	open_maker(&maker);
	run_program(&maker);
	close_maker(&maker, 16000000);
	open_trace(maker.path, &o);
	struct growth_options options = {.to_ns = query_duration_ns(o.section)};
	REQUIRE(growth_make(o.section, o.data, &options, &growth, NULL) == 0);
	/* The last event is 1 us after the 999th millisecond. */
	CHECK_EQ_U64(growth.from_ns / MS, 99);
	CHECK_EQ_U64(growth.to_ns / MS, 899);
	check_rows(&o, &growth);
	/* 10 MB are left in the cgroup. */
	CHECK_EQ_I64(growth.limit, GROWTH_LIMIT_CGROUP);
	double full_in_s = growth_full_in_s(&growth, &growth.rows[0].line);
	CHECK(full_in_s > 9.9 && full_in_s < 10.1);
	growth_done(&growth);
	options.limit_bytes = 5000000;
	REQUIRE(growth_make(o.section, o.data, &options, &growth, NULL) == 0);
	CHECK_EQ_I64(growth.limit, GROWTH_LIMIT_GIVEN);
	full_in_s = growth_full_in_s(&growth, &growth.rows[0].line);
	CHECK(full_in_s > 0.99 && full_in_s < 1.01);
	growth_done(&growth);
	/* A moment is too short. */
	options.from_ns = options.to_ns;
	REQUIRE(growth_make(o.section, o.data, &options, &growth, NULL) == 0);
	CHECK(growth.moment_count < GROWTH_MOMENTS_MIN);
	CHECK_EQ_U64(growth.row_count, 0);
	growth_done(&growth);
	close_trace(&o);
	unlink(maker.path);
}

static void no_cgroup(void)
{
	struct maker maker;
	struct opened o;
	struct growth growth;
	open_maker(&maker);
	run_program(&maker);
	close_maker(&maker, 0);
	open_trace(maker.path, &o);
	struct growth_options options = {.to_ns = query_duration_ns(o.section)};
	int rc = -1;
	for (long n = 0; rc != 0 && n < 3000; n++) {
		tm_alloc_fail_at(n);
		rc = growth_make(o.section, o.data, &options, &growth, NULL);
		tm_alloc_fail_at(-1);
	}
	REQUIRE(rc == 0);
	CHECK_EQ_I64(growth.limit, GROWTH_LIMIT_MACHINE);
	CHECK_EQ_U64(growth.used_bytes, 4000000);
	growth_done(&growth);
	close_trace(&o);
	unlink(maker.path);
}

static const struct tap_case cases[] = {
	{.name = "shapes of curves are told as people see them", .run = shapes},
	{.name = "slope, fit and the time to the limit are right", .run = numbers},
	{.name = "a leak is found among steps, caches and a sawtooth", .run = whole_trace},
	{.name = "without a cgroup the machine is the limit; lack of memory is an error",
	 .run = no_cgroup},
};
TAP_MAIN(cases)
