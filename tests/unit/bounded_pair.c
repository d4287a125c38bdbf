/* SPDX-License-Identifier: Apache-2.0 */
#include "bounded_pair.h"

#include "harness/tap.h"
#include "model/query.h"
#include "written_trace.h"

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ASKS = 60 };

static void begin(struct side *side, const struct trace_writer_options *options)
{
	struct trace_meta meta = written_meta();
	written_begin(side->path, options, &meta, &side->writer);
	REQUIRE(model_new(NULL, &side->model, NULL) == 0);
}

static void add(struct side *side, const struct trace_event *events, size_t count)
{
	struct trace_event copy[128];
	memcpy(copy, events, count * sizeof *copy);
	REQUIRE(model_apply(side->model, copy, count, NULL) == 0);
	REQUIRE(trace_writer_events(side->writer, copy, count) == 0);
}

void pair_cut(struct side *side)
{
	struct trace_slice slice;
	REQUIRE(model_slice_take(side->model, &slice, NULL) == 0);
	REQUIRE(trace_writer_slice(side->writer, &slice) == 0);
}

void pair_run(struct pair *pair, uint64_t events)
{
	struct trace_event batch[128], known;
	size_t least = pair->batch_events ? pair->batch_events : 100;
	for (uint64_t end = pair->events + events; pair->events < end;) {
		size_t count = 0;
		while (count < least) {
			size_t made = ref_make(&pair->source, pair->ref, &batch[count]);
			for (size_t i = 0; i < made; i++, count++) {
				ref_apply(pair->ref, &batch[count], &known);
				pair->births += batch[count].op == TRACE_ALLOC ||
						batch[count].op == TRACE_REALLOC_ALLOC;
			}
		}
		pair->events += count;
		add(&pair->whole, batch, count);
		if (pair->history)
			model_totals(pair->whole.model, &pair->history[pair->history_count++]);
		add(&pair->bounded, batch, count);
		if (pair->history) /* the journal has what must outlive a kill before a slice */
			REQUIRE(!trace_writer_tick(pair->bounded.writer));
		/* Small blocks of events, so that few of them are a long run. */
		REQUIRE(!trace_writer_skip(pair->whole.writer, pair->events, pair->births));
		REQUIRE(!trace_writer_skip(pair->bounded.writer, pair->events, pair->births));
		if (ref_random(&pair->source, pair->slice_every ? pair->slice_every : 4) == 0) {
			pair_cut(&pair->whole);
			pair_cut(&pair->bounded);
			pair->source.time_ns += 5000;
			pair->slices++;
		}
	}
}

/* As the collector does: nothing is left without a slice. */
void pair_finish(struct side *side)
{
	pair_cut(side);
	written_close(side->writer);
	side->writer = NULL;
}

static void close_side(struct side *side)
{
	query_close(side->section);
	trace_reader_close(side->reader);
	trace_writer_close(side->writer, NULL);
	model_free(side->model);
	unlink(side->path);
}

void pair_start(struct pair *pair, uint64_t seed, const struct trace_writer_options *bounds)
{
	const struct trace_writer_options none = {.addresses = true};
	*pair = (struct pair){.ref = ref_new(),
			      .source = {.random = seed * 31 + 7,
					 .honest = true,
					 .addresses = 50 + 20 * (uint32_t)seed,
					 .plentiful = seed % 2}};
	begin(&pair->whole, &none);
	begin(&pair->bounded, bounds);
}

void pair_done(struct pair *pair)
{
	close_side(&pair->whole);
	close_side(&pair->bounded);
	ref_free(pair->ref);
}

/* ---- comparing ---- */

static void same_sums(struct pair *pair, const struct trace_sum *a, size_t a_count,
		      const struct trace_sum *b, size_t b_count)
{
	(void)pair;
	if (CHECK_EQ_U64(b_count, a_count))
		for (size_t i = 0; i < a_count; i++)
			if (!CHECK_MEM(&b[i], &a[i], sizeof a[i]))
				tap_note("stack %u", a[i].stack_id);
}

/* Where one of the bounded trace's slices ends, so does one of the whole trace: all sums agree. */
void pair_same_slices(struct pair *pair)
{
	struct trace_slice *whole, *bounded;
	size_t whole_count, bounded_count, at = 0;
	REQUIRE(!trace_reader_curve(pair->whole.reader, &whole, &whole_count, NULL));
	REQUIRE(!trace_reader_curve(pair->bounded.reader, &bounded, &bounded_count, NULL));
	for (size_t i = 0; i < bounded_count; i++) {
		uint64_t most = 0, end = bounded[i].first_event + bounded[i].event_count;
		while (at < whole_count && whole[at].first_event + whole[at].event_count <= end) {
			most = whole[at].max_live_bytes > most ? whole[at].max_live_bytes : most;
			at++;
		}
		REQUIRE(at > 0);
		CHECK_EQ_U64(whole[at - 1].first_event + whole[at - 1].event_count, end);
		CHECK_EQ_U64(bounded[i].live_bytes, whole[at - 1].live_bytes);
		CHECK_EQ_U64(bounded[i].live_blocks, whole[at - 1].live_blocks);
		if (bounded[i].event_count)
			CHECK_EQ_U64(bounded[i].max_live_bytes, most);
		CHECK_EQ_U64(bounded[i].peak_bytes, whole[at - 1].peak_bytes);
		if (i % 3 == 0 || i + 1 == bounded_count) {
			struct trace_sum *a, *b;
			size_t a_count, b_count;
			REQUIRE(!trace_reader_sums(pair->whole.reader, at, &a, &a_count, NULL));
			REQUIRE(!trace_reader_sums(pair->bounded.reader, i + 1, &b, &b_count,
						   NULL));
			same_sums(pair, a, a_count, b, b_count);
			tm_free(a);
			tm_free(b);
		}
	}
	CHECK_EQ_U64(at, whole_count);
	tm_free(whole);
	tm_free(bounded);
}

void pair_same_totals(struct pair *pair)
{
	struct model_totals a, b;
	struct model *whole, *bounded;
	REQUIRE(!model_load(pair->whole.reader, &whole, NULL));
	REQUIRE(!model_load(pair->bounded.reader, &bounded, NULL));
	model_totals(whole, &a);
	model_totals(bounded, &b);
	CHECK_MEM(&b, &a, sizeof a);
	CHECK_EQ_U64(b.events, pair->events);
	CHECK_EQ_U64(b.live_bytes, ref_live_bytes(pair->ref));
	CHECK_EQ_U64(b.peak_bytes, pair->ref->peak_bytes);
	model_free(whole);
	model_free(bounded);
}

static void same_answer(const struct query_answer *a, const struct query_answer *b, bool peak)
{
	CHECK_EQ_U64(b->first_event, a->first_event);
	CHECK_EQ_U64(b->event_count, a->event_count);
	CHECK_MEM(&b->totals, &a->totals, sizeof a->totals);
	if (peak) {
		CHECK_EQ_U64(b->peak_bytes, a->peak_bytes);
		CHECK_EQ_U64(b->peak_time_ns, a->peak_time_ns);
	}
	if (CHECK_EQ_U64(b->row_count, a->row_count))
		CHECK_MEM(b->rows, a->rows, a->row_count * sizeof *a->rows);
}

/* From slices whole: what lies at their ends is known in both. */
static void same_snapped(struct pair *pair, const struct query_answer *a,
			 const struct query_answer *b)
{
	struct trace_slice *whole;
	size_t count, first = SIZE_MAX, end = SIZE_MAX;
	REQUIRE(!trace_reader_curve(pair->whole.reader, &whole, &count, NULL));
	for (size_t i = 0; i < count; i++) {
		if (whole[i].first_event == b->first_event)
			first = i;
		if (whole[i].first_event + whole[i].event_count == b->first_event + b->event_count)
			end = i;
	}
	CHECK(first != SIZE_MAX || !b->event_count || b->first_event == a->first_event);
	if (first != SIZE_MAX && end != SIZE_MAX && first <= end) {
		uint64_t births = 0, bytes = 0, deaths = 0;
		for (size_t i = first; i <= end; i++) {
			births += whole[i].births;
			bytes += whole[i].birth_bytes;
			deaths += whole[i].deaths;
		}
		CHECK_EQ_U64(b->totals.allocations, births);
		CHECK_EQ_U64(b->totals.allocated_bytes, bytes);
		CHECK_EQ_U64(b->totals.frees, deaths);
		CHECK_EQ_U64(b->totals.end_bytes, whole[end].live_bytes);
	}
	tm_free(whole);
}

/* Some part of a time. */
static uint64_t part_of(struct pair *pair, uint64_t time_ns)
{
	return (uint64_t)((double)time_ns * (double)ref_random(&pair->source, 10000) / 1e4);
}

static void same_answers(struct pair *pair, uint64_t since_ns)
{
	uint64_t last_ns = query_duration_ns(pair->whole.section);
	size_t exact = 0, snapped = 0;
	for (unsigned i = 0; i < ASKS; i++) {
		uint64_t first_ns = i % 2 ? since_ns : 0;
		uint64_t from = i ? first_ns + part_of(pair, last_ns - first_ns) : 0;
		uint64_t to = i ? from + part_of(pair, last_ns - from) : last_ns;
		struct query query = {
			.from_ns = from, .to_ns = to, .want = QUERY_KEPT | (i ? 0 : QUERY_PEAK)};
		struct query_answer a, b;
		struct tm_error err = {0};
		REQUIRE(!query_ask(pair->whole.section, &query, &a, &err));
		if (!CHECK(!query_ask(pair->bounded.section, &query, &b, &err))) {
			tap_note("%s", err.text);
			tap_stop();
		}
		CHECK_EQ_U64(b.unread_events, 0);
		CHECK(!b.snapped ||
		      (b.first_event <= a.first_event &&
		       b.first_event + b.event_count >= a.first_event + a.event_count));
		if (b.snapped)
			same_snapped(pair, &a, &b);
		else
			same_answer(&a, &b, i == 0);
		snapped += b.snapped;
		exact += !b.snapped;
		query_answer_done(&a);
		query_answer_done(&b);
	}
	CHECK(exact > 0 && snapped > 5);
	tap_note("%zu exact, %zu at slices, since %d of %d ms", exact, snapped,
		 (int)(since_ns / 1000000), (int)(last_ns / 1000000));
}

void pair_compare(struct pair *pair)
{
	written_open(pair->whole.path, &pair->whole.reader, &pair->whole.section);
	written_open(pair->bounded.path, &pair->bounded.reader, &pair->bounded.section);
	const struct trace_end *end;
	REQUIRE(!trace_reader_end(pair->bounded.reader, &end, NULL));
	CHECK(end->folded_events > 0);
	CHECK(end->exact_since_ns > 0);
	pair_same_totals(pair);
	pair_same_slices(pair);
	same_answers(pair, end->exact_since_ns);
}
