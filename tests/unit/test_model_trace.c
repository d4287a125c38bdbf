/* SPDX-License-Identifier: Apache-2.0 */
/* A model loaded from a trace, one rebuilt from its events, and the one that ran while it was
 * written. */
#include "base/memory.h"
#include "harness/tap.h"
#include "model/model.h"
#include "model_reference.h"
#include "trace/trace.h"
#include "written_trace.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EVENTS = 8000 };

struct recording {
	char path[64];
	int fd;
	struct model *m;
	struct trace_writer *w;
	struct ref_model *ref;
	struct ref_source source;
};

static void open_recording(struct recording *rec, uint64_t seed)
{
	*rec = (struct recording){
		.path = "/tmp/tidemark-test-model-XXXXXX",
		.ref = ref_new(),
		.source = {.random = seed, .addresses = 200, .honest = true, .plentiful = seed % 3},
	};
	rec->fd = mkstemp(rec->path);
	REQUIRE(rec->fd >= 0);
	REQUIRE(model_new(NULL, &rec->m, NULL) == 0);
	struct trace_writer_options options = {.addresses = seed % 2};
	struct tm_error err;
	REQUIRE(trace_writer_open(rec->fd, &options, &rec->w, &err) == 0);
	struct trace_meta meta = written_meta();
	meta.addresses = seed % 2;
	REQUIRE(trace_writer_begin(rec->w, &meta) == 0);
	struct trace_stack stacks[REF_STACKS];
	for (uint32_t i = 0; i < REF_STACKS; i++)
		stacks[i] = (struct trace_stack){.parent_id = i, .pc = 0x1000 + i};
	REQUIRE(trace_writer_stacks(rec->w, stacks, REF_STACKS) == 0);
	for (uint32_t i = 0; i < REF_THREADS; i++) {
		struct trace_thread thread = {.thread_id = i, .tid = 100 + i, .end_ns = UINT64_MAX};
		REQUIRE(trace_writer_thread(rec->w, &thread) == 0);
	}
}

static void cut(struct recording *rec)
{
	struct trace_slice slice;
	REQUIRE(model_slice_take(rec->m, &slice, NULL) == 0);
	REQUIRE(trace_writer_slice(rec->w, &slice) == 0);
	ref_next_slice(rec->ref);
}

static void add_batch(struct recording *rec)
{
	struct trace_event batch[130], want;
	size_t count = 0, limit = 1 + ref_random(&rec->source, 120);
	while (count < limit) {
		size_t made = ref_make(&rec->source, rec->ref, &batch[count]);
		for (size_t i = 0; i < made; i++, count++)
			ref_apply(rec->ref, &batch[count], &want);
	}
	REQUIRE(model_apply(rec->m, batch, count, NULL) == 0);
	REQUIRE(trace_writer_events(rec->w, batch, count) == 0);
}

/* Its time lies a little after the last event's, as with a real sampler. */
static void add_sample(struct recording *rec)
{
	struct trace_sample sample = {
		.time_ns = rec->source.time_ns + ref_random(&rec->source, 5000),
		.rss_bytes = 1 + ref_random(&rec->source, 1 << 30),
		.anon_bytes = 7,
		.agent_bytes = ref_random(&rec->source, 1000),
	};
	model_apply_sample(rec->m, &sample);
	REQUIRE(trace_writer_sample(rec->w, &sample) == 0);
}

static void add_map(struct recording *rec)
{
	struct trace_map_event event = {
		.time_ns = rec->source.time_ns,
		.address = 0x10000 + 4096 * ref_random(&rec->source, 64),
		.bytes = 4096 * (1 + ref_random(&rec->source, 8)),
		.prot_or_advice = ref_random(&rec->source, 4) ? 3 : 0,
		.op = (uint8_t)ref_random(&rec->source, 3),
		.flags = ref_random(&rec->source, 3) ? 0 : TRACE_MAP_FILE,
	};
	REQUIRE(model_apply_map(rec->m, &event, NULL) == 0);
	REQUIRE(trace_writer_maps(rec->w, &event, 1) == 0);
}

static void record(struct recording *rec, unsigned cut_each, size_t events)
{
	while (rec->ref->events < events) {
		add_batch(rec);
		if (ref_random(&rec->source, 4) == 0)
			add_map(rec);
		if (ref_random(&rec->source, 5) == 0)
			add_sample(rec);
		if (cut_each && ref_random(&rec->source, cut_each) == 0 &&
		    rec->ref->slice_id < REF_SLICES - 2)
			cut(rec);
	}
}

static void close_recording(struct recording *rec)
{
	model_free(rec->m);
	ref_free(rec->ref);
	unlink(rec->path);
}

/* ---- comparison ---- */

static void check_totals(const struct model *got_model, const struct model *want_model)
{
	struct model_totals got, want;
	model_totals(got_model, &got);
	model_totals(want_model, &want);
	CHECK_EQ_U64(got.duration_ns, want.duration_ns);
	CHECK_EQ_U64(got.events, want.events);
	CHECK_EQ_U64(got.allocations, want.allocations);
	CHECK_EQ_U64(got.frees, want.frees);
	CHECK_EQ_U64(got.allocated_bytes, want.allocated_bytes);
	CHECK_EQ_U64(got.freed_bytes, want.freed_bytes);
	CHECK_EQ_U64(got.temporary, want.temporary);
	CHECK_EQ_U64(got.failed, want.failed);
	CHECK_EQ_U64(got.freed_unseen, want.freed_unseen);
	CHECK_EQ_U64(got.freed_older, want.freed_older);
	CHECK_EQ_U64(got.live_bytes, want.live_bytes);
	CHECK_EQ_U64(got.live_blocks, want.live_blocks);
	CHECK_EQ_U64(got.peak_bytes, want.peak_bytes);
	CHECK_EQ_U64(got.peak_blocks, want.peak_blocks);
	CHECK_EQ_U64(got.peak_time_ns, want.peak_time_ns);
	CHECK_EQ_U64(got.mapped_peak_bytes, want.mapped_peak_bytes);
	CHECK_EQ_U64(got.mapped_peak_time_ns, want.mapped_peak_time_ns);
	CHECK_EQ_U64(got.reserved_bytes, want.reserved_bytes);
	CHECK_EQ_U64(got.file_mapped_bytes, want.file_mapped_bytes);
	CHECK_EQ_U64(got.peak_rss_bytes, want.peak_rss_bytes);
	CHECK_EQ_U64(got.peak_rss_time_ns, want.peak_rss_time_ns);
	CHECK_EQ_U64(got.rss_heap_bytes, want.rss_heap_bytes);
	CHECK_EQ_U64(got.rss_mapped_bytes, want.rss_mapped_bytes);
	CHECK_EQ_U64(got.rss_agent_bytes, want.rss_agent_bytes);
	CHECK_EQ_U64(got.stacks, want.stacks);
	CHECK_MEM(&got, &want, sizeof got);
}

struct listing {
	struct model_stack stacks[REF_STACKS];
	size_t count;
};

static int list_stack(void *ctx, const struct model_stack *stack)
{
	struct listing *listing = ctx;
	REQUIRE(listing->count < REF_STACKS);
	listing->stacks[listing->count++] = *stack;
	return 0;
}

static void check_same(const struct model *got, const struct model *want)
{
	struct listing got_list = {.count = 0}, want_list = {.count = 0};
	check_totals(got, want);
	CHECK_EQ_I64(model_stacks(got, list_stack, &got_list), 0);
	CHECK_EQ_I64(model_stacks(want, list_stack, &want_list), 0);
	CHECK_EQ_U64(got_list.count, want_list.count);
	CHECK_MEM(got_list.stacks, want_list.stacks, sizeof got_list.stacks);
}

struct live_check {
	const struct ref_model *ref;
	bool addresses;
	uint64_t count;
};

static int check_live(void *ctx, const struct model_block *block)
{
	struct live_check *check = ctx;
	REQUIRE(block->block_id < check->ref->block_count);
	const struct ref_block *want = &check->ref->blocks[block->block_id];
	check->count++;
	CHECK(want->live);
	CHECK_EQ_U64(block->size_bytes, want->size_bytes);
	CHECK_EQ_U64(block->stack_id, want->stack_id);
	CHECK_EQ_U64(block->thread_id, want->thread_id);
	CHECK_EQ_U64(block->birth_ns, want->birth_ns / 1000 * 1000);
	CHECK_EQ_U64(block->address, check->addresses ? want->address : 0);
	return 0;
}

static int model_anew(struct trace_reader *r, struct model **ret, struct tm_error *err)
{
	const struct model_load_options options = {.anew = true, .threads = 3};
	bool again = false;
	int rc = model_load_with(r, &options, ret, &again, err);
	CHECK(rc || again);
	return rc;
}

static void compare(struct recording *rec, bool addresses)
{
	struct trace_reader *reader;
	struct tm_error err = {0};
	struct model *loaded, *rebuilt, *anew;
	if (!CHECK_EQ_I64(trace_reader_open(rec->path, &reader, &err), 0))
		tap_note("%s", err.text);
	int rc = model_load(reader, &loaded, &err);
	if (!CHECK_EQ_I64(rc, 0)) {
		tap_note("%s", err.text);
		tap_stop();
	}
	REQUIRE(model_rebuild(reader, &rebuilt, &err) == 0);
	REQUIRE(model_anew(reader, &anew, &err) == 0);
	check_same(anew, rec->m);
	check_same(rebuilt, rec->m);
	check_same(loaded, rec->m);
	struct live_check check = {.ref = rec->ref, .addresses = addresses};
	CHECK_EQ_I64(model_live_blocks(rebuilt, check_live, &check), 0);
	CHECK_EQ_U64(check.count, ref_live_blocks(rec->ref));
	model_free(loaded);
	model_free(rebuilt);
	model_free(anew);
	trace_reader_close(reader);
}

/* ---- cases ---- */

static void finish(struct recording *rec)
{
	struct trace_end end = {.cause = TRACE_END_EXIT, .duration_ns = rec->source.time_ns};
	REQUIRE(trace_writer_end(rec->w, &end) == 0);
	REQUIRE(trace_writer_close(rec->w, NULL) == 0);
}

static void finished(void)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct recording rec;
		open_recording(&rec, seed);
		record(&rec, 6, EVENTS);
		cut(&rec);
		finish(&rec);
		compare(&rec, seed % 2);
		close_recording(&rec);
	}
}

/* The last events are after the last slice: in a finished file the older ones have no reference. */
static void finished_without_last_slice(void)
{
	for (uint64_t seed = 11; seed <= 18; seed++) {
		struct recording rec;
		open_recording(&rec, seed);
		record(&rec, 10, EVENTS);
		cut(&rec);
		record(&rec, 0, rec.ref->events + 1 + 40 * (seed - 11) * (seed - 11));
		finish(&rec);
		compare(&rec, seed % 2);
		close_recording(&rec);
	}
}

/* As a killed collector leaves it: the reader sees what the last tick made durable. */
static bool sees_all(const struct recording *rec)
{
	struct trace_reader *reader;
	struct trace_event_block block = {0};
	if (trace_reader_open(rec->path, &reader, NULL))
		return false;
	size_t count = trace_reader_event_block_count(reader);
	int rc = count ? trace_reader_event_block(reader, count - 1, &block) : -1;
	trace_reader_close(reader);
	return rc == 0 && block.first_event + block.event_count == rec->ref->events;
}

static void unfinished(void)
{
	for (uint64_t seed = 21; seed <= 28; seed++) {
		struct recording rec;
		open_recording(&rec, seed);
		record(&rec, 8, EVENTS);
		cut(&rec);
		REQUIRE(trace_writer_tick(rec.w) == 0);
		record(&rec, 0, rec.ref->events + 1 + 100 * (seed - 21));
		REQUIRE(trace_writer_tick(rec.w) == 0);
		while (!sees_all(&rec)) /* written by a thread of its own; the watchdog limits it */
			usleep(1000);
		compare(&rec, seed % 2);
		finish(&rec);
		close_recording(&rec);
	}
}

static void without_slices(void)
{
	struct recording rec;
	open_recording(&rec, 31);
	record(&rec, 0, 2000);
	finish(&rec);
	compare(&rec, true);
	close_recording(&rec);
}

/* So many frees of unknown blocks that a block of events fills up. */
static void add_strangers(struct recording *rec)
{
	enum { COUNT = 512 };
	for (int n = 0; n < 80; n++) {
		struct trace_event events[COUNT];
		for (int i = 0; i < COUNT; i++)
			events[i] = (struct trace_event){.time_ns = rec->source.time_ns,
							 .op = TRACE_FREE_OLDER};
		REQUIRE(model_apply(rec->m, events, COUNT, NULL) == 0);
		REQUIRE(trace_writer_events(rec->w, events, COUNT) == 0);
		rec->ref->events += COUNT;
		rec->ref->freed_older += COUNT;
	}
	rec->ref->threads[0].last_was_birth = false;
}

/* Births lie in other blocks of events than deaths. */
static void many_blocks_of(uint64_t seed)
{
	struct recording rec;
	open_recording(&rec, seed);
	rec.source.addresses = 60;
	for (int i = 0; i < 5; i++) {
		record(&rec, 30, rec.ref->events + 3000);
		cut(&rec);
		add_strangers(&rec);
	}
	record(&rec, 0, rec.ref->events + 900);
	finish(&rec);
	compare(&rec, seed % 2);
	close_recording(&rec);
}

static void many_blocks(void)
{
	for (uint64_t seed = 41; seed <= 44; seed++)
		many_blocks_of(seed);
}

/* A thread allocates before the last slice, others go on, and then it frees: still temporary. */
static void temporary_across_slices(void)
{
	struct recording rec;
	open_recording(&rec, 51);
	struct trace_event first[] = {
		{.time_ns = 1000, .address = 16, .size_bytes = 5, .stack_id = 3, .thread_id = 1},
		{.time_ns = 2000, .address = 32, .size_bytes = 6, .stack_id = 3, .thread_id = 2},
		{.time_ns = 2000, .address = 48, .size_bytes = 7, .stack_id = 3, .thread_id = 2},
		{.time_ns = 3000, .address = 48, .thread_id = 2, .op = TRACE_REALLOC_FREE},
	};
	struct trace_event last[] = {
		{.time_ns = 4000, .address = 16, .thread_id = 1, .op = TRACE_FREE},
		{.time_ns = 5000, .address = 32, .thread_id = 3, .op = TRACE_FREE},
		{.time_ns = 6000,
		 .size_bytes = 1 << 30,
		 .stack_id = 4,
		 .thread_id = 2,
		 .op = TRACE_REALLOC_UNDO},
	};
	struct trace_event want;
	for (size_t i = 0; i < 4; i++)
		ref_apply(rec.ref, &first[i], &want);
	REQUIRE(model_apply(rec.m, first, 4, NULL) == 0);
	REQUIRE(trace_writer_events(rec.w, first, 4) == 0);
	cut(&rec);
	for (size_t i = 0; i < 3; i++)
		ref_apply(rec.ref, &last[i], &want);
	REQUIRE(model_apply(rec.m, last, 3, NULL) == 0);
	REQUIRE(trace_writer_events(rec.w, last, 3) == 0);
	struct model_totals totals;
	model_totals(rec.m, &totals);
	CHECK_EQ_U64(totals.temporary, 1);
	CHECK_EQ_U64(totals.live_bytes, 7); /* the failed realloc gave its block back */
	CHECK_EQ_U64(totals.failed, 1);
	finish(&rec);
	compare(&rec, true);
	close_recording(&rec);
}

/* ---- damage ---- */

static struct model *load(const char *path,
			  int (*way)(struct trace_reader *, struct model **, struct tm_error *))
{
	struct trace_reader *reader;
	struct model *m = NULL;
	struct tm_error err = {0};
	if (trace_reader_open(path, &reader, &err) == 0) {
		int rc = way(reader, &m, &err);
		CHECK((rc == 0) == (m != NULL));
		CHECK(rc == 0 || (rc < 0 && err.text[0]));
		trace_reader_close(reader);
	}
	return m;
}

/* Slices that contradict themselves: the events decide. */
static void lying_slices(void)
{
	for (int lie = 0; lie < 6; lie++) {
		struct recording rec;
		struct trace_slice slice;
		open_recording(&rec, 71);
		record(&rec, 0, 500);
		REQUIRE(model_slice_take(rec.m, &slice, NULL) == 0);
		struct trace_slice_row *rows = calloc(slice.row_count, sizeof *rows);
		memcpy(rows, slice.rows, slice.row_count * sizeof *rows);
		slice.rows = rows;
		slice.live_bytes += lie == 0;
		slice.first_event += lie == 1;
		slice.slice_id += lie == 2;
		rows[1].births -= lie == 3 ? rows[1].births : 0;
		rows[1].birth_bytes = lie == 4 ? UINT64_MAX : rows[1].birth_bytes;
		rows[1].peak_count = lie == 5 ? UINT64_MAX - 1 : rows[1].peak_count;
		REQUIRE(trace_writer_slice(rec.w, &slice) == 0);
		finish(&rec);
		struct model *m = load(rec.path, model_load);
		REQUIRE(m);
		check_same(m, rec.m);
		model_free(m);
		free(rows);
		close_recording(&rec);
	}
}

/* Any byte may be wrong: an error or other figures, but no crash, no hang. */
static void damaged_files(void)
{
	struct recording rec;
	open_recording(&rec, 81);
	record(&rec, 5, 3000);
	cut(&rec);
	record(&rec, 0, rec.ref->events + 200);
	finish(&rec);
	int fd = open(rec.path, O_RDWR);
	off_t bytes = lseek(fd, 0, SEEK_END);
	REQUIRE(fd >= 0 && bytes > 0);
	for (int i = 0; i < 250; i++) {
		off_t at = (off_t)ref_random(&rec.source, (uint64_t)bytes);
		uint8_t byte, wrong;
		REQUIRE(pread(fd, &byte, 1, at) == 1);
		wrong = byte ^ (uint8_t)(1 + ref_random(&rec.source, 255));
		REQUIRE(pwrite(fd, &wrong, 1, at) == 1);
		model_free(load(rec.path, model_load));
		model_free(load(rec.path, model_rebuild));
		model_free(load(rec.path, model_anew));
		REQUIRE(pwrite(fd, &byte, 1, at) == 1);
	}
	close(fd);
	close_recording(&rec);
}

static void no_memory(void)
{
	struct recording rec;
	open_recording(&rec, 61);
	record(&rec, 3, 400);
	cut(&rec);
	record(&rec, 0, rec.ref->events + 100);
	finish(&rec);
	struct model *m = NULL;
	int (*const ways[])(struct trace_reader *, struct model **,
			    struct tm_error *) = {model_load, model_rebuild, model_anew};
	for (size_t way = 0; way < 3; way++) {
		int rc = -1;
		for (long n = 0; rc != 0 && n < 3000; n++) {
			struct trace_reader *reader;
			REQUIRE(trace_reader_open(rec.path, &reader, NULL) == 0);
			tm_alloc_fail_at(n);
			rc = ways[way](reader, &m, NULL);
			tm_alloc_fail_at(-1);
			CHECK(rc == 0 || !m);
			trace_reader_close(reader);
		}
		REQUIRE(rc == 0);
		check_same(m, rec.m);
		m = model_free(m);
	}
	close_recording(&rec);
}

static const struct tap_case cases[] = {
	{.name = "the report of a finished trace shows what was recorded", .run = finished},
	{.name = "events after the last slice are in the report",
	 .run = finished_without_last_slice},
	{.name = "the report of a killed recording shows what was recorded", .run = unfinished},
	{.name = "a trace without aggregates can be read", .run = without_slices},
	{.name = "blocks that live long are told right", .run = many_blocks},
	{.name = "temporary blocks and failed reallocs across slices are told right",
	 .run = temporary_across_slices},
	{.name = "slices that contradict themselves are not believed", .run = lying_slices},
	{.name = "a damaged file crashes nothing", .run = damaged_files},
	{.name = "lack of memory while loading is an error, not a crash", .run = no_memory},
};
TAP_MAIN(cases)
