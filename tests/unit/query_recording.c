/* SPDX-License-Identifier: Apache-2.0 */
#include "query_recording.h"

#include "harness/tap.h"
#include "written_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

uint64_t recording_random(struct recording *rec, uint64_t below)
{
	return ref_random(&rec->source, below);
}

static void write_tables(struct recording *rec)
{
	struct trace_meta meta = written_meta();
	REQUIRE(trace_writer_begin(rec->writer, &meta) == 0);
	for (uint32_t i = 1; i < QREF_STACKS; i++) {
		struct trace_stack stack = {.parent_id = qref_parent_of(i), .pc = 0x1000 + i};
		REQUIRE(trace_writer_stacks(rec->writer, &stack, 1) == 0);
	}
	for (uint32_t i = 0; i < QREF_THREADS; i++) {
		struct trace_thread thread = {.thread_id = i, .tid = 100 + i, .end_ns = UINT64_MAX};
		snprintf(thread.name, sizeof thread.name, "t%u", i);
		REQUIRE(trace_writer_thread(rec->writer, &thread) == 0);
	}
}

void recording_start(struct recording *rec, uint64_t seed)
{
	*rec = (struct recording){
		.path = "/tmp/tidemark-test-query-XXXXXX",
		.ref = ref_new(),
		.source = {.random = seed * 77 + 5, .honest = true},
		.run = qref_new(),
		.addresses = seed % 4 != 0,
		.no_failures = seed % 3 == 0,
		.pauses = seed % 2,
	};
	rec->source.addresses = 8u << recording_random(rec, 7);
	rec->cut_each = 1 + (unsigned)recording_random(rec, 12);
	rec->seal_each = 1 + (unsigned)recording_random(rec, 8);
	int fd = mkstemp(rec->path);
	REQUIRE(fd >= 0);
	struct trace_writer_options options = {.addresses = rec->addresses, .lean = seed % 5 == 2};
	REQUIRE(trace_writer_open(fd, &options, &rec->writer, NULL) == 0);
	REQUIRE(model_new(NULL, &rec->model, NULL) == 0);
	write_tables(rec);
}

static void cut_slice(struct recording *rec)
{
	struct trace_slice slice;
	REQUIRE(model_slice_take(rec->model, &slice, NULL) == 0);
	REQUIRE(trace_writer_slice(rec->writer, &slice) == 0);
	ref_next_slice(rec->ref);
}

static void add_moment(struct recording *rec, enum trace_moment_kind kind, const char *text)
{
	struct trace_moment moment = {
		.time_ns = rec->source.time_ns, .kind = (uint8_t)kind, .text = text};
	REQUIRE(trace_writer_moment(rec->writer, &moment) == 0);
}

/* Somebody names the moment, or recording is paused or goes on. */
static void some_moments(struct recording *rec)
{
	if (recording_random(rec, 6) == 0 && rec->mark_count < RECORDING_MARKS) {
		char name[16];
		snprintf(name, sizeof name, "m%zu", rec->mark_count);
		add_moment(rec, TRACE_MOMENT_MARK, name);
		rec->marks_ns[rec->mark_count++] = rec->source.time_ns;
	}
	if (!rec->pauses || recording_random(rec, 8) || rec->pause_count == RECORDING_MARKS)
		return;
	rec->pauses_ns[rec->pause_count][rec->paused] = rec->source.time_ns;
	rec->pause_count += rec->paused;
	rec->paused = !rec->paused;
	add_moment(rec, rec->paused ? TRACE_MOMENT_PAUSE : TRACE_MOMENT_RESUME, "");
}

/* In a pause the program goes on, but its allocations are not seen. */
static bool is_seen(const struct recording *rec, const struct trace_event *event)
{
	return !rec->paused || event->op == TRACE_FREE || event->op == TRACE_REALLOC_FREE;
}

/* The reference learns of an event as it will be recorded. */
static void note_event(struct recording *rec, struct trace_event *event)
{
	struct trace_event known;
	if (rec->no_failures && event->op == TRACE_REALLOC_UNDO) {
		event->op = TRACE_REALLOC_ALLOC;
		event->address = 0x600000000000ull + 16 * rec->births;
	}
	bool is_birth = event->op == TRACE_ALLOC || event->op == TRACE_REALLOC_ALLOC;
	if (is_birth)
		event->api = (uint8_t)recording_random(rec, 5);
	ref_apply(rec->ref, event, &known);
	known.time_ns = event->time_ns;
	known.address = rec->addresses ? event->address : 0;
	qref_add(rec->run, &known);
	rec->births += is_birth;
}

static void write_batch(struct recording *rec, struct trace_event *batch, size_t count)
{
	REQUIRE(model_apply(rec->model, batch, count, NULL) == 0);
	REQUIRE(trace_writer_events(rec->writer, batch, count) == 0);
}

/* A forked child: it begins with its parent's blocks, at time 0, by its first thread. */
static void inherit(struct recording *rec)
{
	struct trace_event batch[64];
	size_t count =
		recording_random(rec, rec->source.addresses < 64 ? rec->source.addresses : 64);
	for (size_t i = 0; i < count; i++) {
		batch[i] = (struct trace_event){
			.op = TRACE_ALLOC,
			.address = REF_FIRST_ADDRESS + 16 * i,
			.size_bytes = recording_random(rec, 5000),
			.stack_id = (uint32_t)(1 + recording_random(rec, QREF_STACKS - 1)),
		};
		note_event(rec, &batch[i]);
	}
	write_batch(rec, batch, count);
}

static void add_batch(struct recording *rec)
{
	struct trace_event batch[130];
	size_t count = 0, limit = 1 + recording_random(rec, 100);
	while (count < limit) {
		size_t made = ref_make(&rec->source, rec->ref, &batch[count]);
		if (!is_seen(rec, &batch[count + made - 1])) {
			limit--;
			continue;
		}
		for (size_t i = 0; i < made; i++)
			note_event(rec, &batch[count++]);
	}
	write_batch(rec, batch, count);
}

void recording_run(struct recording *rec, uint64_t events)
{
	if (recording_random(rec, 3) == 0)
		inherit(rec);
	events += rec->run->event_count;
	while (rec->run->event_count < events) {
		add_batch(rec);
		some_moments(rec);
		if (recording_random(rec, rec->seal_each) == 0)
			REQUIRE(trace_writer_skip(rec->writer, rec->run->event_count,
						  rec->births) == 0);
		if (recording_random(rec, rec->cut_each) == 0 &&
		    rec->ref->slice_id < REF_SLICES - 2)
			cut_slice(rec);
	}
	if (recording_random(rec, 3)) /* else events stay without a slice */
		cut_slice(rec);
	if (recording_random(rec, 2)) /* before the end, as a recorder does, or with it */
		trace_writer_sums(rec->writer);
	struct trace_end end = {.cause = TRACE_END_EXIT};
	REQUIRE(trace_writer_end(rec->writer, &end) == 0);
	REQUIRE(trace_writer_close(rec->writer, NULL) == 0);
	struct tm_error err;
	REQUIRE(trace_reader_open(rec->path, &rec->reader, &err) == 0);
	const struct query_open_options options = {.tick_events = rec->tick_events};
	if (!CHECK(query_open(rec->reader, &options, &rec->section, &err) == 0)) {
		tap_note("%s", err.text);
		tap_stop();
	}
	unlink(rec->path);
}

/* The section knows when nothing was seen. */
static void check_pauses(const struct recording *rec)
{
	uint64_t start_ns, end_ns;
	size_t at = 0, count = 0;
	while (query_next_pause(rec->section, &at, &start_ns, &end_ns)) {
		if (count < rec->pause_count) {
			CHECK_EQ_U64(start_ns / 1000, rec->pauses_ns[count][0] / 1000);
			CHECK_EQ_U64(end_ns / 1000, rec->pauses_ns[count][1] / 1000);
		}
		count++;
	}
	CHECK_EQ_U64(count, rec->pause_count + rec->paused);
}

void recording_finish(struct recording *rec)
{
	check_pauses(rec);
	query_close(rec->section);
	trace_reader_close(rec->reader);
	model_free(rec->model);
	ref_free(rec->ref);
	qref_free(rec->run);
}
