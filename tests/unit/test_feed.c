/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/feed.h"
#include "harness/tap.h"
#include "model_reference.h"
#include "written_trace.h"

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

static const struct tap_case cases[] = {
	{.name = "a new journal has what was culled, too", .run = journal_anew},
	{.name = "an end that nobody told of is told by the model", .run = unseen_ends_are_told},
	{.name = "and is in the file", .run = unseen_ends_are_stored},
	{.name = "and where blocks are culled", .run = unseen_ends_of_culled},
};
TAP_MAIN(cases)
