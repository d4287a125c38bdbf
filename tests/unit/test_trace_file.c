/* SPDX-License-Identifier: Apache-2.0 */
/* Whole trace files: what goes in comes out. */
#include "trace/trace.h"

#include "base/memory.h"
#include "harness/tap.h"
#include "trace_fixture.h"
#include "trace_section.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MANY = 150000 };

/* The file's size. */
static uint64_t round_trip(bool addresses, bool free_stacks, bool hurried)
{
	static struct fixture f;
	char path[256];
	fixture_init(&f, 1);
	f.free_stacks = free_stacks;
	struct trace_event *events = section_make_events(&f, MANY);
	struct trace_writer *w = section_open_writer(
		"round", path, (struct trace_writer_options){.addresses = addresses});
	trace_writer_hurry(w, hurried);
	section_write(w, events, MANY, free_stacks);
	section_end_and_close(w);
	struct trace_reader *r = section_open_reader(path);
	CHECK(trace_reader_complete(r));
	CHECK(trace_reader_warning(r) == NULL);
	CHECK_EQ_U64(fixture_compare(r, events, MANY, addresses), MANY);
	fixture_check_records(r);
	section_check_others(r);
	CHECK(trace_reader_warning(r) == NULL);
	struct stat status;
	REQUIRE(stat(path, &status) == 0);
	CHECK_EQ_U64(trace_reader_file_bytes(r), (uint64_t)status.st_size);
	CHECK_EQ_U64(status.st_mode & 0777, 0600);
	trace_reader_close(r);
	unlink(path);
	tm_free(events);
	return (uint64_t)status.st_size;
}

static void everything_comes_back(void)
{
	round_trip(false, false, false);
	round_trip(true, false, false);
	round_trip(true, true, false);
}

static void haste_loses_nothing(void)
{
	uint64_t small = round_trip(true, true, false), fast = round_trip(true, true, true);
	tap_note("%llu bytes, in haste %llu", (unsigned long long)small, (unsigned long long)fast);
	CHECK(fast > small);
}

static void sections_stay_apart(void)
{
	static struct fixture f;
	char path[256];
	enum { SECTION = 40000, SECTIONS = 3 };
	struct trace_event *events[SECTIONS];
	struct trace_writer *w =
		section_open_writer("sections", path, (struct trace_writer_options){0});
	for (int i = 0; i < SECTIONS; i++) {
		struct trace_end end = fixture_end();
		fixture_init(&f, 20 + (uint64_t)i);
		events[i] = section_make_events(&f, SECTION);
		section_write(w, events[i], SECTION, false);
		CHECK_EQ_I64(trace_writer_end(w, &end), 0);
	}
	CHECK_EQ_I64(trace_writer_close(w, NULL), 0);
	struct trace_reader *r = section_open_reader(path);
	CHECK_EQ_U64(trace_reader_section_count(r), SECTIONS);
	CHECK_EQ_U64(fixture_compare(r, events[SECTIONS - 1], SECTION, false), SECTION);
	for (int i = 0; i < SECTIONS; i++) {
		REQUIRE(trace_reader_select(r, (size_t)i, NULL) == 0);
		CHECK_EQ_U64(fixture_compare(r, events[i], SECTION, false), SECTION);
		fixture_check_records(r);
		section_check_others(r);
		tm_free(events[i]);
	}
	CHECK_EQ_I64(trace_reader_select(r, SECTIONS, NULL), -ENOENT);
	trace_reader_close(r);
	unlink(path);
}

/* Opening and asking for totals must not read the events: promise 5. */
static void opening_reads_little(void)
{
	static struct fixture f;
	char path[256];
	fixture_init(&f, 30);
	struct trace_event *events = section_make_events(&f, 1000000);
	struct trace_writer *w = section_open_writer(
		"little", path, (struct trace_writer_options){.addresses = true});
	section_write(w, events, 1000000, false);
	section_end_and_close(w);
	struct trace_reader *r = section_open_reader(path);
	fixture_check_records(r);
	section_check_others(r);
	CHECK(trace_reader_bytes_read(r) * 100 < trace_reader_file_bytes(r) * 3);
	tap_note("read %llu of %llu bytes", (unsigned long long)trace_reader_bytes_read(r),
		 (unsigned long long)trace_reader_file_bytes(r));
	trace_reader_close(r);
	unlink(path);
	tm_free(events);
}

static void limit_stops_events_only(void)
{
	static struct fixture f;
	char path[256];
	enum { TOTAL = 400000, LIMIT = 200000 };
	fixture_init(&f, 40);
	struct trace_event *events = section_make_events(&f, TOTAL);
	struct trace_writer *w = section_open_writer(
		"limit", path, (struct trace_writer_options){.max_bytes = LIMIT});
	section_write(w, events, TOTAL, false);
	struct trace_end end = fixture_end();
	CHECK_EQ_I64(trace_writer_end(w, &end), 0);
	CHECK(trace_writer_unstored(w) > 0);
	uint64_t unstored = trace_writer_unstored(w);
	CHECK_EQ_I64(trace_writer_close(w, NULL), 0);
	struct trace_reader *r = section_open_reader(path);
	size_t stored = fixture_compare(r, events, TOTAL, false);
	CHECK_EQ_U64(stored + unstored, TOTAL);
	CHECK(stored > 0);
	CHECK(trace_reader_file_bytes(r) < LIMIT + 20000);
	CHECK(trace_reader_complete(r));
	fixture_check_records(r);
	section_check_others(r);
	trace_reader_close(r);
	unlink(path);
	tm_free(events);
}

/* Each section counts its own, and the writer tells what the file got. */
static void unstored_by_section(void)
{
	static struct fixture f;
	char path[256];
	enum { TOTAL = 100000, LIMIT = 20000 };
	fixture_init(&f, 40);
	struct trace_event *events = section_make_events(&f, TOTAL);
	struct trace_writer *w = section_open_writer(
		"sections", path, (struct trace_writer_options){.max_bytes = LIMIT});
	struct trace_end end = fixture_end();
	end.events_not_stored = end.folded_events = end.culled_events = 0;
	uint64_t told[2];
	for (int i = 0; i < 2; i++) {
		section_write(w, events, TOTAL, false);
		CHECK_EQ_I64(trace_writer_end(w, &end), 0);
		told[i] = trace_writer_ended(w)->events_not_stored;
		CHECK_EQ_U64(told[i], trace_writer_unstored(w));
	}
	CHECK(told[0] > 0 && told[0] <= TOTAL);
	CHECK_EQ_U64(told[1], TOTAL); /* the file was full before */
	CHECK_EQ_I64(trace_writer_close(w, NULL), 0);
	struct trace_reader *r = section_open_reader(path);
	for (size_t i = 0; i < 2; i++) {
		const struct trace_end *read;
		REQUIRE(trace_reader_select(r, i, NULL) == 0);
		REQUIRE(trace_reader_end(r, &read, NULL) == 0);
		CHECK_EQ_U64(read->events_not_stored, told[i]);
	}
	trace_reader_close(r);
	unlink(path);
	tm_free(events);
}

static void misuse_is_an_error(void)
{
	char path[256];
	struct trace_writer *w =
		section_open_writer("misuse", path, (struct trace_writer_options){0});
	struct trace_sample sample = {0};
	CHECK_EQ_I64(trace_writer_sample(w, &sample), -EINVAL);
	CHECK_EQ_I64(trace_writer_close(w, NULL), -EINVAL);
	unlink(path);
	CHECK_EQ_I64(trace_writer_close(NULL, NULL), 0);
}

/* Threads that nobody announced have events all the same. */
static void unannounced_threads_are_added(void)
{
	char path[256];
	struct trace_meta meta = fixture_meta();
	struct trace_writer *w =
		section_open_writer("threads", path, (struct trace_writer_options){0});
	struct trace_event event = {.op = TRACE_ALLOC, .thread_id = 6, .time_ns = 5000};
	CHECK_EQ_I64(trace_writer_begin(w, &meta), 0);
	CHECK_EQ_I64(trace_writer_events(w, &event, 1), 0);
	section_end_and_close(w);
	struct trace_reader *r = section_open_reader(path);
	CHECK_EQ_U64(fixture_compare(r, &event, 1, false), 1);
	const struct trace_thread *threads = NULL;
	size_t count = 0;
	REQUIRE(trace_reader_threads(r, &threads, &count, NULL) == 0);
	CHECK_EQ_U64(count, 7);
	trace_reader_close(r);
	unlink(path);
}

static const struct tap_case cases[] = {
	{.name = "everything written is read back", .run = everything_comes_back},
	{.name = "what is packed in haste is read back", .run = haste_loses_nothing},
	{.name = "each section counts what it has not stored", .run = unstored_by_section},
	{.name = "images of an exec chain stay apart", .run = sections_stay_apart},
	{.name = "opening a large trace reads little of it", .run = opening_reads_little},
	{.name = "a file size limit ends the events, not the rest", .run = limit_stops_events_only},
	{.name = "records outside a section are refused", .run = misuse_is_an_error},
	{.name = "a thread without a record keeps its events",
	 .run = unannounced_threads_are_added},
};
TAP_MAIN(cases)
