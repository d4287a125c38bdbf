/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks and pauses in a trace: what was written is read again, also from a file
 * without its end; names of marks are moments; a part keeps what belongs to it.
 */
#include "harness/tap.h"
#include "model/query.h"
#include "model/trim.h"
#include "trace/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS 1000000ull

struct file {
	char path[64];
	int fd;
};

static struct file make_file(void)
{
	struct file file = {.path = "/tmp/tidemark-test-moments-XXXXXX"};
	file.fd = mkstemp(file.path);
	REQUIRE(file.fd >= 0);
	return file;
}

static const struct trace_moment written[] = {
	{.time_ns = 1 * MS, .kind = TRACE_MOMENT_MARK, .text = "warm"},
	{.time_ns = 2 * MS, .kind = TRACE_MOMENT_PAUSE, .text = ""},
	{.time_ns = 3 * MS, .kind = TRACE_MOMENT_MARK, .text = "in the pause"},
	{.time_ns = 4 * MS, .kind = TRACE_MOMENT_RESUME, .text = ""},
	{.time_ns = 5 * MS, .kind = TRACE_MOMENT_MARK, .text = "warm"},
	{.time_ns = 8 * MS, .kind = TRACE_MOMENT_PAUSE, .text = ""},
};
enum { MOMENTS = sizeof written / sizeof written[0], EVENTS = 10 };

/* Allocations at 0, 1, ... 9 ms, and all the moments. */
static struct trace_writer *write_events(struct file *file)
{
	struct trace_writer *w;
	const struct trace_meta meta = {.tool_version = "0",
					.program = "/bin/x",
					.mode = "exact",
					.source = "run",
					.page_bytes = 4096,
					.series_id = 0x1234567890abcdef,
					.piece = 3,
					.piece_start_ns = 77};
	REQUIRE(trace_writer_open(file->fd, &(struct trace_writer_options){0}, &w, NULL) == 0);
	REQUIRE(trace_writer_begin(w, &meta) == 0);
	const struct trace_stack stack = {.module_id = 0, .pc = 0x1000};
	REQUIRE(trace_writer_stacks(w, &stack, 1) == 0);
	for (uint64_t i = 0; i < EVENTS; i++) {
		const struct trace_event event = {.op = TRACE_ALLOC,
						  .time_ns = i * MS,
						  .size_bytes = 10,
						  .block_id = i,
						  .stack_id = 1};
		REQUIRE(trace_writer_events(w, &event, 1) == 0);
	}
	for (size_t i = 0; i < MOMENTS; i++)
		REQUIRE(trace_writer_moment(w, &written[i]) == 0);
	return w;
}

static void write_whole(struct file *file)
{
	struct trace_writer *w = write_events(file);
	const struct trace_end end = {.cause = TRACE_END_ROTATED,
				      .duration_ns = 9 * MS,
				      .paused_births = 4,
				      .freed_paused = 3};
	REQUIRE(trace_writer_end(w, &end) == 0);
	REQUIRE(trace_writer_close(w, NULL) == 0);
}

static void check_moments(struct trace_reader *r)
{
	const struct trace_moment *moments;
	size_t count;
	REQUIRE(trace_reader_moments(r, &moments, &count, NULL) == 0);
	REQUIRE(count == MOMENTS);
	for (size_t i = 0; i < count; i++) {
		CHECK_EQ_U64(moments[i].time_ns, written[i].time_ns);
		CHECK_EQ_U64(moments[i].kind, written[i].kind);
		CHECK_STR(moments[i].text, written[i].text);
	}
}

static void reads_what_was_written(void)
{
	struct file file = make_file();
	struct trace_reader *r;
	const struct trace_meta *meta;
	const struct trace_end *end;
	write_whole(&file);
	REQUIRE(trace_reader_open(file.path, &r, NULL) == 0);
	check_moments(r);
	REQUIRE(trace_reader_meta(r, &meta, NULL) == 0);
	CHECK_EQ_U64(meta->series_id, 0x1234567890abcdef);
	CHECK_EQ_U64(meta->piece, 3);
	CHECK_EQ_U64(meta->piece_start_ns, 77);
	REQUIRE(trace_reader_end(r, &end, NULL) == 0);
	CHECK_EQ_U64(end->cause, TRACE_END_ROTATED);
	CHECK_EQ_U64(end->paused_births, 4);
	CHECK_EQ_U64(end->freed_paused, 3);
	trace_reader_close(r);
	unlink(file.path);
}

/* As if the collector were killed after a tick: a mark is not lost with it. */
static void survives_without_an_end(void)
{
	struct file file = make_file();
	struct trace_writer *w = write_events(&file);
	struct trace_reader *r = NULL;
	REQUIRE(trace_writer_tick(w) == 0);
	for (int tries = 0; tries < 6000; tries++) {
		const struct trace_moment *moments;
		size_t count = 0;
		if (!trace_reader_open(file.path, &r, NULL) &&
		    !trace_reader_moments(r, &moments, &count, NULL) && count == MOMENTS)
			break;
		r = r ? trace_reader_close(r) : NULL;
		usleep(10000);
	}
	REQUIRE(r != NULL);
	check_moments(r);
	trace_reader_close(r);
	REQUIRE(trace_writer_close(w, NULL) == 0);
	unlink(file.path);
}

static uint64_t moment(const struct query_section *section, const char *text)
{
	uint64_t ns = UINT64_MAX;
	CHECK_EQ_I64(query_time_parse(section, text, &ns, NULL), 0);
	return ns;
}

static void names_are_moments(void)
{
	struct file file = make_file();
	struct trace_reader *r;
	struct query_section *section;
	struct tm_error err = {0};
	uint64_t ns = 0, start_ns, end_ns;
	size_t at = 0;
	write_whole(&file);
	REQUIRE(trace_reader_open(file.path, &r, NULL) == 0);
	REQUIRE(query_open(r, &(struct query_open_options){0}, &section, NULL) == 0);
	CHECK_EQ_U64(moment(section, "warm"), 1 * MS);
	CHECK_EQ_U64(moment(section, "warm#1"), 1 * MS);
	CHECK_EQ_U64(moment(section, "warm#2"), 5 * MS);
	CHECK_EQ_U64(moment(section, "in the pause"), 3 * MS);
	CHECK_EQ_I64(query_time_parse(section, "warm#3", &ns, &err), -EINVAL);
	CHECK(strstr(err.text, "name of a mark") != NULL);
	REQUIRE(query_next_pause(section, &at, &start_ns, &end_ns));
	CHECK_EQ_U64(start_ns, 2 * MS);
	CHECK_EQ_U64(end_ns, 4 * MS);
	REQUIRE(query_next_pause(section, &at, &start_ns, &end_ns));
	CHECK_EQ_U64(start_ns, 8 * MS);
	CHECK_EQ_U64(end_ns, query_duration_ns(section));
	CHECK(!query_next_pause(section, &at, &start_ns, &end_ns));
	query_close(section);
	trace_reader_close(r);
	unlink(file.path);
}

/* From 2.5 ms on: the pause has begun before and lasts to 4 ms. */
static void a_part_knows_its_pause(void)
{
	struct file file = make_file(), part = make_file();
	struct trace_reader *r;
	struct trace_writer *w;
	struct trim_result result;
	struct tm_error err = {0};
	const struct trace_moment *moments;
	const struct trace_meta *meta;
	size_t count;
	write_whole(&file);
	REQUIRE(trace_reader_open(file.path, &r, NULL) == 0);
	REQUIRE(trace_writer_open(part.fd, &(struct trace_writer_options){0}, &w, NULL) == 0);
	const struct trim_options options = {.from_ns = 5 * MS / 2, .to_ns = 6 * MS};
	REQUIRE(trim_section(r, w, &options, &result, &err) == 0);
	REQUIRE(trace_writer_close(w, NULL) == 0);
	trace_reader_close(r);
	REQUIRE(trace_reader_open(part.path, &r, NULL) == 0);
	REQUIRE(trace_reader_moments(r, &moments, &count, NULL) == 0);
	REQUIRE(count == 4);
	CHECK_EQ_U64(moments[0].kind, TRACE_MOMENT_PAUSE);
	CHECK_EQ_U64(moments[0].time_ns, 0);
	CHECK_STR(moments[1].text, "in the pause");
	CHECK_EQ_U64(moments[2].kind, TRACE_MOMENT_RESUME);
	CHECK_STR(moments[3].text, "warm");
	CHECK_EQ_U64(moments[3].time_ns - moments[2].time_ns, 1 * MS);
	REQUIRE(trace_reader_meta(r, &meta, NULL) == 0);
	CHECK_EQ_U64(meta->series_id, 0);
	trace_reader_close(r);
	unlink(file.path);
	unlink(part.path);
}

static const struct tap_case cases[] = {
	{.name = "marks and pauses are not what was written", .run = reads_what_was_written},
	{.name = "marks are lost with the recorder", .run = survives_without_an_end},
	{.name = "a mark's name is no moment", .run = names_are_moments},
	{.name = "a part of a trace forgets its pause", .run = a_part_knows_its_pause},
};

TAP_MAIN(cases)
