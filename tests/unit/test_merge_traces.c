/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several traces as one. A recording that was cut into pieces must come back
 * event for event; of several processes the figures must add up, and the peak
 * must be that of all together, counted here the slow way.
 */
#include "base/memory.h"
#include "harness/tap.h"
#include "merge_fixture.h"
#include "model/merge.h"
#include "model/model.h"
#include "model/verify.h"
#include "model_reference.h"
#include "trace/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECES = MERGE_PIECES, PROCESSES = 4 };

/* ---- merging and looking ---- */

static int merge_files(const struct file *files, size_t count, int fd, struct merge_options how,
		       struct merge_result *result, struct tm_error *err)
{
	struct trace_reader *readers[16];
	struct trace_writer *w;
	REQUIRE(count <= 16);
	for (size_t i = 0; i < count; i++)
		REQUIRE(trace_reader_open(files[i].path, &readers[i], err) == 0);
	struct trace_writer_options options = {.addresses = merge_keeps_addresses(readers, count)};
	REQUIRE(trace_writer_open(fd, &options, &w, err) == 0);
	int rc = merge_sections(readers, count, w, &how, result, err);
	int closed = trace_writer_close(w, rc ? NULL : err);
	for (size_t i = 0; i < count; i++)
		trace_reader_close(readers[i]);
	return rc ? rc : closed;
}

static int on_problem(void *ctx, const struct trace_problem *problem)
{
	(void)ctx;
	tap_note("%s", problem->text);
	CHECK(false);
	return 0;
}

static void check_sound(const char *path)
{
	struct trace_reader *r;
	struct tm_error err = {0};
	struct model_verified done;
	struct trace_check check = {.problem = on_problem};
	REQUIRE(trace_reader_open(path, &r, &err) == 0);
	CHECK_EQ_I64(trace_verify(r, &check, &err), 0);
	CHECK_EQ_I64(model_verify(r, 0, &check, &done, &err), 0);
	trace_reader_close(r);
}

static struct trace_event *read_events(struct trace_reader *r, size_t *ret_count)
{
	struct trace_event *all = NULL;
	size_t used = 0;
	for (size_t i = 0; i < trace_reader_event_block_count(r); i++) {
		struct trace_event_block block;
		REQUIRE(trace_reader_event_block(r, i, &block) == 0);
		all = realloc(all, (used + block.event_count + 1) * sizeof *all);
		REQUIRE(all);
		REQUIRE(trace_reader_events(r, i, all + used, NULL) == 0);
		used += block.event_count;
	}
	*ret_count = used;
	return all;
}

static void compare_event(const struct trace_event *got, const struct trace_event *want,
			  const struct trace_stack *stacks)
{
	bool births = want->op == TRACE_ALLOC || want->op == TRACE_REALLOC_ALLOC;
	bool asks = births || want->op == TRACE_REALLOC_UNDO || want->op == TRACE_ALLOC_FAIL;
	CHECK_EQ_U64(got->op, want->op);
	CHECK_EQ_U64(got->time_ns, want->time_ns);
	CHECK_EQ_U64(got->thread_id, want->thread_id);
	if (want->op != TRACE_REALLOC_UNDO && want->op != TRACE_ALLOC_FAIL)
		CHECK_EQ_U64(got->block_id, want->block_id);
	if (births)
		CHECK_EQ_U64(got->address, want->address);
	if (asks) {
		CHECK_EQ_U64(got->size_bytes, want->size_bytes);
		CHECK_EQ_U64(stacks[got->stack_id].pc,
			     want->stack_id ? 0x1000 + want->stack_id : 0);
	}
}

static void pieces_come_back_as_one(void)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct heap *heap = make_heap(seed);
		struct file files[PIECES], merged = make_file();
		struct merge_result result = {0};
		struct tm_error err = {0};
		make_pieces(heap, seed * 31, files);
		/* In whatever order they are named. */
		struct file swapped = files[1];
		files[1] = files[3];
		files[3] = swapped;
		if (!CHECK_EQ_I64(merge_files(files, PIECES, merged.fd, (struct merge_options){0},
					      &result, &err),
				  0))
			tap_note("seed %llu: %s", (unsigned long long)seed, err.text);
		CHECK_EQ_U64(result.processes, 1);
		CHECK_EQ_U64(result.events, heap->count);
		check_sound(merged.path);
		struct trace_reader *r;
		const struct trace_stack *stacks;
		const struct trace_symbol *symbols;
		const struct trace_end *ended;
		size_t count = 0, stack_count, symbol_count;
		REQUIRE(trace_reader_open(merged.path, &r, &err) == 0);
		REQUIRE(trace_reader_stacks(r, &stacks, &stack_count, &err) == 0);
		REQUIRE(trace_reader_symbols(r, &symbols, &symbol_count, &err) == 0);
		REQUIRE(trace_reader_end(r, &ended, &err) == 0);
		CHECK_EQ_U64(symbol_count, 1);
		CHECK_EQ_U64(ended->cause, TRACE_END_EXIT);
		struct trace_event *got = read_events(r, &count);
		REQUIRE(count == heap->count);
		for (size_t i = 0; i < count; i++)
			compare_event(&got[i], &heap->events[i], stacks);
		free(got);
		trace_reader_close(r);
		for (int i = 0; i < PIECES; i++)
			unlink(files[i].path);
		unlink(merged.path);
		free(heap);
	}
}

static void pieces_that_do_not_fit_are_refused(void)
{
	struct heap *heap = make_heap(3);
	struct file files[PIECES], other[PIECES];
	struct merge_result result;
	make_pieces(heap, 5, files);
	make_pieces(heap, 6, other); /* cut elsewhere: the same series by name only */
	const struct {
		struct file files[3];
		size_t count;
		const char *says;
	} wrong[] = {
		{{files[0], files[2], files[3]}, 3, "piece 2 of process 7 is missing"},
		{{files[0], files[1], files[1]}, 3, "given twice"},
		{{files[0], other[1], other[2]}, 3, "does not begin as piece 1 ends"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		struct file merged = make_file();
		struct tm_error err = {0};
		CHECK(merge_files(wrong[i].files, wrong[i].count, merged.fd,
				  (struct merge_options){0}, &result, &err) < 0);
		CHECK_HAS(err.text, wrong[i].says);
		unlink(merged.path);
	}
	for (int i = 0; i < PIECES; i++) {
		unlink(files[i].path);
		unlink(other[i].path);
	}
	free(heap);
}

/* ---- several processes ---- */

static const uint64_t starts_ns[PROCESSES] = {5000000, 0, 5000000, 7123000};

static void make_processes(struct heap *heaps[PROCESSES], struct file files[PROCESSES])
{
	for (uint32_t p = 0; p < PROCESSES; p++) {
		struct trace_meta meta = plain_meta();
		heaps[p] = make_heap(100 + p);
		meta.pid = 10 + p / 2; /* one process has two images */
		meta.start_unix_ns = 1000000000 + starts_ns[p];
		files[p] = make_file();
		write_recording(heaps[p], files[p].fd, &meta);
	}
}

struct sums {
	uint64_t allocations, allocated_bytes, frees, temporary, live_bytes, live_blocks, failed;
};

static void add_totals(struct sums *sum, const struct heap *heap)
{
	struct model *m;
	struct model_totals totals;
	struct trace_event *copy = malloc(sizeof heap->events);
	REQUIRE(copy);
	memcpy(copy, heap->events, sizeof heap->events);
	REQUIRE(model_new(&(struct model_options){0}, &m, NULL) == 0);
	REQUIRE(model_apply(m, copy, heap->count, NULL) == 0);
	model_totals(m, &totals);
	sum->allocations += totals.allocations;
	sum->allocated_bytes += totals.allocated_bytes;
	sum->frees += totals.frees;
	sum->temporary += totals.temporary;
	sum->failed += totals.failed;
	sum->live_bytes += totals.live_bytes;
	sum->live_blocks += totals.live_blocks;
	model_free(m);
	free(copy);
}

/* The peak of all together, from the live bytes of each after each of its events. */
static uint64_t peak_of_all(struct heap *const heaps[PROCESSES], bool by_wall_clock, bool release)
{
	size_t at[PROCESSES] = {0};
	uint64_t live[PROCESSES] = {0}, peak = 0;
	struct model *models[PROCESSES];
	for (int p = 0; p < PROCESSES; p++)
		REQUIRE(model_new(&(struct model_options){0}, &models[p], NULL) == 0);
	for (;;) {
		int next = -1;
		uint64_t when = UINT64_MAX;
		for (int p = 0; p < PROCESSES; p++) {
			const struct heap *heap = heaps[p];
			if (at[p] > heap->count)
				continue;
			/* One past the last event is the end of the process. */
			uint64_t time_ns = at[p] < heap->count
						   ? heap->events[at[p]].time_ns
						   : heap->events[heap->count - 1].time_ns + 1000;
			time_ns += by_wall_clock ? starts_ns[p] : 0;
			if (time_ns < when) {
				when = time_ns;
				next = p;
			}
		}
		if (next < 0)
			break;
		if (at[next] < heaps[next]->count) {
			struct trace_event event = heaps[next]->events[at[next]];
			struct model_totals totals;
			REQUIRE(model_apply(models[next], &event, 1, NULL) == 0);
			model_totals(models[next], &totals);
			live[next] = totals.live_bytes;
		} else if (release) {
			live[next] = 0;
		}
		at[next]++;
		uint64_t sum = 0;
		for (int p = 0; p < PROCESSES; p++)
			sum += live[p];
		peak = sum > peak ? sum : peak;
	}
	for (int p = 0; p < PROCESSES; p++)
		model_free(models[p]);
	return peak;
}

static void check_merged(const char *path, const struct sums *want, uint64_t peak, bool release)
{
	struct trace_reader *r;
	struct model *m;
	struct model_totals totals;
	struct tm_error err = {0};
	REQUIRE(trace_reader_open(path, &r, &err) == 0);
	REQUIRE(model_load(r, &m, &err) == 0);
	model_totals(m, &totals);
	CHECK_EQ_U64(totals.allocations, want->allocations);
	CHECK_EQ_U64(totals.allocated_bytes, want->allocated_bytes);
	CHECK_EQ_U64(totals.temporary, want->temporary);
	CHECK_EQ_U64(totals.failed, want->failed);
	CHECK_EQ_U64(totals.frees, want->frees + (release ? want->live_blocks : 0));
	CHECK_EQ_U64(totals.live_bytes, release ? 0 : want->live_bytes);
	CHECK_EQ_U64(totals.peak_bytes, peak);
	model_free(m);
	trace_reader_close(r);
}

static void processes_add_up(void)
{
	struct heap *heaps[PROCESSES];
	struct file files[PROCESSES];
	struct sums want = {0};
	make_processes(heaps, files);
	for (int p = 0; p < PROCESSES; p++)
		add_totals(&want, heaps[p]);
	for (int how = 0; how < 4; how++) {
		bool wall = how & 1, release = how & 2;
		struct file merged = make_file();
		struct merge_result result = {0};
		struct tm_error err = {0};
		const struct merge_options options = {
			.align = wall ? MERGE_ALIGN_WALL : MERGE_ALIGN_START,
			.unfreed = release ? MERGE_UNFREED_RELEASE : MERGE_UNFREED_KEEP};
		if (!CHECK_EQ_I64(merge_files(files, PROCESSES, merged.fd, options, &result, &err),
				  0))
			tap_note("%s", err.text);
		CHECK_EQ_U64(result.processes, PROCESSES);
		CHECK_EQ_U64(result.released_blocks, release ? want.live_blocks : 0);
		check_sound(merged.path);
		check_merged(merged.path, &want, peak_of_all(heaps, wall, release), release);
		unlink(merged.path);
	}
	for (int p = 0; p < PROCESSES; p++) {
		unlink(files[p].path);
		free(heaps[p]);
	}
}

static const char *label_of(struct trace_reader *r, const struct trace_stack *stacks, uint32_t id)
{
	const struct trace_symbol *symbols;
	size_t count;
	while (stacks[id].parent_id)
		id = stacks[id].parent_id;
	REQUIRE(trace_reader_symbols(r, &symbols, &count, NULL) == 0);
	for (size_t i = 0; i < count; i++)
		if (symbols[i].module_id == stacks[id].module_id &&
		    symbols[i].address == (stacks[id].pc & ~TRACE_PC_EXACT))
			return symbols[i].function;
	return "";
}

struct split {
	struct trace_reader *r;
	const struct trace_stack *stacks;
	uint64_t bytes[PROCESSES];
};

static int add_stack(void *ctx, const struct model_stack *stack)
{
	static const char *const labels[PROCESSES] = {"process 10 x", "process 10 x (2)",
						      "process 11 x", "process 11 x (2)"};
	struct split *split = ctx;
	const char *label = label_of(split->r, split->stacks, stack->stack_id);
	for (int p = 0; p < PROCESSES; p++)
		if (!strcmp(labels[p], label)) {
			split->bytes[p] += stack->allocated_bytes;
			return 0;
		}
	tap_note("a stack of '%s'", label);
	CHECK(false);
	return 0;
}

/* Each stack says whose it is, and what one process allocated is what it did alone. */
static void views_can_split_by_process(void)
{
	struct heap *heaps[PROCESSES];
	struct file files[PROCESSES], merged = make_file();
	struct merge_result result;
	struct tm_error err = {0};
	struct model *m;
	struct split split = {0};
	size_t count;
	make_processes(heaps, files);
	REQUIRE(merge_files(files, PROCESSES, merged.fd, (struct merge_options){0}, &result,
			    &err) == 0);
	CHECK(result.by_wall_clock);
	REQUIRE(trace_reader_open(merged.path, &split.r, &err) == 0);
	REQUIRE(trace_reader_stacks(split.r, &split.stacks, &count, &err) == 0);
	REQUIRE(model_load(split.r, &m, &err) == 0);
	REQUIRE(model_stacks(m, add_stack, &split) == 0);
	/* By their start: process 1 began before process 0. */
	static const int order[PROCESSES] = {1, 0, 2, 3};
	for (int p = 0; p < PROCESSES; p++) {
		struct sums want = {0};
		add_totals(&want, heaps[order[p]]);
		CHECK_EQ_U64(split.bytes[p], want.allocated_bytes);
	}
	model_free(m);
	trace_reader_close(split.r);
	unlink(merged.path);
	for (int p = 0; p < PROCESSES; p++) {
		unlink(files[p].path);
		free(heaps[p]);
	}
}

/* ---- bad days ---- */

static void lack_of_memory_is_told(void)
{
	struct heap *heap = make_heap(3);
	struct file files[PIECES];
	make_pieces(heap, 5, files);
	int rc = -ENOMEM;
	for (long n = 0; rc && n < 20000; n += 1 + n / 20) {
		struct file merged = make_file();
		struct merge_result result;
		struct tm_error err = {0};
		struct trace_reader *readers[2];
		struct trace_writer *w;
		for (int i = 0; i < 2; i++)
			REQUIRE(trace_reader_open(files[i].path, &readers[i], &err) == 0);
		REQUIRE(trace_writer_open(merged.fd, &(struct trace_writer_options){0}, &w, &err) ==
			0);
		tm_alloc_fail_at(n);
		rc = merge_sections(readers, 2, w, &(struct merge_options){0}, &result, &err);
		tm_alloc_fail_at(-1);
		CHECK(!rc || err.text[0]);
		(void)!trace_writer_close(w, NULL);
		for (int i = 0; i < 2; i++)
			trace_reader_close(readers[i]);
		unlink(merged.path);
	}
	CHECK_EQ_I64(rc, 0);
	for (int i = 0; i < PIECES; i++)
		unlink(files[i].path);
	free(heap);
}

static void damaged_traces_do_no_harm(void)
{
	struct heap *heap = make_heap(4);
	struct file files[PIECES];
	struct stat facts;
	make_pieces(heap, 9, files);
	REQUIRE(stat(files[1].path, &facts) == 0);
	for (int i = 1; i < 60; i++) {
		struct file broken = make_file(), merged = make_file();
		char *data = malloc((size_t)facts.st_size);
		FILE *in = fopen(files[1].path, "rb");
		REQUIRE(data && in && fread(data, (size_t)facts.st_size, 1, in) == 1);
		fclose(in);
		size_t at = (size_t)(facts.st_size / 60 * i);
		data[at] ^= 0x5a;
		size_t bytes = i % 2 ? (size_t)facts.st_size : at;
		REQUIRE(write(broken.fd, data, bytes) == (ssize_t)bytes);
		free(data);
		struct trace_reader *r;
		struct tm_error err = {0};
		struct merge_result result;
		if (!trace_reader_open(broken.path, &r, &err)) {
			trace_reader_close(r);
			const struct file two[] = {files[0], broken};
			int rc = merge_files(two, 2, merged.fd, (struct merge_options){0}, &result,
					     &err);
			CHECK(!rc || err.text[0]);
			if (!rc)
				check_sound(merged.path);
		}
		close(broken.fd);
		unlink(broken.path);
		unlink(merged.path);
	}
	for (int i = 0; i < PIECES; i++)
		unlink(files[i].path);
	free(heap);
}

static const struct tap_case cases[] = {
	{.name = "pieces come back as one", .run = pieces_come_back_as_one},
	{.name = "pieces that do not fit are refused", .run = pieces_that_do_not_fit_are_refused},
	{.name = "processes add up", .run = processes_add_up},
	{.name = "views can split by process", .run = views_can_split_by_process},
	{.name = "lack of memory is told", .run = lack_of_memory_is_told},
	{.name = "damaged traces do no harm", .run = damaged_traces_do_no_harm},
};
TAP_MAIN(cases)
