/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where slices take more room than a trace may have, old ones are merged: the
 * file stays within its limit, and every figure is that of the whole trace, at
 * whatever moment it is read.
 */
#include "bounded_pair.h"
#include "harness/tap.h"
#include "written_trace.h"

#include "base/memory.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { AGED_BYTES = 120000, AGED_EVENTS = 30000 };

static const struct trace_writer_options aged_bounds = {.addresses = true,
							.retain_bytes = AGED_BYTES};

/* What a slice has of one stack: counts, buckets, and ends by slice of birth. */
struct figures {
	uint64_t plain[4], sizes[TRACE_BUCKETS], lives[TRACE_BUCKETS];
	uint64_t ends[256], end_bytes[256];
};

struct gather {
	struct figures *stacks; /* of all */
	const size_t *slice_of; /* NULL, or to which slice of the other trace one belongs */
};

static int gather_slice(void *ctx, const struct trace_slice *slice)
{
	const struct gather *gather = ctx;
	for (uint32_t i = 0; i < slice->row_count; i++) {
		const struct trace_slice_row *row = &slice->rows[i];
		struct figures *to = &gather->stacks[row->stack_id];
		to->plain[0] += row->births;
		to->plain[1] += row->birth_bytes;
		to->plain[2] += row->temporary;
		to->plain[3] += row->failed;
		for (unsigned j = 0; j < row->size_bucket_count; j++)
			to->sizes[row->sizes[j].bucket] += row->sizes[j].count;
		for (unsigned j = 0; j < row->life_bucket_count; j++)
			to->lives[row->lives[j].bucket] += row->lives[j].count;
		for (uint32_t j = 0; j < row->death_count; j++) {
			size_t birth = row->deaths[j].birth_slice;
			birth = gather->slice_of ? gather->slice_of[birth] : birth;
			to->ends[birth] += row->deaths[j].count;
			to->end_bytes[birth] += row->deaths[j].bytes;
		}
	}
	return 0;
}

/* A merged slice says of each stack what those it was made of say together. */
static void same_rows(struct pair *pair)
{
	struct trace_slice *whole, *bounded;
	size_t whole_count, bounded_count, at = 0;
	size_t slice_of[1024];
	struct figures *stacks = tm_alloc_array(2 * REF_STACKS, sizeof *stacks);
	REQUIRE(stacks);
	REQUIRE(!trace_reader_curve(pair->whole.reader, &whole, &whole_count, NULL));
	REQUIRE(!trace_reader_curve(pair->bounded.reader, &bounded, &bounded_count, NULL));
	REQUIRE(whole_count <= 1024 && bounded_count <= 256);
	for (size_t i = 0; i < bounded_count; i++)
		for (uint64_t end = bounded[i].first_event + bounded[i].event_count;
		     at < whole_count && whole[at].first_event + whole[at].event_count <= end;)
			slice_of[at++] = i;
	at = 0;
	for (size_t i = 0; i < bounded_count; i++) {
		struct gather whole_rows = {.stacks = stacks, .slice_of = slice_of};
		struct gather rows = {.stacks = stacks + REF_STACKS};
		memset(stacks, 0, 2 * REF_STACKS * sizeof *stacks);
		for (; at < whole_count && slice_of[at] == i; at++)
			REQUIRE(!trace_reader_slice(pair->whole.reader, at, gather_slice,
						    &whole_rows, NULL));
		REQUIRE(!trace_reader_slice(pair->bounded.reader, i, gather_slice, &rows, NULL));
		CHECK_MEM(rows.stacks, stacks, REF_STACKS * sizeof *stacks);
	}
	tm_free(stacks);
	tm_free(whole);
	tm_free(bounded);
}

/* Many more slices than fit: old ones become one with their neighbours, and all stays true. */
static void aged(void)
{
	for (uint64_t seed = 1; seed <= 2; seed++) {
		struct pair pair;
		uint64_t largest = 0;
		pair_start(&pair, seed, &aged_bounds);
		pair.slice_every = 1;
		for (int i = 0; i < 100; i++) {
			pair_run(&pair, AGED_EVENTS / 100);
			trace_writer_flush(pair.bounded.writer);
			if (written_bytes(pair.bounded.path) > largest)
				largest = written_bytes(pair.bounded.path);
		}
		pair_finish(&pair.whole);
		pair_finish(&pair.bounded);
		CHECK(largest <= AGED_BYTES);
		CHECK(written_bytes(pair.bounded.path) <= AGED_BYTES);
		pair_compare(&pair);
		same_rows(&pair);
		written_is_sound(pair.bounded.reader);
		size_t slices = trace_reader_slice_count(pair.bounded.reader);
		tap_note("%zu slices of %u; %d bytes, %d whole", slices, pair.slices + 1,
			 (int)written_bytes(pair.bounded.path),
			 (int)written_bytes(pair.whole.path));
		CHECK(slices >= 8 && slices < pair.slices / 2);
		pair_done(&pair);
	}
}

/* After an exec the slices of the section before are merged, too, and both stay true. */
static void two_sections(void)
{
	struct pair pair, next;
	struct trace_end end = {.cause = TRACE_END_EXEC};
	struct trace_meta meta = {.page_bytes = 4096, .addresses = true};
	pair_start(&pair, 7, &aged_bounds);
	pair.slice_every = 1;
	pair_run(&pair, AGED_EVENTS / 4);
	next = pair;
	next.ref = ref_new();
	next.events = next.births = next.slices = 0;
	struct side *sides[] = {&next.whole, &next.bounded};
	for (int i = 0; i < 2; i++) {
		pair_cut(sides[i]);
		REQUIRE(!trace_writer_end(sides[i]->writer, &end));
		REQUIRE(!trace_writer_begin(sides[i]->writer, &meta));
		REQUIRE(!model_new(NULL, &sides[i]->model, NULL));
		for (uint32_t j = 1; j < REF_STACKS; j++) {
			struct trace_stack stack = {.parent_id = j / 2, .pc = 0x1000 + j};
			REQUIRE(!trace_writer_stacks(sides[i]->writer, &stack, 1));
		}
	}
	next.source.time_ns = 0;
	pair_run(&next, AGED_EVENTS / 2);
	pair_finish(&next.whole);
	pair_finish(&next.bounded);
	CHECK(written_bytes(next.bounded.path) <= AGED_BYTES);
	pair_compare(&next);
	size_t second = trace_reader_slice_count(next.bounded.reader);
	written_is_sound(next.bounded.reader);
	REQUIRE(!trace_reader_select(next.whole.reader, 0, NULL));
	REQUIRE(!trace_reader_select(next.bounded.reader, 0, NULL));
	pair.whole.reader = next.whole.reader;
	pair.bounded.reader = next.bounded.reader;
	pair_same_totals(&pair);
	pair_same_slices(&pair);
	same_rows(&pair);
	tap_note("%zu slices of %u, then %zu of %u", trace_reader_slice_count(pair.bounded.reader),
		 pair.slices + 1, second, next.slices + 1);
	CHECK(trace_reader_slice_count(pair.bounded.reader) < pair.slices);
	CHECK(second < next.slices);
	model_free(pair.whole.model);
	model_free(pair.bounded.model);
	ref_free(pair.ref);
	pair_done(&next);
}

/* ---- after each write ---- */

static struct pair *watched; /* its bounded trace is looked at as it is written */
static unsigned long looks, writes;

static void look(const struct pair *pair)
{
	struct trace_reader *reader;
	struct model *model;
	struct model_totals totals;
	struct tm_error err = {0};
	size_t i = 0;
	if (!CHECK(!trace_reader_open(pair->bounded.path, &reader, &err))) {
		tap_note("%s", err.text);
		return;
	}
	if (CHECK(!model_load(reader, &model, &err))) {
		model_totals(model, &totals);
		while (i < pair->history_count && pair->history[i].events != totals.events)
			i++;
		if (CHECK(i < pair->history_count))
			CHECK_MEM(&totals, &pair->history[i], sizeof totals);
		model_free(model);
	} else {
		tap_note("%s", err.text);
	}
	trace_reader_close(reader);
}

/* Stands before that of the C library: what a kill right after it would leave is read. */
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
	ssize_t written = syscall(SYS_pwrite64, fd, data, bytes, offset);
	struct pair *pair = watched;
	struct stat file, wanted;
	if (pair && !fstat(fd, &file) && !stat(pair->bounded.path, &wanted) &&
	    file.st_ino == wanted.st_ino && ++writes % 7 == 0) {
		looks++;
		watched = NULL; /* one look at a time */
		look(pair);
		watched = pair;
	}
	return written;
}

/* At any moment a file has two slices or the one that they became, never both or none. */
static void at_any_moment(void)
{
	struct pair pair;
	pair_start(&pair, 5, &aged_bounds);
	pair.slice_every = 1;
	pair.history = tm_alloc_array(1000, sizeof *pair.history);
	REQUIRE(pair.history);
	writes = looks = 0;
	for (int i = 0; i < 160; i++) {
		watched = i >= 100 ? &pair : NULL;
		pair_run(&pair, 100);
		trace_writer_flush(pair.bounded.writer);
	}
	watched = NULL;
	tap_note("%lu looks after %lu writes", looks, writes);
	CHECK(looks > 100);
	pair_finish(&pair.whole);
	pair_finish(&pair.bounded);
	pair_compare(&pair);
	CHECK(trace_reader_slice_count(pair.bounded.reader) < pair.slices);
	tm_free(pair.history);
	pair_done(&pair);
}

static const struct tap_case cases[] = {
	{.name = "figures of a trace whose old slices were merged", .run = aged},
	{.name = "merged slices of a section that has ended", .run = two_sections},
	{.name = "a trace after each write while slices are merged", .run = at_any_moment},
};

TAP_MAIN(cases)
