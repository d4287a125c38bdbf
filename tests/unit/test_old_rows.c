/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples and mappings of a file that may not grow for ever: it stays within its
 * limit, samples keep their maxima, mappings their peaks and totals, at whatever
 * moment it is read.
 */
#include "harness/tap.h"
#include "model/maps.h"
#include "model/maps_restate.h"
#include "written_trace.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LIMIT = 200000, ROUNDS = 600, ROUND_ROWS = 400, PAGE = 4096, PAGES = 500 };

/* What was mapped after so many calls. */
struct truth {
	uint64_t mapped, mapped_peak, reserved_peak;
};

static struct truth truths[ROUNDS * ROUND_ROWS + 1];
static uint64_t call_count, row_count;
static uint64_t rss_peaks[ROUNDS * ROUND_ROWS]; /* up to this sample */
static char path[64];
static bool watched;
static unsigned long looks, writes;

static void look_at_samples(struct trace_reader *reader)
{
	const struct trace_sample *samples;
	size_t count;
	uint64_t peak = 0;
	REQUIRE(!trace_reader_samples(reader, &samples, &count, NULL));
	for (size_t i = 0; i < count; i++) {
		CHECK(i == 0 || samples[i].time_ns > samples[i - 1].time_ns);
		peak = samples[i].rss_bytes > peak ? samples[i].rss_bytes : peak;
	}
	if (count)
		CHECK_EQ_U64(peak, rss_peaks[samples[count - 1].time_ns / 1000000]);
}

static void look_at_maps(struct trace_reader *reader)
{
	const struct trace_map_event *events;
	struct map_set set;
	size_t count;
	uint64_t calls = 0;
	REQUIRE(!trace_reader_maps(reader, &events, &count, NULL));
	maps_init(&set, PAGE);
	for (size_t i = 0; i < count; i++) {
		REQUIRE(!maps_apply(&set, &events[i]));
		calls += trace_map_calls(&events[i]);
	}
	REQUIRE(calls <= call_count);
	CHECK_EQ_U64(set.mapped_peak_bytes, truths[calls].mapped_peak);
	CHECK_EQ_U64(set.reserved_peak_bytes, truths[calls].reserved_peak);
	CHECK_EQ_U64(maps_committed_bytes(&set), truths[calls].mapped);
	maps_done(&set);
}

static void look(void)
{
	struct trace_reader *reader;
	struct tm_error err = {0};
	if (!CHECK(!trace_reader_open(path, &reader, &err))) {
		tap_note("%s", err.text);
		return;
	}
	if (trace_reader_section_count(reader)) {
		look_at_samples(reader);
		look_at_maps(reader);
	}
	trace_reader_close(reader);
}

/* Stands before that of the C library: what a kill right after it would leave is read. */
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
	ssize_t written = syscall(SYS_pwrite64, fd, data, bytes, offset);
	struct stat file, wanted;
	if (watched && !fstat(fd, &file) && !stat(path, &wanted) && file.st_ino == wanted.st_ino &&
	    ++writes % 5 == 0) {
		looks++;
		watched = false; /* one look at a time */
		look();
		watched = true;
	}
	return written;
}

/* Every row is a call that maps, so that their number says how many rows there were. */
static void put_map(struct trace_writer *writer, struct map_set *set)
{
	struct trace_map_event event = {.op = TRACE_MAP,
					.time_ns = row_count * 1000000,
					.address = (uint64_t)(1 + random() % PAGES) * PAGE,
					.bytes = (uint64_t)(1 + random() % 30) * PAGE,
					.stack_id = (uint32_t)(1 + random() % 3),
					.prot_or_advice = random() % 3 ? 3 : 0};
	REQUIRE(!maps_apply(set, &event));
	truths[++call_count] = (struct truth){.mapped = maps_committed_bytes(set),
					      .mapped_peak = set->mapped_peak_bytes,
					      .reserved_peak = set->reserved_peak_bytes};
	REQUIRE(!trace_writer_maps(writer, &event, 1));
}

static void put_sample(struct trace_writer *writer)
{
	struct trace_sample sample = {.time_ns = row_count * 1000000,
				      .rss_bytes = (uint64_t)random(),
				      .anon_bytes = (uint64_t)random()};
	uint64_t before = row_count ? rss_peaks[row_count - 1] : 0;
	rss_peaks[row_count++] = sample.rss_bytes > before ? sample.rss_bytes : before;
	REQUIRE(!trace_writer_sample(writer, &sample));
}

static void run(uint64_t retain_bytes, uint64_t retain_ns, int look_from)
{
	const struct trace_writer_options options = {
		.retain_bytes = retain_bytes, .retain_ns = retain_ns, .restate = maps_restate};
	const struct trace_meta meta = written_meta();
	struct trace_writer *writer;
	struct trace_reader *reader;
	struct map_set set;
	srandom(3);
	call_count = row_count = looks = writes = 0;
	truths[0] = (struct truth){0};
	maps_init(&set, PAGE);
	written_begin(path, &options, &meta, &writer);
	REQUIRE(!trace_writer_thread(writer, &(struct trace_thread){.end_ns = UINT64_MAX}));
	for (int i = 0; i < ROUNDS; i++) {
		watched = i >= look_from;
		for (int j = 0; j < ROUND_ROWS; j++) {
			put_map(writer, &set);
			put_sample(writer);
		}
		REQUIRE(!trace_writer_sync(writer));
		trace_writer_flush(writer);
	}
	watched = false;
	written_close(writer);
	REQUIRE(!trace_reader_open(path, &reader, NULL));
	written_is_sound(reader);
	look_at_samples(reader);
	look_at_maps(reader);
	trace_reader_close(reader);
	maps_done(&set);
}

static void within_the_limit(void)
{
	run(LIMIT, 0, ROUNDS);
	if (!CHECK(written_bytes(path) <= LIMIT))
		tap_note("%llu bytes", (unsigned long long)written_bytes(path));
	unlink(path);
}

static void at_any_moment(void)
{
	run(LIMIT, 0, ROUNDS - 60);
	tap_note("%lu looks after %lu writes", looks, writes);
	CHECK(looks > 50);
	unlink(path);
}

static void by_time_alone(void)
{
	run(0, 1000000000, ROUNDS);
	unlink(path);
}

static unsigned restatements;

static int count_restate(trace_maps_fn each, const void *each_ctx, trace_map_fn put, void *put_ctx)
{
	restatements++;
	return maps_restate(each, each_ctx, put, put_ctx);
}

/* Mappings that never end cannot be said in fewer rows: that is not tried all the time. */
static void nothing_to_gain(void)
{
	const struct trace_writer_options options = {.retain_bytes = LIMIT,
						     .restate = count_restate};
	const struct trace_meta meta = written_meta();
	struct trace_writer *writer;
	struct trace_reader *reader;
	const struct trace_map_event *events;
	size_t count;
	restatements = 0;
	written_begin(path, &options, &meta, &writer);
	REQUIRE(!trace_writer_thread(writer, &(struct trace_thread){.end_ns = UINT64_MAX}));
	for (uint64_t i = 0; i < ROUNDS * ROUND_ROWS / 4; i++) {
		struct trace_map_event event = {.op = TRACE_MAP,
						.time_ns = i * 1000,
						.address = (1 + 2 * i) * PAGE,
						.bytes = PAGE,
						.stack_id = 1,
						.prot_or_advice = 3};
		REQUIRE(!trace_writer_maps(writer, &event, 1));
		if (i % ROUND_ROWS == 0)
			REQUIRE(!trace_writer_sync(writer));
	}
	written_close(writer);
	REQUIRE(!trace_reader_open(path, &reader, NULL));
	REQUIRE(!trace_reader_maps(reader, &events, &count, NULL));
	CHECK_EQ_U64(count, ROUNDS * ROUND_ROWS / 4);
	tap_note("%u times in %d rounds", restatements, ROUNDS / 4);
	CHECK(restatements > 0 && restatements < 12);
	trace_reader_close(reader);
	unlink(path);
}

static const struct tap_case cases[] = {
	{.name = "rows of a file that has a limit", .run = within_the_limit},
	{.name = "rows after each write while they are merged", .run = at_any_moment},
	{.name = "rows of a file without a limit", .run = by_time_alone},
	{.name = "mappings that cannot be said in fewer rows", .run = nothing_to_gain},
};

TAP_MAIN(cases)
