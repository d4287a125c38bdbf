/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/feed.h"

#include "base/memory.h"
#include "harness/tap.h"
#include "model_reference.h"
#include "written_trace.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CULL_NS = 1000000000, MARKS = 400, ROUNDS = 500 };

static struct feed feed; /* as large as its batch */
static struct ref_model *ref;
static struct ref_source source;
static char path[64];

static void begin(uint64_t cull_ns)
{
	struct trace_meta meta = written_meta();
	meta.cull_ns = cull_ns;
	ref = ref_new();
	source = (struct ref_source){.random = 7, .time_ns = 5000, .honest = true, .addresses = 90};
	struct stamp_pair now = stamp_pair_read();
	REQUIRE(!feed_init(&feed, NULL, false, &now, cull_ns, NULL));
	written_begin(path, &(struct trace_writer_options){.addresses = true}, &meta, &feed.writer);
}

static void done(void)
{
	trace_writer_close(feed.writer, NULL);
	feed_done(&feed);
	ref_free(ref);
	unlink(path);
}

static void apply_some(void)
{
	struct trace_event events[128], known;
	size_t count = 0;
	while (count < 100) {
		size_t made = ref_make(&source, ref, &events[count]);
		for (size_t i = 0; i < made; i++, count++)
			ref_apply(ref, &events[count], &known);
	}
	feed_apply(&feed, events, count);
	REQUIRE(!feed.error);
}

/* When nothing waits for the disk: else a tick is put off to the next. */
static void tick(void)
{
	trace_writer_flush(feed.writer);
	feed_tick(&feed);
}

static uint64_t open_events(void)
{
	struct trace_slice open;
	REQUIRE(!model_slice_look(feed.model, &open, NULL));
	return open.event_count;
}

/* Whoever opens the file now, without its recorder, finds all figures. */
static void survives(void)
{
	struct trace_reader *reader;
	struct model *model;
	struct model_totals totals;
	trace_writer_flush(feed.writer);
	written_open_copy(path, &reader);
	REQUIRE(!model_load(reader, &model, NULL));
	model_totals(model, &totals);
	/* What the source did not tell is an event of its own. */
	CHECK_EQ_U64(totals.events, ref->events + (source.honest ? 0 : ref->freed_unseen));
	CHECK_EQ_U64(totals.freed_unseen, ref->freed_unseen);
	CHECK_EQ_U64(totals.live_bytes, ref_live_bytes(ref));
	CHECK_EQ_U64(totals.temporary, ref->temporary);
	model_free(model);
	trace_reader_close(reader);
}

/* The journal begins anew when it is large and its events are sealed, at a moment without others.
 */
static void journal_anew(void)
{
	char text[TRACE_MOMENT_TEXT_MAX];
	memset(text, 'x', sizeof text);
	text[sizeof text - 1] = '\0';
	begin(CULL_NS);
	int rounds = 0;
	do {
		apply_some();
		for (int i = 0; i < MARKS; i++)
			feed_moment(&feed, &(struct trace_moment){.kind = TRACE_MOMENT_MARK,
								  .text = text});
		tick();
		REQUIRE(!trace_writer_sync(feed.writer));
	} while (!(trace_writer_renews(feed.writer) && open_events()) && ++rounds < ROUNDS);
	REQUIRE(rounds < ROUNDS);
	CHECK(cull_count(feed.cull) > 0);
	feed_thread(&feed, 1, 0); /* something else for the journal */
	tick();
	survives();
	done();
}

/* The ends stand before the events that showed them, also within a batch. */
static void unseen_ends_are_told(void)
{
	struct model *m;
	struct model_totals totals;
	const struct model_unseen *ends;
	struct trace_event events[4] = {0};
	REQUIRE(model_new(&(struct model_options){.tells_unseen = true}, &m, NULL) == 0);
	events[0] = (struct trace_event){.address = 0x10, .size_bytes = 10, .stack_id = 7};
	REQUIRE(model_apply(m, events, 1, NULL) == 0);
	CHECK_EQ_U64(model_take_unseen(m, &ends), 0);
	for (size_t i = 0; i < 4; i++) /* at 0x20, 0x10, 0x20, 0x10 */
		events[i] = (struct trace_event){.time_ns = (2 + i) * 1000,
						 .address = i % 2 ? 0x10 : 0x20,
						 .size_bytes = 20 + i,
						 .thread_id = 3,
						 .stack_id = 8};
	REQUIRE(model_apply(m, events, 4, NULL) == 0);
	REQUIRE(model_take_unseen(m, &ends) == 3);
	CHECK_EQ_U64(model_take_unseen(m, &ends), 0);
	static const uint64_t ordinals[] = {2, 4, 6}, blocks[] = {0, 1, 2}, sizes[] = {10, 20, 21};
	for (size_t i = 0; i < 3; i++) {
		CHECK_EQ_U64(ends[i].ordinal, ordinals[i]);
		CHECK_EQ_U64(ends[i].event.op, TRACE_FREE_UNSEEN);
		CHECK_EQ_U64(ends[i].event.block_id, blocks[i]);
		CHECK_EQ_U64(ends[i].event.size_bytes, sizes[i]);
		CHECK_EQ_U64(ends[i].event.stack_id, i ? 8 : 7);
		CHECK_EQ_U64(ends[i].event.time_ns, (3 + i) * 1000);
		CHECK_EQ_U64(ends[i].event.thread_id, 3);
	}
	CHECK_EQ_U64(model_next_event(m), 8);
	model_totals(m, &totals);
	CHECK_EQ_U64(totals.events, 8);
	CHECK_EQ_U64(totals.live_bytes, 22 + 23);
	model_free(m);
}

/* Blocks that are born where others still live: their ends are in the file as the model has them.
 */
static void store_unseen(uint64_t cull_ns)
{
	begin(cull_ns);
	source.honest = false;
	for (int i = 0; i < ROUNDS; i++) {
		apply_some();
		if (i % 50 == 0)
			tick();
	}
	CHECK(ref->freed_unseen > 100);
	tick();
	survives();
	feed_close_slice(&feed);
	survives();
	done();
}

static void unseen_ends_are_stored(void)
{
	store_unseen(0);
}

static void unseen_ends_of_culled(void)
{
	store_unseen(CULL_NS);
}

/* Memory is short while such ends are noted: what was not stored must not be stored later. */
static void unseen_without_memory(void)
{
	enum { BATCHES = 6, EVENTS = 60, MOST = 80 };
	for (long fail_at = 0; fail_at < MOST; fail_at++) {
		begin(fail_at % 2 ? CULL_NS : 0);
		source.honest = false;
		tm_alloc_fail_at(fail_at);
		for (int batch = 0; batch < BATCHES; batch++) {
			struct trace_event *events = malloc(EVENTS * sizeof *events), known;
			REQUIRE(events != NULL);
			size_t count = 0;
			for (struct trace_event made[4]; count < EVENTS; count++) {
				REQUIRE(ref_make(&source, ref, made) == 1);
				ref_apply(ref, made, &known);
				made->thread_id += (uint32_t)batch * 40; /* a table that grows */
				events[count] = made[0];
			}
			feed_apply(&feed, events, count);
			free(events);
		}
		tm_alloc_fail_at(-1);
		done();
	}
}

static void put(enum trace_op op, uint32_t thread_id, uint64_t time_ns, uint64_t address)
{
	struct trace_event *place = feed_place(&feed, thread_id);
	*place = (struct trace_event){.op = (uint8_t)op,
				      .thread_id = thread_id,
				      .time_ns = time_ns,
				      .address = address,
				      .size_bytes = 8,
				      .stack_id = 1};
}

/* A batch of two threads; in some of them a free is stamped before its allocation. */
static void hand_over(int batch)
{
	uint64_t time_ns = (uint64_t)batch * 1000000;
	for (uint64_t i = 0; i < 100; i++) {
		put(TRACE_ALLOC, i & 1, time_ns + i * 100, 0x10000 + i * 16);
		put(TRACE_FREE, i & 1, time_ns + i * 100 + 50, 0x10000 + i * 16);
	}
	if (batch % 6 == 0) {
		uint64_t address = 0x500000 + (uint64_t)batch * 16;
		put(TRACE_FREE, 0, time_ns + 20000, address);
		put(TRACE_ALLOC, 1, time_ns + 20100, address);
	}
	feed_flush(&feed, true);
}

/* Where old blocks end, ends are believed; but what may be skew does not prove that they do. */
static void strangers_are_forgotten(void)
{
	struct model_totals totals;
	begin(0);
	struct trace_stack stack = {.pc = 0x1000};
	trace_writer_stacks(feed.writer, &stack, 1);
	feed_expect_strangers(&feed);
	for (int batch = 0; batch < 2000; batch++)
		hand_over(batch);
	REQUIRE(!feed.error);
	model_totals(feed.model, &totals);
	CHECK(feed.repaired > 200); /* of 333 */
	CHECK_EQ_U64(totals.freed_older + feed.repaired, 334);
	for (uint64_t i = 0; i < 100; i++)
		put(TRACE_FREE, i & 1, 3000000000 + i * 5000, 0x900000 + i * 16);
	feed_flush(&feed, true);
	uint64_t repaired = feed.repaired;
	put(TRACE_FREE, 0, 4000000000, 0x80);
	put(TRACE_ALLOC, 1, 4000000100, 0x80);
	feed_flush(&feed, true);
	CHECK_EQ_U64(feed.repaired, repaired); /* there are some again */
	done();
}

static const struct tap_case cases[] = {
	{.name = "a new journal has what was culled, too", .run = journal_anew},
	{.name = "an end that nobody told of is told by the model", .run = unseen_ends_are_told},
	{.name = "and is in the file", .run = unseen_ends_are_stored},
	{.name = "and where blocks are culled", .run = unseen_ends_of_culled},
	{.name = "but not when there was no memory for its batch", .run = unseen_without_memory},
	{.name = "ends of unknown blocks are expected as long as they come",
	 .run = strangers_are_forgotten},
};
TAP_MAIN(cases)
