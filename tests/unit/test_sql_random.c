/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks in SQL against the slow and obvious model, on heaps that do everything. */
#include "base/memory.h"
#include "harness/tap.h"
#include "model/model.h"
#include "model_reference.h"
#include "sql/sql.h"
#include "trace/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* More than one block of events, and no more blocks than the reference holds. */
enum { EVENTS = 72000, BATCHES_PER_SLICE = 12, SEEDS = 2 };

struct recording {
	char path[64];
	struct model *model;
	struct trace_writer *writer;
	struct ref_model *ref;
	struct ref_source source;
};

static void add_batch(struct recording *rec)
{
	struct trace_event batch[130], want;
	size_t count = 0, limit = 1 + ref_random(&rec->source, 120);
	while (count < limit) {
		size_t made = ref_make(&rec->source, rec->ref, &batch[count]);
		for (size_t i = 0; i < made; i++, count++)
			ref_apply(rec->ref, &batch[count], &want);
	}
	REQUIRE(model_apply(rec->model, batch, count, NULL) == 0);
	REQUIRE(trace_writer_events(rec->writer, batch, count) == 0);
}

static void cut(struct recording *rec)
{
	struct trace_slice slice;
	REQUIRE(model_slice_take(rec->model, &slice, NULL) == 0);
	REQUIRE(trace_writer_slice(rec->writer, &slice) == 0);
	ref_next_slice(rec->ref);
}

static void begin_section(struct recording *rec)
{
	const struct trace_meta meta = {.program = "/bin/x", .command = "x", .source = "run"};
	struct trace_stack stacks[REF_STACKS];
	REQUIRE(trace_writer_begin(rec->writer, &meta) == 0);
	for (uint32_t i = 0; i < REF_STACKS; i++)
		stacks[i] = (struct trace_stack){.parent_id = i, .pc = 0x1000 + i};
	REQUIRE(trace_writer_stacks(rec->writer, stacks, REF_STACKS) == 0);
	for (uint32_t i = 0; i < REF_THREADS; i++) {
		struct trace_thread thread = {.thread_id = i, .tid = 100 + i, .end_ns = UINT64_MAX};
		REQUIRE(trace_writer_thread(rec->writer, &thread) == 0);
	}
}

static void record(struct recording *rec, uint64_t seed)
{
	*rec = (struct recording){
		.path = "/tmp/tidemark-test-sql-XXXXXX",
		.ref = ref_new(),
		.source = {.random = seed, .addresses = 1500, .honest = true},
	};
	int fd = mkstemp(rec->path);
	REQUIRE(fd >= 0);
	REQUIRE(model_new(NULL, &rec->model, NULL) == 0);
	REQUIRE(trace_writer_open(fd, &(struct trace_writer_options){0}, &rec->writer, NULL) == 0);
	begin_section(rec);
	while (rec->ref->events < EVENTS && rec->ref->block_count < REF_BLOCKS - 200) {
		add_batch(rec);
		if (ref_random(&rec->source, BATCHES_PER_SLICE) == 0 &&
		    rec->ref->slice_id < REF_SLICES - 2)
			cut(rec);
	}
	/* Events after the last slice belong to it, too. */
	REQUIRE(trace_writer_end(rec->writer, &(struct trace_end){.cause = TRACE_END_EXIT}) == 0);
	REQUIRE(trace_writer_close(rec->writer, NULL) == 0);
}

static void forget(struct recording *rec)
{
	model_free(rec->model);
	ref_free(rec->ref);
	unlink(rec->path);
}

/* ---- comparison ---- */

struct compare {
	const struct recording *rec;
	size_t rows, wrong;
};

static int same_block(void *ctx, size_t count, const struct sql_value *values)
{
	struct compare *compare = ctx;
	const struct ref_model *ref = compare->rec->ref;
	(void)count;
	compare->rows++;
	uint64_t id = (uint64_t)values[0].integer;
	const struct ref_block *want = id < ref->block_count ? &ref->blocks[id] : NULL;
	if (want && values[1].integer == (int64_t)want->size_bytes &&
	    values[2].integer == want->stack_id && values[3].integer == want->thread_id &&
	    values[4].integer / 1000 == (int64_t)want->birth_ns / 1000 &&
	    (values[5].type == SQL_NULL) == want->live)
		return 0;
	if (compare->wrong++ < 5)
		tap_note("block %" PRIu64, id);
	return 0;
}

static int same_stack(void *ctx, size_t count, const struct sql_value *values)
{
	struct compare *compare = ctx;
	(void)count;
	compare->rows++;
	uint64_t id = (uint64_t)values[0].integer;
	REQUIRE(id < REF_STACKS);
	const struct ref_stack *want = &compare->rec->ref->stacks[id];
	bool same = values[1].integer == (int64_t)want->births &&
		    values[2].integer == (int64_t)want->birth_bytes &&
		    values[3].integer == (int64_t)want->deaths &&
		    values[4].integer == (int64_t)want->death_bytes &&
		    (values[5].type == SQL_NULL || values[5].integer == (int64_t)want->temporary);
	if (!same && compare->wrong++ < 5)
		tap_note("stack %" PRIu64, id);
	return 0;
}

static size_t run(struct sql *sql, const struct recording *rec, const char *query,
		  int (*row)(void *, size_t, const struct sql_value *))
{
	struct compare compare = {.rec = rec};
	const struct sql_sink sink = {.row = row, .ctx = &compare};
	struct tm_error err = {0};
	const char *rest;
	if (!CHECK_EQ_I64(sql_run(sql, query, &rest, &sink, &err), 0))
		tap_note("%s", err.text);
	if (!CHECK_EQ_U64(compare.wrong, 0))
		tap_note("%s", query);
	return compare.rows;
}

static size_t stacks_with_births(const struct ref_model *ref)
{
	size_t count = 0;
	for (size_t i = 0; i < REF_STACKS; i++)
		count += ref->stacks[i].births > 0;
	return count;
}

#define SUMS                                              \
	"count(*), sum(size), sum(free_ns IS NOT NULL), " \
	"coalesce(sum(size) FILTER (WHERE free_ns IS NOT NULL), 0)"

static void compare_all(const struct recording *rec, uint64_t memory_bytes)
{
	struct sql_options options = {.no_lookup = true, .memory_bytes = memory_bytes};
	struct trace_reader *reader;
	struct sql *sql;
	char query[320];
	REQUIRE(trace_reader_open(rec->path, &reader, NULL) == 0);
	REQUIRE(sql_open(reader, &options, &sql, NULL) == 0);
	CHECK_EQ_U64(run(sql, rec,
			 "SELECT block_id, size, stack_id, thread_id, alloc_ns, free_ns "
			 "FROM blocks",
			 same_block),
		     rec->ref->block_count);
	CHECK_EQ_U64(run(sql, rec,
			 "SELECT stack_id, " SUMS ", sum(temporary) FROM blocks "
			 "GROUP BY stack_id",
			 same_stack),
		     stacks_with_births(rec->ref));
	/* One stack alone: parts of the trace are passed over. */
	for (unsigned stack = 1; stack < REF_STACKS; stack += 13) {
		snprintf(query, sizeof query,
			 "SELECT stack_id, " SUMS ", NULL FROM blocks WHERE stack_id = %u "
			 "GROUP BY stack_id",
			 stack);
		(void)run(sql, rec, query, same_stack);
	}
	CHECK_EQ_U64(run(sql, rec,
			 "SELECT stack_id, allocations, allocated_bytes, frees, "
			 "freed_bytes, temporary FROM stacks WHERE allocations > 0",
			 same_stack),
		     stacks_with_births(rec->ref));
	sql_close(sql);
}

static void random_heaps(void)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct recording rec;
		record(&rec, seed * 7919);
		compare_all(&rec, 0);
		compare_all(&rec, 1);
		forget(&rec);
	}
}

static const struct tap_case cases[] = {
	{.name = "any heap's blocks are as the figures' definitions say", .run = random_heaps},
};
TAP_MAIN(cases)
