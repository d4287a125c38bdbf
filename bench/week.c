/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A week in less: the events of an invented program (week_oracle.h) are laid into
 * shared memory as an agent would, and go through the collector's own merging,
 * model, encoding and writing; their time passes so fast that a week is over when
 * the run is. At the end every figure is compared with what was counted beside,
 * in the collector's model and again in the file.
 *
 *   bench_week SECONDS MILLION_EVENTS LIMIT_MIB FILE
 *
 * ends after so many seconds or events, whichever comes first (0: no limit). A
 * line "at=... " per sample, then "key=value" lines; the exit status is 1 when a
 * figure is wrong. bench/week judges the rest.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "collector/cursor.h"
#include "collector/extra.h"
#include "collector/feed.h"
#include "collector/merge.h"
#include "collector/shm.h"
#include "fake_agent.h"
#include "week_oracle.h"

#define WEEK_NS   (7 * 24 * 3600 * 1000000000ull)
#define SECOND_NS 1000000000ull

enum {
	CHUNKS = WIRE_CHUNK_COUNT,
	/* Half of the pool may be held back by the collector; an event has up to 3 words. */
	ROUND_EVENTS = CHUNKS / 4 * WIRE_CHUNK_WORDS / 4,
	ROUND_SAMPLES = 16, /* at most: a short run has few events for its seconds */
	LINES = 200,
	DEPTH = 10,
};

struct week {
	uint64_t limit_ns, limit_events, limit_bytes; /* 0: none */
	const char *path;
	struct oracle *oracle;
	struct shm shm;
	struct cursors cursors;
	struct merge merge;
	struct extra extra;
	struct trace_writer *writer;
	struct fake_thread threads[ORACLE_THREADS];
	uint32_t nodes[ORACLE_STACKS];
	uint64_t start_ns, origin, now_ns; /* real begin; stamp and time of the invented program */
	uint64_t events, largest_bytes, collector_cpu_ns;
	unsigned sampled, wrong;
};

static struct feed feed;

static void need(int error, const struct tm_error *err)
{
	if (!error)
		return;
	fprintf(stderr, "bench_week: %s\n", err->text[0] ? err->text : strerror(-error));
	exit(2);
}

/* ---- the way in ---- */

static void open_week(struct week *week)
{
	struct stamp_pair earlier = stamp_pair_read();
	const struct shm_options memory = {.chunk_count = CHUNKS, .state = WIRE_RECORD};
	const struct trace_writer_options file = {.addresses = true,
						  .retain_bytes = week->limit_bytes};
	const struct trace_meta meta = {.program = "week",
					.command = "week",
					.host = "",
					.mode = "exact",
					.source = "run",
					.clock = "monotonic",
					.tool_version = ""};
	struct tm_error err = {0};
	int fd = open(week->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	need(fd < 0 ? tm_fail(&err, -1, "cannot write '%s'", week->path) : 0, &err);
	need(shm_open_new(&week->shm, &memory, &err), &err);
	need(trace_writer_open(fd, &file, &week->writer, &err), &err);
	need(feed_init(&feed, &week->shm.map, false, &earlier, 0, &err), &err);
	need(cursors_init(&week->cursors, &week->shm.map), &err);
	week->extra = (struct extra){.feed = &feed};
	need(merge_init(&week->merge, &week->cursors, &feed, &week->extra), &err);
	feed.writer = week->writer;
	need(trace_writer_begin(week->writer, &meta), &err);
	week->oracle = oracle_new(1);
	need(week->oracle ? 0 : tm_fail(&err, -1, "no memory"), &err);
	for (unsigned i = 0; i < ORACLE_STACKS; i++)
		for (unsigned depth = 0; depth < DEPTH; depth++)
			week->nodes[i] = fake_node(&week->shm.map, week->nodes[i],
						   0x400000 + i * 64 + depth, 0);
	for (unsigned i = 0; i < ORACLE_THREADS; i++) {
		fake_thread_open(&week->threads[i], &week->shm.map, i + 1);
		week->threads[i].no_wait = true; /* nobody would come */
	}
	week->start_ns = clock_steady_ns();
	week->origin = feed.clock.base_stamp + 1;
}

static double progress(const struct week *week)
{
	double by_time = 0, by_events = 0;
	if (week->limit_ns)
		by_time = (double)(clock_steady_ns() - week->start_ns) / (double)week->limit_ns;
	if (week->limit_events)
		by_events = (double)week->events / (double)week->limit_events;
	double done = by_time > by_events ? by_time : by_events;
	return done < 1 ? done : 1;
}

/* As much as fits into the shared memory; its time goes on to `until_ns`. */
static void fill(struct week *week, uint64_t until_ns)
{
	uint64_t from_ns = week->now_ns;
	uint64_t step_ns = (until_ns - from_ns) / ROUND_EVENTS;
	step_ns = step_ns ? step_ns : 1;
	for (uint32_t i = 0; i < ROUND_EVENTS; i++) {
		struct oracle_event event;
		oracle_next(week->oracle, &event);
		struct fake_thread *thread = &week->threads[event.thread];
		uint64_t stamp = week->origin + (week->now_ns = from_ns + i * step_ns);
		bool done = event.is_free ? fake_free(thread, stamp, event.address)
					  : fake_alloc(thread, stamp, event.address, event.bytes,
						       week->nodes[event.stack]);
		if (!done) {
			fputs("bench_week: no room in the shared memory\n", stderr);
			exit(2);
		}
	}
	week->events += ROUND_EVENTS;
}

static void began(void *ctx, struct cursor *cursor)
{
	(void)ctx;
	cursor->thread_id = feed_thread(&feed, cursor->tid, 0);
}

static void ended(void *ctx, struct cursor *cursor)
{
	(void)ctx;
	(void)cursor;
}

/* What the drain thread does; and a sample of the program's memory each second of the week. */
static void drain(struct week *week, uint64_t from_ns)
{
	uint64_t cpu_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
	for (int pass = 0; pass < 2; pass++) {
		merge_release(&week->merge, cursors_snapshot(&week->cursors, began, NULL));
		cursors_sweep(&week->cursors, ended, NULL);
	}
	uint64_t step_ns = (week->now_ns - from_ns) / ROUND_SAMPLES;
	step_ns = step_ns > SECOND_NS ? step_ns : SECOND_NS;
	for (uint64_t at = from_ns / step_ns + 1; at <= week->now_ns / step_ns; at++)
		feed_sample(&feed, &(struct trace_sample){.time_ns = at * step_ns,
							  .rss_bytes = 1 << 28,
							  .anon_bytes = 1 << 27});
	feed_tick(&feed);
	week->collector_cpu_ns += clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
}

static uint64_t resident_bytes(void)
{
	unsigned long long size, pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");
	if (!file)
		return 0;
	if (fscanf(file, "%llu %llu", &size, &pages) != 2)
		pages = 0;
	fclose(file);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void sample(struct week *week, double done)
{
	uint64_t bytes = trace_writer_bytes(week->writer);
	week->largest_bytes = bytes > week->largest_bytes ? bytes : week->largest_bytes;
	if (done * LINES < week->sampled)
		return;
	week->sampled++;
	printf("at=%.5f events=%llu rss=%llu model=%llu file=%llu\n", done,
	       (unsigned long long)week->events, (unsigned long long)resident_bytes(),
	       (unsigned long long)model_memory_bytes(feed.model), (unsigned long long)bytes);
	fflush(stdout);
}

/* ---- the judgement ---- */

static void compare(struct week *week, const char *where, const char *what, uint64_t got,
		    uint64_t wanted)
{
	if (got == wanted)
		return;
	week->wrong++;
	if (week->wrong <= 20)
		fprintf(stderr, "bench_week: %s: %s: got %llu, must be %llu\n", where, what,
			(unsigned long long)got, (unsigned long long)wanted);
}

static void compare_stacks(struct week *week, const struct model *m, const char *where)
{
	for (uint32_t i = 0; i < ORACLE_STACKS; i++) {
		const struct oracle_figures *wanted = oracle_stack(week->oracle, i);
		struct model_stack got = {0};
		uint32_t id = feed_stack(&feed, week->nodes[i]);
		if (!wanted->allocations)
			continue;
		if (model_stack_find(m, id, &got))
			got = (struct model_stack){0};
		compare(week, where, "allocations of a stack", got.allocations,
			wanted->allocations);
		compare(week, where, "bytes of a stack", got.allocated_bytes,
			wanted->allocated_bytes);
		compare(week, where, "frees of a stack", got.frees, wanted->frees);
		compare(week, where, "freed bytes of a stack", got.freed_bytes,
			wanted->freed_bytes);
		compare(week, where, "temporary of a stack", got.temporary, wanted->temporary);
		compare(week, where, "live blocks of a stack", got.live_blocks,
			wanted->live_blocks);
		compare(week, where, "live bytes of a stack", got.live_bytes, wanted->live_bytes);
	}
}

static void compare_all(struct week *week, const struct model *m, const char *where)
{
	const struct oracle_figures *wanted = oracle_all(week->oracle);
	struct model_totals got;
	model_totals(m, &got);
	compare(week, where, "events", got.events, week->events);
	compare(week, where, "allocations", got.allocations, wanted->allocations);
	compare(week, where, "frees", got.frees, wanted->frees);
	compare(week, where, "allocated bytes", got.allocated_bytes, wanted->allocated_bytes);
	compare(week, where, "freed bytes", got.freed_bytes, wanted->freed_bytes);
	compare(week, where, "temporary", got.temporary, wanted->temporary);
	compare(week, where, "live blocks", got.live_blocks, wanted->live_blocks);
	compare(week, where, "live bytes", got.live_bytes, wanted->live_bytes);
	compare(week, where, "peak bytes", got.peak_bytes, wanted->peak_bytes);
	compare(week, where, "freed unseen", got.freed_unseen, 0);
	compare(week, where, "freed older", got.freed_older, 0);
	compare_stacks(week, m, where);
}

static void close_week(struct week *week)
{
	struct tm_error err = {0};
	struct trace_reader *reader;
	struct model *loaded;
	feed_close_slice(&feed);
	need(feed.error, &feed.why);
	trace_writer_end(week->writer,
			 &(struct trace_end){.cause = TRACE_END_EXIT, .duration_ns = week->now_ns});
	uint64_t rss = resident_bytes();
	need(trace_writer_close(week->writer, &err), &err);
	compare(week, "while recording", "records without sense", feed.bad_events, 0);
	compare_all(week, feed.model, "while recording");
	uint64_t open_ns = clock_steady_ns();
	need(trace_reader_open(week->path, &reader, &err), &err);
	need(model_load(reader, &loaded, &err), &err);
	open_ns = clock_steady_ns() - open_ns;
	compare_all(week, loaded, "in the file");
	printf("events=%llu days=%.3f seconds=%.1f drain_ns_per_event=%.2f cpu_ns_per_event=%.2f "
	       "file=%llu largest=%llu limit=%llu rss=%llu open_ms=%.1f wrong=%u\n",
	       (unsigned long long)week->events, (double)week->now_ns / 86400e9,
	       (double)(clock_steady_ns() - week->start_ns) / 1e9,
	       (double)week->collector_cpu_ns / (double)week->events,
	       (double)clock_cpu_ns() / (double)week->events,
	       (unsigned long long)trace_reader_file_bytes(reader),
	       (unsigned long long)week->largest_bytes, (unsigned long long)week->limit_bytes,
	       (unsigned long long)rss, (double)open_ns / 1e6, week->wrong);
	model_free(loaded);
	trace_reader_close(reader);
}

int main(int argc, char **argv)
{
	static struct week week;
	if (argc != 5 || (!atof(argv[1]) && !atoll(argv[2]))) {
		fputs("usage: bench_week SECONDS MILLION_EVENTS LIMIT_MIB FILE\n", stderr);
		return 2;
	}
	week.limit_ns = (uint64_t)(atof(argv[1]) * 1e9);
	week.limit_events = (uint64_t)(atof(argv[2]) * 1e6);
	week.limit_bytes = (uint64_t)atoll(argv[3]) << 20;
	week.path = argv[4];
	tm_map_large_blocks(TM_LARGE_FOR_WEEKS); /* as those who record do */
	open_week(&week);
	for (double done; (done = progress(&week)) < 1;) {
		uint64_t from_ns = week.now_ns;
		uint64_t until_ns = (uint64_t)(done * (double)WEEK_NS);
		fill(&week, until_ns > from_ns ? until_ns : from_ns + ROUND_EVENTS);
		drain(&week, from_ns);
		sample(&week, done);
	}
	close_week(&week);
	oracle_free(week.oracle);
	return week.wrong ? 1 : 0;
}
