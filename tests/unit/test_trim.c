/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces written anew. A part must have the figures that the same range has in
 * the whole, stack by stack; what was repaired must be sound, whatever byte was
 * damaged before.
 */
#include "base/memory.h"
#include "harness/tap.h"
#include "model/model.h"
#include "model/query.h"
#include "model/repair.h"
#include "model/trim.h"
#include "model/verify.h"
#include "model_reference.h"
#include "trace/trace.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EVENTS = 3000, PARTS = 12, DAMAGES = 40 };

struct file {
	char path[64];
	int fd;
};

static struct file make_file(void)
{
	struct file file = {.path = "/tmp/tidemark-test-trim-XXXXXX"};
	file.fd = mkstemp(file.path);
	REQUIRE(file.fd >= 0);
	return file;
}

static struct trace_writer *open_writer(int fd, bool addresses)
{
	struct trace_writer *w;
	struct trace_writer_options options = {.addresses = addresses};
	REQUIRE(trace_writer_open(fd, &options, &w, NULL) == 0);
	return w;
}

/* ---- a random trace ---- */

static void begin(struct trace_writer *w)
{
	struct trace_meta meta = {.tool_version = "0",
				  .program = "/bin/x",
				  .mode = "exact",
				  .source = "run",
				  .page_bytes = 4096,
				  .addresses = true};
	REQUIRE(trace_writer_begin(w, &meta) == 0);
	struct trace_module module = {.module_id = 1, .unmapped_ns = UINT64_MAX, .path = "/bin/x"};
	REQUIRE(trace_writer_module(w, &module) == 0);
	for (uint32_t i = 0; i < REF_STACKS; i++) {
		struct trace_stack stack = {.parent_id = i / 2, .module_id = 1, .pc = 0x1001 + i};
		REQUIRE(trace_writer_stacks(w, &stack, 1) == 0);
	}
	for (uint32_t i = 0; i < REF_THREADS; i++) {
		struct trace_thread thread = {.thread_id = i, .tid = 100 + i, .end_ns = UINT64_MAX};
		REQUIRE(trace_writer_thread(w, &thread) == 0);
	}
}

static void add_map(struct trace_writer *w, struct model *m, struct ref_source *source)
{
	struct trace_map_event event = {
		.time_ns = source->time_ns,
		.address = 0x10000 + 4096 * ref_random(source, 64),
		.bytes = 4096 * (1 + ref_random(source, 8)),
		.prot_or_advice = ref_random(source, 4) ? 3 : 0,
		.op = (uint8_t)ref_random(source, 3),
		.stack_id = (uint32_t)ref_random(source, REF_STACKS),
		.flags = ref_random(source, 3) ? 0 : TRACE_MAP_FILE,
	};
	REQUIRE(model_apply_map(m, &event, NULL) == 0);
	REQUIRE(trace_writer_maps(w, &event, 1) == 0);
}

static void cut(struct trace_writer *w, struct model *m)
{
	struct trace_slice slice;
	REQUIRE(model_slice_take(m, &slice, NULL) == 0);
	REQUIRE(trace_writer_slice(w, &slice) == 0);
}

/* Returns the time of its last event. */
static uint64_t record(int fd, uint64_t seed)
{
	struct ref_model *ref = ref_new();
	struct ref_source source = {.random = seed, .addresses = 120, .honest = true};
	struct trace_writer *w = open_writer(fd, true);
	struct model *m;
	REQUIRE(model_new(NULL, &m, NULL) == 0);
	begin(w);
	while (ref->events < EVENTS) {
		struct trace_event events[2], want;
		size_t count = ref_make(&source, ref, events);
		for (size_t i = 0; i < count; i++) {
			events[i].api = (uint8_t)(events[i].stack_id % TRACE_API_COUNT);
			ref_apply(ref, &events[i], &want);
		}
		REQUIRE(model_apply(m, events, count, NULL) == 0);
		REQUIRE(trace_writer_events(w, events, count) == 0);
		if (ref_random(&source, 40) == 0)
			add_map(w, m, &source);
		if (ref_random(&source, 150) == 0)
			cut(w, m);
	}
	cut(w, m);
	struct trace_end end = {.cause = TRACE_END_EXIT, .duration_ns = source.time_ns};
	REQUIRE(trace_writer_end(w, &end) == 0);
	REQUIRE(trace_writer_close(w, NULL) == 0);
	model_free(m);
	ref_free(ref);
	return source.time_ns;
}

/* ---- checks ---- */

static int on_problem(void *ctx, const struct trace_problem *problem)
{
	tap_note("%s: offset %lld: %s", (const char *)ctx, (long long)problem->offset,
		 problem->text);
	CHECK(false);
	return 0;
}

static void check_sound(const char *path)
{
	struct trace_reader *r;
	struct tm_error err = {0};
	struct model_verified done;
	struct trace_check check = {.problem = on_problem, .ctx = (void *)path};
	REQUIRE(trace_reader_open(path, &r, &err) == 0);
	CHECK_EQ_I64(trace_verify(r, &check, &err), 0);
	for (size_t i = 0; i < trace_reader_section_count(r); i++)
		CHECK_EQ_I64(model_verify(r, i, &check, &done, &err), 0);
	trace_reader_close(r);
}

struct asked {
	struct trace_reader *r;
	struct query_section *section;
	struct query_answer answer;
	const struct trace_stack *stacks;
	size_t stack_count;
};

static void ask(struct asked *asked, const char *path, uint64_t from_ns, uint64_t to_ns)
{
	struct tm_error err = {0};
	REQUIRE(trace_reader_open(path, &asked->r, &err) == 0);
	REQUIRE(query_open(asked->r, &(struct query_open_options){.threads = 1}, &asked->section,
			   &err) == 0);
	REQUIRE(trace_reader_stacks(asked->r, &asked->stacks, &asked->stack_count, &err) == 0);
	struct query query = {.from_ns = from_ns,
			      .to_ns = to_ns,
			      .want = QUERY_PEAK | QUERY_KEPT | QUERY_SIZES | QUERY_THREADS};
	REQUIRE(query_ask(asked->section, &query, &asked->answer, &err) == 0);
}

static void done(struct asked *asked)
{
	query_answer_done(&asked->answer);
	query_close(asked->section);
	trace_reader_close(asked->r);
}

/* Stack ids differ, pcs do not: each pc of these traces stands for one stack. */
static const struct query_row *row_of(const struct asked *asked, uint64_t pc)
{
	for (size_t i = 0; i < asked->answer.row_count; i++)
		if (asked->stacks[asked->answer.rows[i].stack_id].pc == pc)
			return &asked->answer.rows[i];
	return NULL;
}

static void check_threads(const struct query_answer *whole, const struct query_answer *part)
{
	for (size_t i = 0; i < whole->thread_count; i++) {
		const struct query_thread *want = &whole->threads[i], *got = NULL;
		for (size_t k = 0; k < part->thread_count; k++)
			if (part->threads[k].thread_id == want->thread_id)
				got = &part->threads[k];
		const struct query_thread none = {.thread_id = want->thread_id};
		got = got ? got : &none;
		CHECK_EQ_U64(got->allocations, want->allocations);
		CHECK_EQ_U64(got->frees, want->frees);
		CHECK_EQ_U64(got->foreign_frees, want->foreign_frees);
		CHECK_EQ_U64(got->temporary, want->temporary);
		CHECK_EQ_U64(got->end_bytes, want->end_bytes);
	}
}

static void compare(const char *whole_path, uint64_t from_ns, uint64_t to_ns, const char *part_path)
{
	struct asked whole, part;
	ask(&whole, whole_path, from_ns, to_ns);
	ask(&part, part_path, TRIM_START_NS, UINT64_MAX);
	static const struct query_figures none;
	for (size_t i = 0; i < REF_STACKS; i++) {
		const struct query_row *want = row_of(&whole, 0x1001 + i);
		const struct query_row *got = row_of(&part, 0x1001 + i);
		CHECK_MEM(got ? &got->figures : &none, want ? &want->figures : &none, sizeof none);
	}
	CHECK_MEM(&part.answer.totals, &whole.answer.totals, sizeof none);
	CHECK_EQ_U64(part.answer.peak_bytes, whole.answer.peak_bytes);
	CHECK_EQ_U64(part.answer.event_count, whole.answer.event_count);
	if (whole.answer.event_count)
		CHECK_EQ_U64(part.answer.peak_time_ns + from_ns,
			     whole.answer.peak_time_ns + TRIM_START_NS);
	check_threads(&whole.answer, &part.answer);
	done(&whole);
	done(&part);
}

static void trim_one(const char *path, uint64_t from_ns, uint64_t to_ns)
{
	struct file part = make_file();
	struct trace_reader *r;
	struct tm_error err = {0};
	struct trim_result result;
	struct trim_options options = {.from_ns = from_ns, .to_ns = to_ns};
	REQUIRE(trace_reader_open(path, &r, &err) == 0);
	struct trace_writer *w = open_writer(part.fd, true);
	CHECK_EQ_I64(trim_section(r, w, &options, &result, &err), 0);
	CHECK_EQ_I64(trace_writer_close(w, &err), 0);
	trace_reader_close(r);
	check_sound(part.path);
	compare(path, from_ns, to_ns, part.path);
	unlink(part.path);
}

static void part_has_the_figures_of_its_range(void)
{
	for (uint64_t seed = 1; seed <= 6; seed++) {
		struct file file = make_file();
		uint64_t last_ns = record(file.fd, seed), last_us = last_ns / 1000;
		struct ref_source dice = {.random = seed * 77};
		trim_one(file.path, 0, UINT64_MAX);
		for (int i = 0; i < PARTS; i++) {
			uint64_t a = ref_random(&dice, last_us + 1);
			uint64_t b = a + ref_random(&dice, last_us + 1 - a);
			trim_one(file.path, a * 1000, b * 1000);
		}
		unlink(file.path);
	}
}

static void part_outside_the_run_is_refused(void)
{
	struct file file = make_file(), part = make_file();
	uint64_t last_ns = record(file.fd, 5);
	struct trace_reader *r;
	struct tm_error err = {0};
	struct trim_result result;
	struct trim_options options = {.from_ns = last_ns + 1000000, .to_ns = UINT64_MAX};
	REQUIRE(trace_reader_open(file.path, &r, &err) == 0);
	struct trace_writer *w = open_writer(part.fd, true);
	CHECK(trim_section(r, w, &options, &result, &err) < 0);
	CHECK(strstr(err.text, "after the end") != NULL);
	(void)!trace_writer_close(w, &err);
	trace_reader_close(r);
	unlink(file.path);
	unlink(part.path);
}

/* ---- repair ---- */

static void damage(const char *from, const char *to, struct ref_source *dice)
{
	struct stat status;
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_TRUNC);
	REQUIRE(in >= 0 && out >= 0 && fstat(in, &status) == 0);
	size_t bytes = (size_t)status.st_size;
	uint8_t *data = malloc(bytes);
	REQUIRE(data && read(in, data, bytes) == (ssize_t)bytes);
	unsigned count = 1 + (unsigned)ref_random(dice, 4);
	for (unsigned i = 0; i < count; i++)
		data[64 + ref_random(dice, bytes - 64)] ^= (uint8_t)(1 + ref_random(dice, 255));
	if (ref_random(dice, 3) == 0)
		bytes = 64 + ref_random(dice, bytes - 64);
	REQUIRE(write(out, data, bytes) == (ssize_t)bytes);
	free(data);
	close(in);
	close(out);
}

static void repair_one(const char *path)
{
	struct file fixed = make_file();
	struct trace_reader *r;
	struct tm_error err = {0};
	struct repair_result result;
	if (trace_reader_open(path, &r, &err)) { /* nothing is left of it */
		close(fixed.fd);
		unlink(fixed.path);
		return;
	}
	struct trace_writer *w = open_writer(fixed.fd, true);
	for (size_t i = 0; i < trace_reader_section_count(r); i++) {
		REQUIRE(trace_reader_select(r, i, &err) == 0);
		CHECK_EQ_I64(repair_section(r, w, &(struct repair_options){0}, &result, &err), 0);
	}
	CHECK_EQ_I64(trace_writer_close(w, &err), 0);
	trace_reader_close(r);
	check_sound(fixed.path);
	unlink(fixed.path);
}

static void repaired_is_sound(void)
{
	struct file file = make_file(), bad = make_file();
	record(file.fd, 3);
	struct ref_source dice = {.random = 99};
	for (int i = 0; i < DAMAGES; i++) {
		damage(file.path, bad.path, &dice);
		repair_one(bad.path);
	}
	close(bad.fd);
	unlink(bad.path);
	unlink(file.path);
}

static const struct tap_case cases[] = {
	{.name = "a part has other figures than its range",
	 .run = part_has_the_figures_of_its_range},
	{.name = "a part outside the run is written", .run = part_outside_the_run_is_refused},
	{.name = "a repaired trace is not sound", .run = repaired_is_sound},
};

TAP_MAIN(cases)
