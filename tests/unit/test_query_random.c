/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random runs, random ranges, random filters: what the query code answers, by
 * aggregates and by scan, is what the slow and obvious reference answers.
 *
 * TIDEMARK_QUERY_RUNS sets how many runs there are (each asks many questions).
 */
#include "harness/tap.h"
#include "query_recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/query_section.h"

enum { RUNS = 30, QUESTIONS = 64, RUN_EVENTS = 1500 };

static uint64_t some(struct recording *rec, uint64_t below)
{
	return recording_random(rec, below);
}

/* ---- filters ---- */

static bool name_frame(void *ctx, uint32_t stack_id, size_t index, struct filter_frame *ret)
{
	static char functions[QREF_STACKS][8], files[QREF_STACKS][16], modules[QREF_STACKS][24];
	(void)ctx;
	if (index > 0 || stack_id == 0)
		return false;
	snprintf(functions[stack_id], 8, "f%u", qref_function_of(stack_id));
	snprintf(files[stack_id], 16, "src/d%u.c", qref_file_of(stack_id));
	snprintf(modules[stack_id], 24, "/usr/lib/lib%u.so", qref_module_of(stack_id));
	*ret = (struct filter_frame){.function = functions[stack_id],
				     .file = files[stack_id],
				     .module = modules[stack_id],
				     .is_allocator = qref_is_allocator(stack_id)};
	return true;
}

static void some_bounds(struct recording *rec, struct qref_term *term)
{
	uint64_t most = rec->run->duration_us + 2;
	uint64_t scale = some(rec, 3) ? most >> some(rec, 16) : most;
	if (term->what == QREF_SIZE)
		scale = 1ull << some(rec, 22);
	term->low = some(rec, scale + 1);
	term->high = some(rec, 3) ? term->low + some(rec, scale + 1) : UINT64_MAX;
	if (term->what == QREF_ADDRESS) {
		term->low = 0x7f0000001000ull + some(rec, 16 * (uint64_t)rec->source.addresses);
		term->high = term->low + some(rec, 200);
	}
}

static void some_filter(struct recording *rec, struct qref_filter *filter, bool names_only)
{
	*filter = (struct qref_filter){.count = some(rec, QREF_TERMS - 1)};
	for (size_t i = 0; i < filter->count; i++) {
		struct qref_term *term = &filter->terms[i];
		term->what = (enum qref_what)some(rec, names_only ? QREF_THREAD : QREF_WHAT_COUNT);
		term->number = term->what == QREF_FUNCTION || term->what == QREF_SITE
				       ? some(rec, 12)
				       : some(rec, 5);
		term->negated = some(rec, 3) == 0;
		term->is_or = some(rec, 2);
		if (term->what >= QREF_SIZE && term->what < QREF_API)
			some_bounds(rec, term);
	}
}

/* ---- comparing ---- */

static bool check_figures(const struct query_figures *got, const struct qref_figures *want)
{
	const uint64_t have[] = {got->allocations,  got->allocated_bytes, got->frees,
				 got->freed_bytes,  got->temporary,       got->failed,
				 got->start_blocks, got->start_bytes,     got->end_blocks,
				 got->end_bytes,    got->kept_blocks,     got->kept_bytes,
				 got->peak_blocks,  got->peak_bytes};
	_Static_assert(sizeof have == sizeof *want, "the same figures in the same order");
	if (!memcmp(have, want, sizeof have))
		return true;
	uint64_t all[sizeof have / sizeof have[0]];
	memcpy(all, want, sizeof all);
	for (size_t i = 0; i < sizeof have / sizeof have[0]; i++)
		if (have[i] != all[i])
			tap_note("figure %zu is %llu, not %llu", i, (unsigned long long)have[i],
				 (unsigned long long)all[i]);
	return false;
}

static bool check_rows(const struct query_answer *got, const struct qref_answer *want)
{
	size_t next = 0;
	for (uint32_t s = 0; s < QREF_STACKS; s++) {
		struct query_figures none = {0};
		const struct query_figures *row = &none;
		if (next < got->row_count && got->rows[next].stack_id == s)
			row = &got->rows[next++].figures;
		if (!check_figures(row, &want->stacks[s])) {
			tap_note("stack %u", s);
			return false;
		}
	}
	return CHECK_EQ_U64(next, got->row_count) && check_figures(&got->totals, &want->totals);
}

static bool check_buckets(const struct query_bucket *got, size_t count,
			  const int64_t want[QREF_STACKS][TRACE_BUCKETS])
{
	size_t next = 0;
	for (uint32_t s = 0; s < QREF_STACKS; s++) {
		for (uint32_t b = 0; b < TRACE_BUCKETS; b++) {
			uint64_t have = 0;
			if (next < count && got[next].stack_id == s && got[next].bucket == b)
				have = got[next++].count;
			if (have != (want[s][b] > 0 ? (uint64_t)want[s][b] : 0)) {
				tap_note("stack %u bucket %u: %llu, not %lld", s, b,
					 (unsigned long long)have, (long long)want[s][b]);
				return false;
			}
		}
	}
	return next == count;
}

static bool check_threads(const struct query_answer *got, const struct qref_answer *want)
{
	struct qref_thread all[QREF_THREADS] = {{0}};
	for (size_t i = 0; i < got->thread_count; i++) {
		const struct query_thread *t = &got->threads[i];
		if (!CHECK(t->thread_id < QREF_THREADS))
			return false;
		all[t->thread_id] = (struct qref_thread){t->allocations,
							 t->allocated_bytes,
							 (int64_t)t->frees,
							 (int64_t)t->freed_bytes,
							 (int64_t)t->foreign_frees,
							 t->temporary,
							 t->end_blocks,
							 t->end_bytes};
	}
	for (size_t i = 0; i < QREF_THREADS; i++) {
		const int64_t *x = (const int64_t *)&all[i],
			      *y = (const int64_t *)&want->threads[i];
		for (size_t k = 0; k < sizeof all[0] / sizeof *x; k++)
			if (x[k] != y[k])
				tap_note("thread %zu figure %zu is %lld, not %lld", i, k,
					 (long long)x[k], (long long)y[k]);
	}
	return !memcmp(all, want->threads, sizeof all);
}

static bool check_answer(const struct query_answer *got, const struct qref_answer *want,
			 unsigned wanted)
{
	bool good = CHECK_EQ_U64(got->first_event, want->first) &&
		    CHECK_EQ_U64(got->event_count, want->end - want->first) &&
		    CHECK(check_rows(got, want)) &&
		    CHECK(check_buckets(got->sizes, got->size_count, want->sizes)) &&
		    CHECK(check_buckets(got->lives, got->life_count, want->lives)) &&
		    CHECK_EQ_U64(got->peak_bytes, want->peak_bytes) &&
		    CHECK_EQ_U64(got->peak_blocks, want->peak_blocks) &&
		    CHECK_EQ_U64(got->peak_time_ns, want->peak_us * 1000);
	if (good && wanted & QUERY_THREADS)
		good = CHECK(check_threads(got, want));
	return good;
}

/* ---- questions ---- */

/* A mark by its name. */
static uint64_t some_mark(struct recording *rec)
{
	char name[16];
	uint64_t time_ns = 0, number = some(rec, rec->mark_count);
	snprintf(name, sizeof name, "m%llu", (unsigned long long)number);
	REQUIRE(query_time_parse(rec->section, name, &time_ns, NULL) == 0);
	uint64_t wanted_ns = rec->marks_ns[number], last_ns = rec->run->duration_us * 1000;
	CHECK_EQ_U64(time_ns / 1000, (wanted_ns > last_ns ? last_ns : wanted_ns) / 1000);
	return time_ns / 1000;
}

static uint64_t some_moment(struct recording *rec)
{
	const struct qref_run *run = rec->run;
	if (rec->mark_count && some(rec, 6) == 0)
		return some_mark(rec);
	uint64_t at = run->events[some(rec, run->event_count)].time_ns / 1000;
	switch (some(rec, 8)) {
	case 0:
		return 0;
	case 1:
		return run->duration_us;
	case 2:
		return at + 1;
	case 3:
		return at ? at - 1 : 0;
	default:
		return at;
	}
}

static bool ask(struct recording *rec, const struct query *query, const struct qref_answer *want)
{
	struct query_answer got;
	struct tm_error err;
	if (!CHECK(query_ask(rec->section, query, &got, &err) == 0)) {
		tap_note("%s", err.text);
		return false;
	}
	bool good = check_answer(&got, want, query->want);
	if (!query->filter || !filter_needs_blocks(query->filter))
		good &= CHECK(trace_reader_slice_count(rec->reader) == 0 || query->by_scan ||
			      query->want & QUERY_THREADS || got.way != QUERY_FROM_SCAN);
	query_answer_done(&got);
	return good;
}

/* What lives at the end of a point of time, of what the filter chooses. */
static void live_at_time(const struct recording *rec, const struct qref_filter *filter,
			 uint64_t time_ns, const struct query *query,
			 const struct qref_answer *whole, uint64_t ret[2])
{
	uint64_t ordinal = whole->first;
	while (ordinal < whole->end && rec->run->events[ordinal].time_ns / 1000 <= time_ns / 1000)
		ordinal++;
	ret[0] = ret[1] = 0;
	for (uint64_t i = 0; i < rec->run->block_count; i++) {
		const struct qref_block *block = &rec->run->blocks[i];
		if (qref_lives_at(block, ordinal) &&
		    qref_chooses(rec->run, filter, block, query->to_ns / 1000, whole->end)) {
			ret[0]++;
			ret[1] += block->size_bytes;
		}
	}
}

/* Points of equal width end between microseconds, those of slices between any two events. */
static bool is_even(const struct query_timeline *line, const struct query_timeline_options *options)
{
	uint64_t width_ns =
		(line->points[line->point_count - 1].end_ns - line->points[0].start_ns) /
		line->point_count;
	bool even = line->point_count == options->points;
	for (size_t i = 0; i < line->point_count && even; i++) {
		uint64_t own_ns = line->points[i].end_ns - line->points[i].start_ns;
		even = own_ns <= width_ns + 2000 && width_ns <= own_ns + 2000;
	}
	return even;
}

/* Rates add up, curves of groups add up to the whole, no peak is lost, each point is right. */
static bool check_timeline(struct recording *rec, const struct query *query,
			   const struct qref_filter *filter, const struct qref_answer *want)
{
	static uint32_t group_of[QREF_STACKS];
	struct query_timeline_options options = {.from_ns = query->from_ns,
						 .to_ns = query->to_ns,
						 .points = 1 + some(rec, 40),
						 .filter = query->filter,
						 .group_of = some(rec, 2) ? group_of : NULL,
						 .group_count = 3};
	struct query_timeline line;
	struct tm_error err;
	for (uint32_t i = 0; i < QREF_STACKS; i++)
		group_of[i] = i % 4 < 3 ? i % 4 : UINT32_MAX;
	if (!CHECK(query_timeline(rec->section, &options, &line, &err) == 0))
		return false;
	struct query_point sum = {0};
	bool good = true;
	/* Those of few slices end between moments. */
	size_t slices = rec->section->slice_count;
	bool even = is_even(&line, &options) || (slices > 0 && slices < 24);
	/* Chosen only in the end: a block that a realloc holds for a while counts as live. */
	bool late = query->filter && filter_needs_ends(query->filter);
	for (size_t i = 0; i < line.point_count && good; i++) {
		const struct query_point *point = &line.points[i];
		uint64_t live[2];
		sum.allocations += point->allocations;
		sum.allocated_bytes += point->allocated_bytes;
		sum.frees += point->frees;
		sum.temporary += point->temporary;
		if (point->max_live_bytes > sum.max_live_bytes)
			sum.max_live_bytes = point->max_live_bytes;
		good = CHECK(point->min_live_bytes <= point->live_bytes &&
			     point->live_bytes <= point->max_live_bytes);
		live_at_time(rec, filter, point->end_ns, query, want, live);
		if (good && (even || i + 1 == line.point_count) && !late)
			good = CHECK_EQ_U64(point->live_blocks, live[0]) &&
			       CHECK_EQ_U64(point->live_bytes, live[1]);
	}
	good = good && CHECK_EQ_U64(sum.allocations, want->totals.allocations) &&
	       CHECK_EQ_U64(sum.allocated_bytes, want->totals.allocated_bytes) &&
	       CHECK_EQ_U64(sum.temporary, want->totals.temporary);
	if (good && !query->filter)
		good = CHECK_EQ_U64(sum.max_live_bytes, want->peak_bytes);
	uint64_t grouped = 0, curves = 0;
	for (uint32_t i = 0; i < QREF_STACKS; i++)
		grouped += i % 4 < 3 ? want->stacks[i].allocations : 0;
	for (size_t g = 0; g < line.curve_count; g++) {
		for (size_t i = 0; i < line.point_count; i++)
			curves += line.curves[g].points[i].allocations;
	}
	good = good && (!options.group_of || CHECK_EQ_U64(curves, grouped));
	query_timeline_done(&line);
	return good;
}

/* ---- single blocks ---- */

struct listed {
	const struct recording *rec;
	const struct qref_filter *filter;
	const struct qref_answer *range;
	enum query_blocks_mode mode;
	uint64_t to_us, next; /* block that is looked for */
	bool good;
};

static bool is_meant(const struct listed *l, const struct qref_block *b)
{
	bool born = b->birth >= l->range->first && b->birth < l->range->end;
	bool ended = b->end >= l->range->first && b->end < l->range->end;
	bool lives = qref_lives_at(b, l->range->end);
	const bool meant[] = {[QUERY_BLOCKS_ALLOCATED] = born,
			      [QUERY_BLOCKS_FREED] = ended,
			      [QUERY_BLOCKS_KEPT] = born && lives,
			      [QUERY_BLOCKS_LIVE] = lives,
			      [QUERY_BLOCKS_ALL] = born || ended || lives};
	return meant[l->mode] && qref_chooses(l->rec->run, l->filter, b, l->to_us, l->range->end);
}

static bool find_next(struct listed *l)
{
	const struct qref_run *run = l->rec->run;
	while (l->next < run->block_count && !is_meant(l, &run->blocks[l->next]))
		l->next++;
	return l->next < run->block_count;
}

static int check_block(void *ctx, const struct query_block *got)
{
	struct listed *l = ctx;
	if (!CHECK(find_next(l)) || !CHECK_EQ_U64(got->block_id, l->next)) {
		l->good = false;
		return 1;
	}
	const struct qref_block *want = &l->rec->run->blocks[l->next++];
	bool ended = want->end != UINT64_MAX;
	l->good = CHECK_EQ_U64(got->size_bytes, want->size_bytes) &&
		  CHECK_EQ_U64(got->address, want->address) &&
		  CHECK_EQ_U64(got->stack_id, want->stack_id) &&
		  CHECK_EQ_U64(got->thread_id, want->thread_id) &&
		  CHECK_EQ_U64(got->birth_ns, want->birth_us * 1000) &&
		  CHECK_EQ_U64(got->birth_event, want->birth) && CHECK_EQ_U64(got->api, want->api);
	if (l->good && !got->is_open)
		l->good = CHECK_EQ_U64(got->free_thread_id, want->free_thread_id) &&
			  CHECK_EQ_U64(got->end_ns, ended ? want->end_us * 1000 : UINT64_MAX) &&
			  CHECK_EQ_U64(got->end_event, want->end) &&
			  CHECK_EQ_U64(got->is_temporary, want->temporary);
	return !l->good;
}

/* Without order: how many, and which, by the sum of their numbers. */
struct heaped {
	uint64_t count, sum;
};

static int add_block(void *ctx, const struct query_block *got)
{
	struct heaped *heaped = ctx;
	heaped->count++;
	heaped->sum += got->block_id;
	return 0;
}

static bool check_unordered(struct listed list, struct query_blocks_options options)
{
	struct heaped got = {0}, want = {0};
	struct tm_error err;
	options.unordered = true;
	options.limit = options.first_block_id = 0;
	if (!CHECK(query_blocks(list.rec->section, &options, add_block, &got, &err) == 0))
		return false;
	for (list.next = 0; find_next(&list); list.next++) {
		want.count++;
		want.sum += list.next;
	}
	return CHECK_EQ_U64(got.count, want.count) && CHECK_EQ_U64(got.sum, want.sum);
}

/* All blocks of a question, page by page. */
static bool check_blocks(struct recording *rec, const struct query *query,
			 const struct qref_filter *filter, const struct qref_answer *want)
{
	struct listed list = {.rec = rec,
			      .filter = filter,
			      .range = want,
			      .mode = (enum query_blocks_mode)some(rec, 5),
			      .to_us = query->to_ns / 1000,
			      .good = true};
	struct query_blocks_options options = {.from_ns = query->from_ns,
					       .to_ns = query->to_ns,
					       .mode = list.mode,
					       .filter = query->filter,
					       .limit = some(rec, 2) ? 0 : 50,
					       .patience_ns = query->from_ns % 3 ? 0 : 1};
	struct tm_error err;
	for (unsigned page = 0; page < 6 && list.good; page++) {
		options.first_block_id = list.next;
		if (!CHECK(query_blocks(rec->section, &options, check_block, &list, &err) == 0))
			return false;
	}
	return list.good && (options.limit || CHECK(!find_next(&list))) &&
	       check_unordered(list, options);
}

static bool question(struct recording *rec)
{
	uint64_t a = some_moment(rec), b = some_moment(rec);
	struct query query = {.from_ns = 1000 * (a < b ? a : b), .to_ns = 1000 * (a < b ? b : a)};
	static struct qref_answer want;
	struct qref_filter terms;
	char text[1024];
	struct filter *filter = NULL;
	struct filter_bound *bound = NULL;
	struct filter_names names = {.frame = name_frame};
	struct tm_error err;
	some_filter(rec, &terms, some(rec, 2));
	qref_filter_text(&terms, text);
	REQUIRE(filter_parse(text, &filter, NULL, &err) == 0);
	REQUIRE(query_bind(rec->section, filter, &names, &bound, &err) == 0);
	qref_ask(rec->run, query.from_ns / 1000, query.to_ns / 1000, &terms, &want);
	query.filter = terms.count || some(rec, 2) ? bound : NULL;
	query.want = QUERY_ALL & ~(unsigned)QUERY_THREADS;
	bool good = ask(rec, &query, &want);
	if (good && some(rec, 4) == 0)
		good = check_timeline(rec, &query, &terms, &want);
	if (good && some(rec, 8) == 0)
		good = check_blocks(rec, &query, &terms, &want);
	query.by_scan = true;
	query.want = QUERY_ALL;
	good = good && ask(rec, &query, &want);
	if (!good)
		tap_note("from %llu us to %llu us, filter: %s",
			 (unsigned long long)query.from_ns / 1000,
			 (unsigned long long)query.to_ns / 1000, text);
	filter_bound_free(bound);
	filter_free(filter);
	return good;
}

static void ask_all(uint64_t first_seed, uint64_t runs)
{
	for (uint64_t seed = first_seed; seed < first_seed + runs; seed++) {
		struct recording rec;
		recording_start(&rec, seed);
		rec.tick_events = seed % 2 ? 1 + (uint32_t)some(&rec, 5) : 0;
		recording_run(&rec, 20 + some(&rec, RUN_EVENTS));
		bool good = true;
		for (unsigned i = 0; i < QUESTIONS && good; i++)
			good = question(&rec);
		if (!good)
			tap_note("run %llu", (unsigned long long)seed);
		recording_finish(&rec);
		if (!good)
			return;
	}
}

static uint64_t run_count(void)
{
	const char *wanted = getenv("TIDEMARK_QUERY_RUNS");
	return wanted ? strtoull(wanted, NULL, 10) : RUNS;
}

static void any_question(void)
{
	ask_all(1, run_count());
}

static const struct tap_case cases[] = {
	{.name = "every figure of any range and filter is right",
	 .run = any_question,
	 .seconds = 3000},
};
TAP_MAIN(cases)
