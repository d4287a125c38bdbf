/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace without its short-lived blocks says the same as the whole one: both
 * are written from the same random events, and every figure is compared.
 */
#include "collector/cull.h"
#include "harness/tap.h"
#include "model/query.h"
#include "model/repair.h"
#include "model_reference.h"
#include "trace/format.h"
#include "trace/trace.h"
#include "written_trace.h"

#include "base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEEDS = 8, EVENTS = 8000, ASKS = 40 };

struct side {
	char path[64];
	struct model *model;
	struct trace_writer *writer;
	struct cull *cull; /* NULL: the whole trace */
	struct trace_reader *reader;
	struct query_section *section;
};

struct pair {
	struct side whole, culled;
	struct ref_model *ref;
	struct ref_source source;
	uint64_t events;
	char filter[64]; /* for blocks that are all stored */
};

static void begin(struct side *side, uint64_t cull_ns, uint64_t retain_bytes)
{
	const struct trace_writer_options options = {.addresses = true,
						     .retain_bytes = retain_bytes};
	struct trace_meta meta = written_meta();
	meta.cull_ns = cull_ns;
	written_begin(side->path, &options, &meta, &side->writer);
	REQUIRE(model_new(NULL, &side->model, NULL) == 0);
	if (cull_ns)
		REQUIRE((side->cull = cull_new(cull_ns)) != NULL);
}

static void add(struct side *side, const struct trace_event *events, size_t count)
{
	struct trace_event copy[128];
	memcpy(copy, events, count * sizeof *copy);
	REQUIRE(model_apply(side->model, copy, count, NULL) == 0);
	if (side->cull)
		REQUIRE(cull_events(side->cull, side->writer, copy, count) == 0);
	else
		REQUIRE(trace_writer_events(side->writer, copy, count) == 0);
}

/* As feed.c does it. */
static void cut(struct side *side)
{
	struct trace_slice slice;
	if (side->cull)
		cull_flush(side->cull, side->writer);
	REQUIRE(model_slice_take(side->model, &slice, NULL) == 0);
	if (side->cull) {
		cull_describe(side->cull, &slice);
		REQUIRE(!trace_writer_skip(side->writer, slice.first_event + slice.event_count,
					   model_next_block(side->model)));
	}
	REQUIRE(trace_writer_slice(side->writer, &slice) == 0);
	if (side->cull)
		cull_next_slice(side->cull);
}

static void run(struct pair *pair, uint64_t events, uint64_t slice_batches)
{
	struct trace_event batch[128], known;
	for (uint64_t end = pair->events + events; pair->events < end;) {
		size_t count = 0;
		while (count < 100) {
			size_t made = ref_make(&pair->source, pair->ref, &batch[count]);
			for (size_t i = 0; i < made; i++, count++)
				ref_apply(pair->ref, &batch[count], &known);
		}
		pair->events += count;
		add(&pair->whole, batch, count);
		add(&pair->culled, batch, count);
		if (ref_random(&pair->source, slice_batches) == 0) {
			cut(&pair->whole);
			cut(&pair->culled);
		}
	}
}

static void finish(struct side *side)
{
	cut(side);
	written_close(side->writer);
	side->writer = NULL;
}

static void open_side(struct side *side)
{
	written_open(side->path, &side->reader, &side->section);
	CHECK(!query_rebuilt(side->section));
}

static void close_side(struct side *side)
{
	query_close(side->section);
	trace_reader_close(side->reader);
	trace_writer_close(side->writer, NULL);
	cull_free(side->cull);
	model_free(side->model);
	unlink(side->path);
}

static void start(struct pair *pair, uint64_t seed, uint64_t cull_ns, uint64_t retain_bytes)
{
	*pair = (struct pair){.ref = ref_new(),
			      .source = {.random = seed * 31 + 7,
					 .time_ns = 5000,
					 .honest = true,
					 .addresses = 20 + 30 * (uint32_t)seed,
					 .plentiful = seed % 2}};
	snprintf(pair->filter, sizeof pair->filter, "lifetime>=%lluus",
		 (unsigned long long)cull_ns / 1000);
	begin(&pair->whole, 0, 0);
	begin(&pair->culled, cull_ns, retain_bytes);
}

static void done(struct pair *pair)
{
	close_side(&pair->whole);
	close_side(&pair->culled);
	ref_free(pair->ref);
}

/* ---- comparing ---- */

static void same_totals(const struct pair *pair, struct trace_reader *reader)
{
	struct model_totals a, b;
	struct model *model;
	struct tm_error err = {0};
	if (!CHECK(!model_load(reader, &model, &err))) {
		tap_note("%s", err.text);
		tap_stop();
	}
	model_totals(pair->whole.model, &a);
	model_totals(model, &b);
	CHECK_MEM(&b, &a, sizeof a);
	CHECK_EQ_U64(b.events, pair->events);
	CHECK_EQ_U64(b.live_bytes, ref_live_bytes(pair->ref));
	CHECK_EQ_U64(b.peak_bytes, pair->ref->peak_bytes);
	CHECK_EQ_U64(b.temporary, pair->ref->temporary);
	model_free(model);
}

static int compare_rows(void *ctx, const struct trace_slice *b)
{
	const struct trace_slice *a = ctx;
	if (!CHECK_EQ_U64(b->row_count, a->row_count))
		return 0;
	for (uint32_t i = 0; i < a->row_count; i++) {
		const struct trace_slice_row *x = &a->rows[i], *y = &b->rows[i];
		CHECK_EQ_U64(y->stack_id, x->stack_id);
		CHECK_EQ_U64(y->temporary, x->temporary);
		CHECK_EQ_U64(y->failed, x->failed);
		if (CHECK_EQ_U64(y->death_count, x->death_count) && x->death_count)
			CHECK_MEM(y->deaths, x->deaths, x->death_count * sizeof *x->deaths);
		if (CHECK_EQ_U64(y->size_bucket_count, x->size_bucket_count) &&
		    x->size_bucket_count)
			CHECK_MEM(y->sizes, x->sizes, x->size_bucket_count * sizeof *x->sizes);
		if (CHECK_EQ_U64(y->life_bucket_count, x->life_bucket_count) &&
		    x->life_bucket_count)
			CHECK_MEM(y->lives, x->lives, x->life_bucket_count * sizeof *x->lives);
	}
	return 0;
}

static int compare_slice(void *ctx, const struct trace_slice *a)
{
	struct trace_slice copy = *a;
	return trace_reader_slice(ctx, a->slice_id, compare_rows, &copy, NULL);
}

static void same_slices(const struct pair *pair)
{
	struct trace_slice *a, *b;
	size_t a_count, b_count;
	REQUIRE(!trace_reader_curve(pair->whole.reader, &a, &a_count, NULL));
	REQUIRE(!trace_reader_curve(pair->culled.reader, &b, &b_count, NULL));
	if (CHECK_EQ_U64(b_count, a_count))
		for (size_t i = 0; i < a_count; i++) {
			b[i].culled_events = b[i].culled_thread_count = 0;
			b[i].culled_threads = NULL;
			CHECK_MEM(&b[i], &a[i], sizeof a[i]);
		}
	CHECK(!trace_reader_slices(pair->whole.reader, compare_slice, pair->culled.reader, NULL));
	tm_free(a);
	tm_free(b);
}

static void same_rows(const struct query_answer *a, const struct query_answer *b)
{
	CHECK_MEM(&b->totals, &a->totals, sizeof a->totals);
	if (CHECK_EQ_U64(b->row_count, a->row_count) && a->row_count)
		CHECK_MEM(b->rows, a->rows, a->row_count * sizeof *a->rows);
	if (CHECK_EQ_U64(b->size_count, a->size_count) && a->size_count)
		CHECK_MEM(b->sizes, a->sizes, a->size_count * sizeof *a->sizes);
	if (CHECK_EQ_U64(b->life_count, a->life_count) && a->life_count)
		CHECK_MEM(b->lives, a->lives, a->life_count * sizeof *a->lives);
	if (CHECK_EQ_U64(b->thread_count, a->thread_count) && a->thread_count)
		CHECK_MEM(b->threads, a->threads, a->thread_count * sizeof *a->threads);
}

static void ask(const struct pair *pair, const struct query *query, struct query_answer *a,
		struct query_answer *b)
{
	struct tm_error err = {0};
	REQUIRE(!query_ask(pair->whole.section, query, a, &err));
	if (!CHECK(!query_ask(pair->culled.section, query, b, &err))) {
		tap_note("%s", err.text);
		tap_stop();
	}
}

/* What threads did is not known of events that were folded: the answer says so. */
static void same_run(const struct pair *pair, bool folded)
{
	struct query query = {.to_ns = UINT64_MAX, .want = QUERY_ALL};
	struct query_answer a, b;
	ask(pair, &query, &a, &b);
	CHECK(!b.snapped);
	CHECK((b.unread_events > 0) == folded);
	if (folded)
		a.thread_count = b.thread_count = 0;
	CHECK_EQ_U64(b.peak_bytes, a.peak_bytes);
	CHECK_EQ_U64(b.peak_time_ns, a.peak_time_ns);
	same_rows(&a, &b);
	query_answer_done(&a);
	query_answer_done(&b);
}

/* The whole trace is asked for the range that the other one has made of it. */
static void same_range(struct pair *pair, uint64_t from_ns, uint64_t to_ns, size_t *snapped)
{
	struct query query = {.from_ns = from_ns,
			      .to_ns = to_ns,
			      .want = QUERY_KEPT | QUERY_SIZES | QUERY_LIVES | QUERY_THREADS};
	struct query_answer a, b;
	struct trace_slice *slices;
	size_t count;
	ask(pair, &query, &a, &b);
	CHECK_EQ_U64(b.unread_events, 0);
	CHECK(b.first_event <= a.first_event);
	CHECK(b.first_event + b.event_count >= a.first_event + a.event_count);
	if (!b.snapped) {
		CHECK_EQ_U64(b.event_count, a.event_count);
		same_rows(&a, &b);
	}
	*snapped += b.snapped;
	REQUIRE(!trace_reader_curve(pair->whole.reader, &slices, &count, NULL));
	uint64_t births = 0, deaths = 0, threads = 0, end = b.first_event + b.event_count;
	bool whole = true;
	for (size_t i = 0; i < count; i++) {
		uint64_t first = slices[i].first_event, last = first + slices[i].event_count;
		bool inside = first >= b.first_event && last <= end;
		whole &= inside || last <= b.first_event || first >= end;
		births += inside ? slices[i].births : 0;
		deaths += inside ? slices[i].deaths : 0;
	}
	for (size_t i = 0; i < b.thread_count; i++)
		threads += b.threads[i].allocations;
	if (whole) {
		CHECK_EQ_U64(b.totals.allocations, births);
		CHECK_EQ_U64(b.totals.frees, deaths);
	}
	CHECK_EQ_U64(threads, b.totals.allocations);
	tm_free(slices);
	query_answer_done(&a);
	query_answer_done(&b);
}

static void same_ranges(struct pair *pair)
{
	uint64_t last_ns = query_duration_ns(pair->whole.section);
	size_t snapped = 0;
	for (unsigned i = 0; i < ASKS; i++) {
		uint64_t from = ref_random(&pair->source, last_ns);
		same_range(pair, from, from + ref_random(&pair->source, last_ns - from), &snapped);
	}
	CHECK(snapped > 0);
}

static int list_block(void *ctx, const struct query_block *block)
{
	FILE *out = ctx;
	fprintf(out, "%llu %llx %llu %llu %llu %u %u %d %d %d\n",
		(unsigned long long)block->block_id, (unsigned long long)block->address,
		(unsigned long long)block->size_bytes, (unsigned long long)block->birth_ns,
		(unsigned long long)block->end_ns, block->stack_id, block->free_thread_id,
		block->op, block->end_op, block->is_temporary);
	return 0;
}

static char *list_blocks(const struct side *side, const char *text)
{
	struct filter *filter;
	struct filter_bound *bound;
	struct tm_error err = {0};
	char *listed = NULL;
	size_t bytes;
	REQUIRE(!filter_parse(text, &filter, NULL, &err));
	REQUIRE(!query_bind(side->section, filter, NULL, &bound, &err));
	FILE *out = open_memstream(&listed, &bytes);
	const struct query_blocks_options options = {
		.to_ns = UINT64_MAX, .mode = QUERY_BLOCKS_ALL, .filter = bound};
	CHECK(!query_blocks(side->section, &options, list_block, out, &err));
	fclose(out);
	filter_bound_free(bound);
	filter_free(filter);
	return listed;
}

/* Whoever lived long enough is there, with all that is known of it. */
static void same_blocks(const struct pair *pair)
{
	char *a = list_blocks(&pair->whole, pair->filter);
	char *b = list_blocks(&pair->culled, pair->filter);
	CHECK(strlen(a) > 0);
	CHECK_STR(b, a);
	free(a);
	free(b);
}

/* An answer by single blocks is exact for those, and says that others are missing. */
static void same_filtered(const struct pair *pair)
{
	struct filter *filter;
	struct filter_bound *a_bound, *b_bound;
	struct query_answer a, b;
	REQUIRE(!filter_parse(pair->filter, &filter, NULL, NULL));
	REQUIRE(!query_bind(pair->whole.section, filter, NULL, &a_bound, NULL));
	REQUIRE(!query_bind(pair->culled.section, filter, NULL, &b_bound, NULL));
	struct query query = {.to_ns = UINT64_MAX,
			      .want = QUERY_SIZES | QUERY_LIVES | QUERY_THREADS,
			      .filter = a_bound};
	REQUIRE(!query_ask(pair->whole.section, &query, &a, NULL));
	query.filter = b_bound;
	REQUIRE(!query_ask(pair->culled.section, &query, &b, NULL));
	CHECK(b.unread_events > 0);
	same_rows(&a, &b);
	query_answer_done(&a);
	query_answer_done(&b);
	filter_bound_free(a_bound);
	filter_bound_free(b_bound);
	filter_free(filter);
}

static void compare(struct pair *pair, bool folded)
{
	const struct trace_end *end;
	open_side(&pair->whole);
	open_side(&pair->culled);
	REQUIRE(!trace_reader_end(pair->culled.reader, &end, NULL));
	CHECK(end->culled_events > 0);
	CHECK(end->events_not_stored >= end->culled_events);
	same_totals(pair, pair->culled.reader);
	same_slices(pair);
	same_run(pair, folded);
	if (!folded)
		same_ranges(pair);
	tap_note("%d of %d events culled, %d bytes, %d whole", (int)end->culled_events,
		 (int)pair->events, (int)written_bytes(pair->culled.path),
		 (int)written_bytes(pair->whole.path));
}

static void figures_stay(void)
{
	static const uint64_t lives_ns[] = {20000, 500000, 1000000000};
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct pair pair;
		start(&pair, seed, lives_ns[seed % 3], 0);
		run(&pair, EVENTS, 8);
		finish(&pair.whole);
		finish(&pair.culled);
		compare(&pair, false);
		same_blocks(&pair);
		same_filtered(&pair);
		written_is_sound(pair.culled.reader);
		done(&pair);
	}
}

/* With --retain, too: what was stored is given up, what was culled was never there. */
static void also_folded(void)
{
	struct pair pair;
	start(&pair, 4, 20000, 60000);
	run(&pair, 3 * EVENTS, 3);
	finish(&pair.whole);
	finish(&pair.culled);
	compare(&pair, true);
	const struct trace_end *end;
	REQUIRE(!trace_reader_end(pair.culled.reader, &end, NULL));
	CHECK(end->folded_events > 0);
	written_is_sound(pair.culled.reader);
	done(&pair);
}

/* ---- a file without its end ---- */

/* What a reader finds when the writer is killed: all figures up to the last tick. */
static void unfinished(void)
{
	struct pair pair;
	start(&pair, 3, 200000, 0);
	for (int i = 0; i < 20; i++) {
		struct trace_slice open;
		struct trace_reader *reader;
		struct query_section *section;
		struct tm_error err = {0};
		run(&pair, EVENTS / 20, 6);
		REQUIRE(!model_slice_look(pair.culled.model, &open, NULL));
		cull_describe(pair.culled.cull, &open);
		REQUIRE(!trace_writer_tick_slice(pair.culled.writer, &open));
		trace_writer_flush(pair.culled.writer);
		written_open_copy(pair.culled.path, &reader);
		same_totals(&pair, reader);
		CHECK(!query_open(reader, NULL, &section, &err));
		CHECK(!query_rebuilt(section));
		query_close(section);
		trace_reader_close(reader);
	}
	finish(&pair.whole);
	finish(&pair.culled);
	compare(&pair, false);
	done(&pair);
}

struct repaired {
	char path[64];
	struct trace_reader *reader;
	struct repair_result result;
	const struct trace_end *end;
	const struct trace_meta *meta;
};

static void repair(const struct pair *pair, struct repaired *to)
{
	struct trace_writer *writer;
	struct trace_reader *reader;
	struct tm_error err = {0};
	snprintf(to->path, sizeof to->path, "/tmp/tidemark-test-cull-XXXXXX");
	int fd = mkstemp(to->path);
	REQUIRE(fd >= 0);
	REQUIRE(!trace_reader_open(pair->culled.path, &reader, &err));
	REQUIRE(!trace_writer_open(fd, &(struct trace_writer_options){.addresses = true}, &writer,
				   &err));
	if (!CHECK(!repair_section(reader, writer, &(struct repair_options){0}, &to->result, &err)))
		tap_note("%s", err.text);
	trace_reader_close(reader);
	REQUIRE(!trace_writer_close(writer, &err));
	REQUIRE(!trace_reader_open(to->path, &to->reader, &err));
	REQUIRE(!trace_reader_end(to->reader, &to->end, &err));
	REQUIRE(!trace_reader_meta(to->reader, &to->meta, &err));
}

static void repaired_done(struct repaired *to)
{
	trace_reader_close(to->reader);
	unlink(to->path);
}

static void write_pair(struct pair *pair)
{
	start(pair, 5, 500000, 0);
	run(pair, EVENTS, 8);
	finish(&pair->whole);
	finish(&pair->culled);
	open_side(&pair->whole);
	open_side(&pair->culled);
}

/* 'tidemark repair' keeps the figures, and what is missing stays said. */
static void repaired(void)
{
	struct pair pair;
	struct repaired copy;
	const struct trace_end *before;
	write_pair(&pair);
	REQUIRE(!trace_reader_end(pair.culled.reader, &before, NULL));
	for (int no_meta = 0; no_meta < 2; no_meta++) {
		if (no_meta)
			written_damage(pair.culled.path, FORMAT_BEGIN, 0);
		repair(&pair, &copy);
		same_totals(&pair, copy.reader);
		CHECK(copy.result.kept_slices);
		CHECK(copy.result.no_meta == no_meta);
		CHECK_EQ_U64(copy.result.unread, 0);
		CHECK_EQ_U64(copy.meta->cull_ns, no_meta ? 1 : 500000);
		CHECK_EQ_U64(copy.end->culled_events, before->culled_events);
		CHECK_EQ_U64(copy.end->events_not_stored, before->events_not_stored);
		written_is_sound(copy.reader);
		repaired_done(&copy);
	}
	done(&pair);
}

static uint64_t events_of(struct trace_reader *reader)
{
	struct model *model;
	struct model_totals totals;
	REQUIRE(!model_load(reader, &model, NULL));
	model_totals(model, &totals);
	model_free(model);
	return totals.events;
}

/* Without the slices that counted them they are lost, and nothing says that figures have them. */
static void figures_lost(void)
{
	struct pair pair;
	struct repaired copy;
	write_pair(&pair);
	written_damage(pair.culled.path, FORMAT_SLICE, 0); /* the last: those before stay */
	repair(&pair, &copy);
	CHECK(events_of(copy.reader) + copy.end->lost_events <= pair.events);
	CHECK(copy.end->events_not_stored >= copy.end->culled_events);
	repaired_done(&copy);
	written_damage(pair.culled.path, FORMAT_SLICE, 3);
	repair(&pair, &copy);
	CHECK(!copy.result.kept_slices);
	CHECK_EQ_U64(copy.meta->cull_ns, 0);
	CHECK_EQ_U64(copy.end->culled_events, 0);
	CHECK_EQ_U64(copy.end->events_not_stored, 0);
	CHECK_EQ_U64(events_of(copy.reader) + copy.end->lost_events, pair.events);
	written_is_sound(copy.reader);
	repaired_done(&copy);
	done(&pair);
}

/* When memory is short fewer events wait: less is culled, the figures are the same. */
static void shrunk(void)
{
	struct pair pair;
	start(&pair, 2, 1000000000, 0);
	run(&pair, EVENTS / 2, 8);
	CHECK(cull_memory_bytes(pair.culled.cull) > 0);
	cull_shrink(pair.culled.cull, pair.culled.writer);
	run(&pair, EVENTS / 2, 8);
	finish(&pair.whole);
	finish(&pair.culled);
	compare(&pair, false);
	same_blocks(&pair);
	done(&pair);
}

static void without_memory(void)
{
	const struct trace_event event = {.op = TRACE_ALLOC, .time_ns = 5000};
	struct side side = {0};
	begin(&side, 1000000, 0);
	tm_alloc_fail_at(0);
	CHECK(cull_new(1000) == NULL);
	tm_alloc_fail_at(0);
	int rc = cull_events(side.cull, side.writer, &event, 1);
	tm_alloc_fail_at(-1);
	CHECK(rc == -ENOMEM);
	close_side(&side);
}

static void slices_fit(void)
{
	CHECK_EQ_U64(cull_slice_ns(1000), 250000000);
	CHECK_EQ_U64(cull_slice_ns(100000000), 1600000000);
	CHECK_EQ_U64(cull_slice_ns(3600000000000), 5000000000);
}

static const struct tap_case cases[] = {
	{.name = "all figures stay as they are without short-lived blocks", .run = figures_stay},
	{.name = "the same where old events are folded, too", .run = also_folded},
	{.name = "a recorder that is killed leaves all figures", .run = unfinished},
	{.name = "a repaired trace still has them", .run = repaired},
	{.name = "a repaired trace says what it lost", .run = figures_lost},
	{.name = "short of memory less is culled", .run = shrunk},
	{.name = "without memory it says so", .run = without_memory},
	{.name = "slices are longer than the lifetimes", .run = slices_fit},
};
TAP_MAIN(cases)
