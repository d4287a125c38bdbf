/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about one large made-up trace: what they cost, moments, bad input. */
#include "base/memory.h"
#include "base/text.h"
#include "harness/tap.h"
#include "model/query.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 40, BLOCK_EVENTS = 20000, SLICE_BLOCKS = 2, LIVE = 3000, STACKS = 50 };

struct made {
	char path[64];
	struct trace_reader *reader;
	struct query_section *section;
};

/* Each block of events of its own; a slice per two of them; times rise by 1 us per event. */
static void write_events(struct trace_writer *w, struct model *m)
{
	static uint64_t addresses[LIVE];
	static struct trace_event events[BLOCK_EVENTS];
	uint64_t ordinal = 0, births = 0, random = 1;
	for (unsigned b = 0; b < BLOCKS; b++) {
		for (unsigned i = 0; i < BLOCK_EVENTS; i++, ordinal++) {
			random = random * 6364136223846793005ull + 1442695040888963407ull;
			uint64_t *address = &addresses[(random >> 33) % LIVE];
			struct trace_event event = {.time_ns = ordinal * 1000,
						    .op = *address ? TRACE_FREE : TRACE_ALLOC,
						    .stack_id = 1 + (random >> 40) % STACKS,
						    .size_bytes = 16 + (random >> 50),
						    .address = *address};
			if (!*address) {
				*address = event.address = 0x10000 + 64 * ++births;
			} else {
				*address = 0;
			}
			events[i] = event;
		}
		REQUIRE(model_apply(m, events, BLOCK_EVENTS, NULL) == 0);
		REQUIRE(trace_writer_events(w, events, BLOCK_EVENTS) == 0);
		REQUIRE(trace_writer_skip(w, ordinal, births) == 0);
		struct trace_slice slice;
		if (b % SLICE_BLOCKS == SLICE_BLOCKS - 1) {
			REQUIRE(model_slice_take(m, &slice, NULL) == 0);
			REQUIRE(trace_writer_slice(w, &slice) == 0);
		}
	}
}

static void make_limited(struct made *made, uint64_t max_bytes)
{
	struct trace_writer *w;
	struct model *m;
	struct trace_writer_options options = {.addresses = true, .max_bytes = max_bytes};
	struct trace_meta meta = {.tool_version = "",
				  .program = "/bin/x",
				  .command = "x",
				  .host = "",
				  .mode = "exact",
				  .source = "run",
				  .clock = "tsc"};
	*made = (struct made){.path = "/tmp/tidemark-test-ask-XXXXXX"};
	REQUIRE(trace_writer_open(mkstemp(made->path), &options, &w, NULL) == 0);
	REQUIRE(model_new(NULL, &m, NULL) == 0);
	REQUIRE(trace_writer_begin(w, &meta) == 0);
	for (uint32_t i = 0; i < STACKS; i++)
		REQUIRE(trace_writer_stacks(w, &(struct trace_stack){.pc = 0x1000 + i}, 1) == 0);
	write_events(w, m);
	REQUIRE(trace_writer_end(w, &(struct trace_end){.cause = TRACE_END_EXIT}) == 0);
	REQUIRE(trace_writer_close(w, NULL) == 0);
	model_free(m);
	REQUIRE(trace_reader_open(made->path, &made->reader, NULL) == 0);
	REQUIRE(query_open(made->reader, NULL, &made->section, NULL) == 0);
}

static void make(struct made *made)
{
	make_limited(made, 0);
}

static void drop(struct made *made)
{
	query_close(made->section);
	trace_reader_close(made->reader);
	unlink(made->path);
}

static void open_reads_little(void)
{
	struct made made;
	make(&made);
	uint64_t read = trace_reader_bytes_read(made.reader);
	uint64_t file = trace_reader_file_bytes(made.reader);
	tap_note("read %llu of %llu bytes", (unsigned long long)read, (unsigned long long)file);
	CHECK(read < file / 20);
	drop(&made);
}

static void ranges_read_their_edges(void)
{
	struct made made;
	make(&made);
	struct query_answer answer;
	struct query query = {.from_ns = 123456000, .to_ns = 654321000, .want = QUERY_PEAK};
	REQUIRE(query_ask(made.section, &query, &answer, NULL) == 0);
	CHECK_EQ_U64(answer.way, QUERY_FROM_EDGES);
	CHECK_EQ_U64(answer.event_count, 654321 - 123456 + 1);
	/* Two edges and the slice of the peak, of 40 blocks; they hold 1/40 of the file each. */
	CHECK(answer.event_blocks <= 6);
	CHECK(answer.bytes_read < trace_reader_file_bytes(made.reader) / 4);
	CHECK_EQ_U64(answer.totals.start_blocks + answer.totals.allocations,
		     answer.totals.end_blocks + answer.totals.frees);
	CHECK_EQ_U64(answer.totals.peak_bytes, answer.peak_bytes);
	struct text how = {0};
	query_answer_explain(&how, &answer);
	CHECK_HAS(text_string(&how), "from aggregates and ");
	text_done(&how);
	query_answer_done(&answer);
	query = (struct query){.to_ns = UINT64_MAX, .want = QUERY_PEAK};
	REQUIRE(query_ask(made.section, &query, &answer, NULL) == 0);
	CHECK_EQ_U64(answer.way, QUERY_FROM_AGGREGATES);
	CHECK_EQ_U64(answer.event_blocks, 0);
	struct model_totals totals;
	model_totals(query_model(made.section), &totals);
	CHECK_EQ_U64(answer.peak_bytes, totals.peak_bytes);
	CHECK_EQ_U64(answer.totals.allocations, totals.allocations);
	query_answer_done(&answer);
	drop(&made);
}

static void scans_skip_and_tell(void)
{
	struct made made;
	make(&made);
	struct filter *filter;
	struct filter_bound *bound;
	struct query_answer answer;
	REQUIRE(filter_parse("size>1G", &filter, NULL, NULL) == 0);
	REQUIRE(query_bind(made.section, filter, NULL, &bound, NULL) == 0);
	struct query query = {.to_ns = UINT64_MAX, .filter = bound};
	REQUIRE(query_ask(made.section, &query, &answer, NULL) == 0);
	CHECK_EQ_U64(answer.way, QUERY_FROM_SCAN);
	CHECK_EQ_U64(answer.event_blocks, 0); /* no header speaks of such a size */
	CHECK_EQ_U64(answer.skipped_blocks, BLOCKS);
	CHECK_EQ_U64(answer.row_count, 0);
	query_answer_done(&answer);
	filter_bound_free(bound);
	filter_free(filter);
	drop(&made);
}

static int stop_at_once(void *ctx, uint64_t done, uint64_t total)
{
	uint64_t *calls = ctx;
	CHECK(done <= total);
	return ++*calls == 3;
}

static void scans_can_be_stopped(void)
{
	struct made made;
	make(&made);
	uint64_t calls = 0;
	struct tm_error err;
	struct query_answer answer;
	struct query query = {
		.to_ns = UINT64_MAX, .by_scan = true, .progress = {stop_at_once, &calls}};
	CHECK_EQ_I64(query_ask(made.section, &query, &answer, &err), -ECANCELED);
	CHECK_HAS(err.text, "stopped");
	CHECK_EQ_U64(calls, 3);
	drop(&made);
}

static void moments_are_read(void)
{
	struct made made;
	make(&made);
	struct query_mark mark = {"loaded", 123000};
	REQUIRE(query_set_marks(made.section, &mark, 1, NULL) == 0);
	uint64_t duration = query_duration_ns(made.section), ns;
	struct model_totals totals;
	model_totals(query_model(made.section), &totals);
	const struct {
		const char *text;
		uint64_t ns;
	} good[] = {{"start", 0},
		    {"end", duration},
		    {"100%", duration},
		    {"0%", 0},
		    {"50%", (uint64_t)((double)duration * 0.5)},
		    {"0.25s", 250000000},
		    {"0.25", 250000000},
		    {"250ms", 250000000},
		    {"peak", totals.peak_time_ns},
		    {"loaded", 123000},
		    {"99h", duration}};
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		ns = 1;
		CHECK_EQ_I64(query_time_parse(made.section, good[i].text, &ns, NULL), 0);
		if (!CHECK_EQ_U64(ns, good[i].ns))
			tap_note("%s", good[i].text);
	}
	static const char *const bad[] = {"", "yesterday", "-1s", "101%", "nan%", "5 parsecs", "%"};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct tm_error err;
		if (!CHECK_EQ_I64(query_time_parse(made.section, bad[i], &ns, &err), -EINVAL))
			tap_note("%s", bad[i]);
		CHECK_HAS(err.text, "is no moment");
	}
	drop(&made);
}

static void odd_ranges_are_answered(void)
{
	struct made made;
	make(&made);
	struct tm_error err;
	struct query_answer answer;
	struct query query = {.from_ns = 5, .to_ns = 4};
	CHECK_EQ_I64(query_ask(made.section, &query, &answer, &err), -EINVAL);
	CHECK_HAS(err.text, "ends before it begins");
	query = (struct query){.from_ns = UINT64_MAX - 1, .to_ns = UINT64_MAX, .want = QUERY_ALL};
	REQUIRE(query_ask(made.section, &query, &answer, &err) == 0);
	CHECK_EQ_U64(answer.event_count, 0);
	CHECK_EQ_U64(answer.totals.start_blocks, answer.totals.end_blocks);
	CHECK_EQ_U64(answer.totals.allocations, 0);
	query_answer_done(&answer);
	drop(&made);
}

/* With a limit on the file the later events are in the slices only. */
static void unstored_events_snap(void)
{
	struct made made;
	make_limited(&made, 1000000);
	uint64_t duration = query_duration_ns(made.section);
	struct query_answer whole, part;
	struct query query = {.to_ns = UINT64_MAX, .want = QUERY_KEPT};
	REQUIRE(query_ask(made.section, &query, &whole, NULL) == 0);
	CHECK(!whole.snapped);
	CHECK_EQ_U64(whole.event_count, BLOCKS * BLOCK_EVENTS);
	CHECK_EQ_U64(whole.totals.kept_blocks, whole.totals.end_blocks);
	uint64_t sum = 0, at = duration / 100 * 90 + 1000;
	for (unsigned i = 0; i < 2; i++) {
		query.from_ns = i ? at + 1000 : 1000;
		query.to_ns = i ? UINT64_MAX : at;
		REQUIRE(query_ask(made.section, &query, &part, NULL) == 0);
		CHECK(part.snapped);
		CHECK_EQ_U64(part.totals.start_blocks + part.totals.allocations,
			     part.totals.end_blocks + part.totals.frees);
		CHECK_EQ_U64(part.first_event, i ? sum : 1);
		sum += part.event_count + part.first_event * !i;
		query_answer_done(&part);
	}
	CHECK_EQ_U64(sum, whole.event_count);
	query_answer_done(&whole);
	drop(&made);
}

struct asker {
	struct made *made;
	uint64_t allocations[20];
};

static void ask_some(struct asker *asker)
{
	for (unsigned i = 0; i < 20; i++) {
		struct query_answer answer;
		struct query query = {.from_ns = 1000 * (1 + 7001 * i),
				      .to_ns = 1000 * (300000 + 9973 * i),
				      .want = QUERY_PEAK | QUERY_KEPT};
		if (query_ask(asker->made->section, &query, &answer, NULL))
			return;
		asker->allocations[i] = answer.totals.allocations + answer.totals.kept_bytes;
		query_answer_done(&answer);
	}
}

static void *ask_in_thread(void *ctx)
{
	ask_some(ctx);
	return NULL;
}

static void threads_ask_at_once(void)
{
	enum { ASKERS = 4 };
	struct made made;
	make(&made);
	struct asker alone = {.made = &made}, askers[ASKERS];
	pthread_t threads[ASKERS];
	ask_some(&alone);
	CHECK(alone.allocations[19] > 0);
	for (unsigned i = 0; i < ASKERS; i++) {
		askers[i] = (struct asker){.made = &made};
		REQUIRE(pthread_create(&threads[i], NULL, ask_in_thread, &askers[i]) == 0);
	}
	for (unsigned i = 0; i < ASKERS; i++) {
		pthread_join(threads[i], NULL);
		CHECK_MEM(askers[i].allocations, alone.allocations, sizeof alone.allocations);
	}
	drop(&made);
}

static void memory_may_run_out(void)
{
	struct made made;
	make(&made);
	long n = 0;
	for (int rc = -ENOMEM; rc; n++) {
		struct query_answer answer;
		struct query query = {.from_ns = 1000000, .to_ns = 9000000, .want = QUERY_ALL};
		query.want &= n % 2 ? QUERY_ALL : ~(unsigned)QUERY_THREADS;
		tm_alloc_fail_at(n);
		rc = query_ask(made.section, &query, &answer, NULL);
		tm_alloc_fail_at(-1);
		if (!rc)
			query_answer_done(&answer);
		else if (!CHECK_EQ_I64(rc, -ENOMEM))
			break;
	}
	CHECK(n > 10);
	drop(&made);
}

static const struct tap_case cases[] = {
	{.name = "opening a trace reads little of it", .run = open_reads_little},
	{.name = "a range reads its edges, not the file", .run = ranges_read_their_edges},
	{.name = "a scan leaves out what cannot match", .run = scans_skip_and_tell},
	{.name = "a scan can be stopped", .run = scans_can_be_stopped},
	{.name = "moments are read as people write them", .run = moments_are_read},
	{.name = "ranges outside the run are answered", .run = odd_ranges_are_answered},
	{.name = "several threads ask at once", .run = threads_ask_at_once},
	{.name = "ranges of events that are not stored snap to slices and say so",
	 .run = unstored_events_snap},
	{.name = "a question without memory fails cleanly", .run = memory_may_run_out},
};
TAP_MAIN(cases)
