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

static void begin(void)
{
	struct trace_meta meta = written_meta();
	meta.cull_ns = CULL_NS;
	ref = ref_new();
	source = (struct ref_source){.random = 7, .time_ns = 5000, .honest = true, .addresses = 90};
	struct stamp_pair now = stamp_pair_read();
	REQUIRE(!feed_init(&feed, NULL, false, &now, CULL_NS, NULL));
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
	CHECK_EQ_U64(totals.events, ref->events);
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
	begin();
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

static const struct tap_case cases[] = {
	{.name = "a new journal has what was culled, too", .run = journal_anew},
};
TAP_MAIN(cases)
