/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation number N fails, for all N: an error comes back, nothing crashes or leaks. */
#include "trace/trace.h"

#include "base/memory.h"
#include "harness/tap.h"
#include "trace_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* So many successes one after another: there is no allocation left that could fail. */
enum { EVENTS = 3000, ENOUGH = 30 };

/* Write a whole small file; the first error. */
static int write_file(char path[256], const struct trace_event *events)
{
	struct trace_writer_options options = {.addresses = true};
	struct trace_writer *w = NULL;
	int fd = fixture_file("memory", path);
	int rc = trace_writer_open(fd, &options, &w, NULL);
	if (rc < 0)
		return rc;
	struct trace_meta meta = fixture_meta();
	struct trace_end end = fixture_end();
	struct trace_slice_row row = {.stack_id = 1, .births = 4};
	struct trace_slice slice = {.row_count = 1, .rows = &row};
	trace_writer_begin(w, &meta);
	for (uint32_t i = 1; i <= FIXTURE_STACKS; i++) {
		struct trace_stack stack = fixture_stack(i);
		trace_writer_stacks(w, &stack, 1);
	}
	for (uint32_t i = 1; i <= FIXTURE_MODULES; i++) {
		struct trace_module module = fixture_module(i);
		trace_writer_module(w, &module);
	}
	for (uint32_t i = 0; i < FIXTURE_THREADS; i++) {
		struct trace_thread thread = fixture_thread(i);
		trace_writer_thread(w, &thread);
	}
	trace_writer_events(w, events, EVENTS / 2);
	trace_writer_tick(w);
	trace_writer_events(w, events + EVENTS / 2, EVENTS / 2);
	trace_writer_tick(w);
	trace_writer_slice(w, &slice);
	struct trace_symbol symbol = fixture_symbol(1);
	trace_writer_symbols(w, &symbol, 1);
	trace_writer_tick(w);
	trace_writer_end(w, &end);
	return trace_writer_close(w, NULL);
}

static int ignore_slice(void *ctx, const struct trace_slice *slice)
{
	(void)ctx;
	(void)slice;
	return 0;
}

/* Read everything; the first error. */
static int read_file(const char *path, struct trace_event *events)
{
	struct trace_reader *r = NULL;
	const struct trace_meta *meta;
	const struct trace_stack *stacks;
	const struct trace_module *modules;
	const struct trace_thread *threads;
	const struct trace_sample *samples;
	const struct trace_map_event *maps;
	const struct trace_symbol *symbols;
	size_t count;
	int rc = trace_reader_open(path, &r, NULL);
	if (rc == 0)
		rc = trace_reader_meta(r, &meta, NULL);
	if (rc == 0)
		rc = trace_reader_stacks(r, &stacks, &count, NULL);
	if (rc == 0)
		rc = trace_reader_modules(r, &modules, &count, NULL);
	if (rc == 0)
		rc = trace_reader_threads(r, &threads, &count, NULL);
	if (rc == 0)
		rc = trace_reader_samples(r, &samples, &count, NULL);
	if (rc == 0)
		rc = trace_reader_maps(r, &maps, &count, NULL);
	if (rc == 0)
		rc = trace_reader_symbols(r, &symbols, &count, NULL);
	if (rc == 0)
		rc = trace_reader_slices(r, ignore_slice, NULL, NULL);
	if (rc == 0)
		rc = trace_reader_events(r, 0, events, NULL);
	trace_reader_close(r);
	return rc;
}

static void writing_without_memory(void)
{
	static struct fixture f;
	static struct trace_event events[EVENTS];
	char path[256];
	fixture_init(&f, 1);
	fixture_events(&f, events, EVENTS);
	int failures = 0, successes = 0, rc = 0;
	for (long n = 0; successes < ENOUGH; n++) {
		tm_alloc_fail_at(n);
		rc = write_file(path, events);
		tm_alloc_fail_at(-1);
		if (rc < 0 && !CHECK_EQ_I64(rc, -ENOMEM))
			tap_note("allocation %ld", n);
		failures += rc < 0;
		successes = rc < 0 ? 0 : successes + 1;
		unlink(path);
	}
	/* A lost tick is made up for by sealing: not each failure is an error at the end. */
	tap_note("%d failures", failures);
	CHECK(failures > 8);
	CHECK_EQ_I64(rc, 0);
}

static void reading_without_memory(void)
{
	static struct fixture f;
	static struct trace_event events[EVENTS], got[EVENTS];
	char path[256];
	fixture_init(&f, 1);
	fixture_events(&f, events, EVENTS);
	REQUIRE(write_file(path, events) == 0);
	int failures = 0, successes = 0, rc = 0;
	for (long n = 0; successes < ENOUGH; n++) {
		tm_alloc_fail_at(n);
		rc = read_file(path, got);
		tm_alloc_fail_at(-1);
		if (rc < 0 && !CHECK_EQ_I64(rc, -ENOMEM))
			tap_note("allocation %ld", n);
		failures += rc < 0;
		successes = rc < 0 ? 0 : successes + 1;
	}
	tap_note("%d failures", failures);
	CHECK(failures > 20);
	CHECK_EQ_I64(rc, 0);
	CHECK(fixture_same(&events[EVENTS - 1], &got[EVENTS - 1], true));
	unlink(path);
}

static const struct tap_case cases[] = {
	{.name = "recording without memory fails cleanly", .run = writing_without_memory},
	{.name = "reading without memory fails cleanly", .run = reading_without_memory},
};
TAP_MAIN(cases)
