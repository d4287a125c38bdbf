/* SPDX-License-Identifier: Apache-2.0 */
/* What survives when the writing process is killed, the disk is full, or the file still grows. */
#include "trace/trace.h"

#include "base/clock.h"
#include "base/memory.h"
#include "harness/tap.h"
#include "trace_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The promise is one of time, and under TSan everything takes several times as long. */
#ifdef __SANITIZE_THREAD__
enum { SLOWNESS = 3 };
#else
enum { SLOWNESS = 1 };
#endif

enum {
	BATCH = 500,
	EVENTS_MAX = 4000000,
	SLICE_EVENTS = 100000,
	BEATS = 4096,
	ROUNDS = 24 / SLOWNESS,
	TICK_NS = 20 * 1000 * 1000,
	PROMISE_NS = SLOWNESS * 100 * 1000 * 1000,
};

/* One tick of the child: when it returned, and how many events were handed over before. */
struct beat {
	uint64_t time_ns, events;
};

struct shared {
	_Atomic uint64_t beats, events, slice_end;
	struct beat beat[BEATS];
};

static uint64_t pause_ns(unsigned round)
{
	return round % 3 == 0 ? 0 : round % 3 * 700000u;
}

/* Frees of blocks that were born before the slice carry what only old blocks of events have. */
static void mark_old(struct trace_event *events, size_t count, uint64_t slice_block)
{
	for (size_t i = 0; i < count; i++) {
		bool ends = events[i].op == TRACE_FREE || events[i].op == TRACE_REALLOC_FREE ||
			    events[i].op == TRACE_FREE_UNSEEN;
		if (ends && events[i].block_id < slice_block)
			events[i].flags |= TRACE_EVENT_OLD;
	}
}

static void beat(struct shared *shared, struct trace_writer *w, uint64_t events)
{
	if (trace_writer_tick(w) < 0)
		_exit(3);
	uint64_t number = atomic_load(&shared->beats);
	if (number < BEATS)
		shared->beat[number] = (struct beat){clock_steady_ns(), events};
	atomic_store(&shared->beats, number + 1);
}

/* The child: writes as fast as the round says, ticks, and is killed. */
static void write_for_ever(struct shared *shared, int fd, unsigned round)
{
	static struct fixture f;
	static struct trace_event events[BATCH];
	struct trace_writer_options options = {.addresses = round % 4 < 2};
	struct trace_writer *w = NULL;
	uint64_t last_ns = 0, slice_block = 0;
	uint32_t slice_id = 0;
	fixture_init(&f, round);
	if (trace_writer_open(fd, &options, &w, NULL) < 0)
		_exit(2);
	fixture_begin(w, false);
	while (f.event_count < EVENTS_MAX) {
		fixture_events(&f, events, BATCH);
		mark_old(events, BATCH, slice_block);
		if (trace_writer_events(w, events, BATCH) < 0)
			_exit(3);
		atomic_store(&shared->events, f.event_count);
		/* Without slices the journal is moved out of the way, with them it is replaced. */
		if (round % 2 == 0 && f.event_count % SLICE_EVENTS == 0) {
			struct trace_slice slice = {.slice_id = slice_id++,
						    .first_event = f.event_count - SLICE_EVENTS,
						    .event_count = SLICE_EVENTS};
			trace_writer_slice(w, &slice);
			slice_block = f.next_block_id;
		}
		if (clock_steady_ns() - last_ns > TICK_NS) {
			beat(shared, w, f.event_count);
			last_ns = clock_steady_ns();
		}
		if (pause_ns(round) > 0)
			usleep((useconds_t)(pause_ns(round) / 1000));
	}
	for (;;)
		pause();
}

/* How many want to run for each processor that there is: nobody has a turn sooner than that. */
static unsigned crowd(void)
{
	unsigned running = 0;
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	FILE *file = fopen("/proc/loadavg", "r");
	if (file && fscanf(file, "%*s %*s %*s %u", &running) != 1)
		running = 0;
	if (file)
		fclose(file);
	return processors > 0 ? running / (unsigned)processors : 0;
}

/* Waits; returns how crowded it was on average, at least 1. */
static unsigned wait_in_crowd(unsigned microseconds)
{
	unsigned sum = 0, looks = 0, part = 10000;
	for (unsigned left = microseconds; left; left -= left < part ? left : part) {
		sum += crowd();
		looks++;
		usleep(left < part ? left : part);
	}
	return sum > looks ? sum / looks : 1;
}

/* How many events had been handed over in a tick that is older than the promise. */
static uint64_t promised(const struct shared *shared, uint64_t killed_ns, unsigned crowded)
{
	uint64_t events = 0, beats = atomic_load(&shared->beats);
	for (uint64_t i = 0; i < beats && i < BEATS; i++)
		if (shared->beat[i].time_ns + (uint64_t)crowded * PROMISE_NS < killed_ns)
			events = shared->beat[i].events;
	return events;
}

static int note_slice(void *ctx, const struct trace_slice *slice)
{
	uint64_t *end = ctx;
	*end = slice->first_event + slice->event_count;
	return 0;
}

/* Frees after the last slice of blocks born before it must be told whole: that is what REFS are. */
static void check_refs(struct trace_reader *r, const struct trace_event *events, uint64_t required)
{
	static struct trace_event got[65536];
	uint64_t slice_end = 0, slice_block = 0, known = 0, missing = 0;
	REQUIRE(trace_reader_slices(r, note_slice, &slice_end, NULL) == 0);
	for (uint64_t i = 0; i < slice_end; i++)
		slice_block += events[i].op == TRACE_ALLOC || events[i].op == TRACE_REALLOC_ALLOC;
	for (size_t i = 0; i < trace_reader_event_block_count(r); i++) {
		struct trace_event_block block;
		REQUIRE(trace_reader_event_block(r, i, &block) == 0);
		if (block.first_event + block.event_count <= slice_end)
			continue;
		REQUIRE(trace_reader_events(r, i, got, NULL) == 0);
		for (uint64_t k = 0; k < block.event_count; k++) {
			uint64_t ordinal = block.first_event + k;
			bool ends = got[k].op == TRACE_FREE || got[k].op == TRACE_REALLOC_FREE;
			if (ordinal < slice_end || ordinal >= required || !ends ||
			    got[k].block_id >= slice_block)
				continue;
			bool whole = got[k].size_bytes == events[ordinal].size_bytes &&
				     got[k].stack_id == events[ordinal].stack_id;
			known += whole;
			missing += !whole;
		}
	}
	if (!CHECK_EQ_U64(missing, 0))
		tap_note("%llu were known", (unsigned long long)known);
}

/* The file after the kill against the same stream, made again. */
static void check_killed(const char *path, const struct shared *shared, unsigned round,
			 uint64_t required)
{
	static struct fixture f;
	struct trace_reader *r = NULL;
	struct tm_error err = {0};
	uint64_t written = atomic_load(&shared->events) + BATCH;
	if (trace_reader_open(path, &r, &err) < 0) {
		if (!CHECK(required == 0))
			tap_note("%s", err.text);
		return;
	}
	struct trace_event *events = tm_alloc_array(written, sizeof *events);
	REQUIRE(events != NULL);
	fixture_init(&f, round);
	for (uint64_t i = 0; i < written; i += BATCH)
		fixture_events(&f, events + i, BATCH);
	size_t found = fixture_compare(r, events, written, round % 4 < 2);
	if (!CHECK(found >= required))
		tap_note("round %u: %zu of %llu events", round, found,
			 (unsigned long long)required);
	CHECK(!trace_reader_complete(r));
	CHECK_HAS(trace_reader_warning(r), "has no end");
	CHECK(!strstr(trace_reader_warning(r), "damaged"));
	if (required > 0)
		fixture_check_records(r);
	check_refs(r, events, required);
	tm_free(events);
	trace_reader_close(r);
}

static void killed_at_any_moment(void)
{
	struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	REQUIRE(shared != MAP_FAILED);
	srand(4711);
	for (unsigned round = 0; round < ROUNDS; round++) {
		char path[256];
		int fd = fixture_file("killed", path);
		memset(shared, 0, sizeof *shared);
		pid_t child = fork();
		REQUIRE(child >= 0);
		if (child == 0)
			write_for_ever(shared, fd, round);
		close(fd);
		unsigned crowded = wait_in_crowd(1000 + (unsigned)rand() % 400000);
		uint64_t killed_ns = clock_steady_ns();
		kill(child, SIGKILL);
		int status = 0;
		waitpid(child, &status, 0);
		CHECK(WIFSIGNALED(status));
		check_killed(path, shared, round, promised(shared, killed_ns, crowded));
		unlink(path);
	}
}

static void *read_again_and_again(void *argument)
{
	const char *path = argument;
	for (int i = 0; i < 200; i++) {
		struct trace_reader *r = NULL;
		if (trace_reader_open(path, &r, NULL) < 0)
			continue;
		struct trace_event_block block = {0};
		size_t count = trace_reader_event_block_count(r);
		static struct trace_event events[65536];
		/* A block that is being replaced may be refused; one that is given must be right.
		 */
		if (count > 0 && trace_reader_event_block(r, count - 1, &block) == 0)
			(void)!trace_reader_events(r, count - 1, events, NULL);
		trace_reader_close(r);
	}
	return NULL;
}

static void read_while_written(void)
{
	static struct fixture f;
	static struct trace_event events[BATCH];
	char path[256];
	struct trace_writer_options options = {.addresses = true};
	struct trace_writer *w = NULL;
	pthread_t thread;
	fixture_init(&f, 99);
	REQUIRE(trace_writer_open(fixture_file("live", path), &options, &w, NULL) == 0);
	fixture_begin(w, false);
	REQUIRE(pthread_create(&thread, NULL, read_again_and_again, path) == 0);
	for (int i = 0; i < 2000; i++) {
		fixture_events(&f, events, BATCH);
		REQUIRE(trace_writer_events(w, events, BATCH) == 0);
		CHECK_EQ_I64(trace_writer_tick(w), 0);
	}
	pthread_join(thread, NULL);
	CHECK_EQ_I64(trace_writer_close(w, NULL), 0);
	unlink(path);
}

/* Write until the disk is full; the file must be whole up to there, and nobody may hang. */
static void fill_disk(int fd, const char *path, bool is_watched)
{
	static struct fixture f;
	enum { TOTAL = 600000 };
	struct trace_writer_options options = {.addresses = true};
	struct trace_writer *w = NULL;
	struct tm_error err = {0};
	fixture_init(&f, 7);
	struct trace_event *events = tm_alloc_array(TOTAL, sizeof *events);
	REQUIRE(events != NULL);
	fixture_events(&f, events, TOTAL);
	REQUIRE(trace_writer_open(fd, &options, &w, NULL) == 0);
	fixture_begin(w, false);
	for (size_t i = 0; i < TOTAL; i += 1000) {
		trace_writer_events(w, events + i, 1000);
		trace_writer_tick(w);
	}
	struct trace_end end = fixture_end();
	trace_writer_end(w, &end);
	uint64_t unstored = trace_writer_unstored(w);
	int rc = trace_writer_close(w, &err);
	/* Free space is watched: events may end before the disk does, and then all is well. */
	if (!(is_watched && rc == 0)) {
		CHECK(rc == -ENOSPC || rc == -EFBIG);
		CHECK_HAS(err.text, "not complete");
	}
	struct trace_reader *r = NULL;
	if (!CHECK_EQ_I64(trace_reader_open(path, &r, &err), 0)) {
		tap_note("%s", err.text);
		return;
	}
	size_t found = fixture_compare(r, events, TOTAL, true);
	tap_note("%zu events found, %llu not stored", found, (unsigned long long)unstored);
	CHECK(found > 0 && found < TOTAL);
	CHECK_EQ_U64(unstored, TOTAL - found);
	CHECK(trace_reader_complete(r));
	const struct trace_end *read_end = NULL;
	REQUIRE(trace_reader_end(r, &read_end, NULL) == 0);
	CHECK_EQ_U64(read_end->events_not_stored, TOTAL - found);
	trace_reader_close(r);
	unlink(path);
	tm_free(events);
}

static void file_size_limit(void)
{
	char path[256];
	int fd = fixture_file("fsize", path);
	struct rlimit limit = {.rlim_cur = 1000000, .rlim_max = 1000000};
	REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	fill_disk(fd, path, false);
}

static void full_disk(void)
{
	char folder[] = "/tmp/tidemark-full-XXXXXX", path[256];
	REQUIRE(mkdtemp(folder) != NULL);
	if (mount("none", folder, "tmpfs", 0, "size=1m") < 0) {
		rmdir(folder);
		tap_skip("no right to mount a small file system");
	}
	setenv("TMPDIR", folder, 1);
	fill_disk(fixture_file("full", path), path, true);
	umount2(folder, MNT_DETACH);
	rmdir(folder);
}

/* Nothing new: a tick writes nothing, so an idle program costs no disk. */
static void idle_ticks_write_nothing(void)
{
	static struct fixture f;
	static struct trace_event events[BATCH];
	char path[256];
	struct trace_writer_options options = {0};
	struct trace_writer *w = NULL;
	struct stat before, after;
	fixture_init(&f, 3);
	REQUIRE(trace_writer_open(fixture_file("idle", path), &options, &w, NULL) == 0);
	fixture_begin(w, false);
	fixture_events(&f, events, BATCH);
	CHECK_EQ_I64(trace_writer_events(w, events, BATCH), 0);
	CHECK_EQ_I64(trace_writer_tick(w), 0);
	struct trace_reader *r = NULL;
	/* The writing thread needs a moment until the journal is there. */
	for (int i = 0; i < 5000 && !r; i++) {
		if (trace_reader_open(path, &r, NULL) == 0 &&
		    trace_reader_event_block_count(r) == 0)
			r = trace_reader_close(r);
		usleep(1000);
	}
	REQUIRE(r != NULL);
	CHECK_EQ_U64(fixture_compare(r, events, BATCH, false), BATCH);
	fixture_check_records(r);
	trace_reader_close(r);
	REQUIRE(stat(path, &before) == 0);
	for (int i = 0; i < 1000; i++)
		CHECK_EQ_I64(trace_writer_tick(w), 0);
	REQUIRE(stat(path, &after) == 0);
	CHECK_EQ_U64((uint64_t)after.st_size, (uint64_t)before.st_size);
	/* A clean end gives the journal's room back. */
	CHECK_EQ_I64(trace_writer_close(w, NULL), 0);
	REQUIRE(stat(path, &after) == 0);
	CHECK(after.st_size < 20000);
	unlink(path);
}

/* One tick early, then more sealed blocks than the hole before the journal has room for. */
static void journal_makes_way(void)
{
	static struct fixture f;
	enum { TOTAL = 1500000 };
	char path[256];
	struct trace_writer_options options = {.addresses = true};
	struct trace_writer *w = NULL;
	fixture_init(&f, 5);
	struct trace_event *events = tm_alloc_array(TOTAL, sizeof *events);
	REQUIRE(events != NULL);
	fixture_events(&f, events, TOTAL);
	REQUIRE(trace_writer_open(fixture_file("way", path), &options, &w, NULL) == 0);
	fixture_begin(w, false);
	for (size_t done = 0; done < TOTAL; done += TOTAL / 3) {
		CHECK_EQ_I64(trace_writer_events(w, events + done, 10), 0);
		CHECK_EQ_I64(trace_writer_tick(w), 0);
		CHECK_EQ_I64(trace_writer_events(w, events + done + 10, TOTAL / 3 - 10), 0);
	}
	CHECK(trace_writer_bytes(w) > 3000000);
	CHECK_EQ_I64(trace_writer_close(w, NULL), 0);
	struct trace_reader *r = NULL;
	REQUIRE(trace_reader_open(path, &r, NULL) == 0);
	CHECK_EQ_U64(fixture_compare(r, events, TOTAL, true), TOTAL);
	trace_reader_close(r);
	unlink(path);
	tm_free(events);
}

static const struct tap_case cases[] = {
	{.name = "events older than 100 ms survive a kill of the writer",
	 .run = killed_at_any_moment,
	 .seconds = 300},
	{.name = "a file can be read while it is written", .run = read_while_written},
	{.name = "a file size limit of the system keeps what was written", .run = file_size_limit},
	{.name = "a full disk keeps what was written", .run = full_disk},
	{.name = "the journal never overwrites sealed events", .run = journal_makes_way},
	{.name = "an idle program costs no disk", .run = idle_ticks_write_nothing},
};
TAP_MAIN(cases)
