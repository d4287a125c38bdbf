/* SPDX-License-Identifier: Apache-2.0 */
#include "merge_fixture.h"

#include "harness/tap.h"
#include "model/model.h"
#include "model/state.h"
#include "model/trim.h"
#include "model_reference.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct file make_file(void)
{
	struct file file = {.path = "/tmp/tidemark-test-merge-XXXXXX"};
	file.fd = mkstemp(file.path);
	REQUIRE(file.fd >= 0);
	return file;
}

/* ---- writing ---- */

struct recording {
	struct trace_writer *w;
	struct model *m;
};

static void begin(struct recording *r, int fd, const struct trace_meta *meta, uint32_t first_stack)
{
	REQUIRE(trace_writer_open(fd, &(struct trace_writer_options){.addresses = true}, &r->w,
				  NULL) == 0);
	REQUIRE(model_new(&(struct model_options){.slice_events = 400}, &r->m, NULL) == 0);
	REQUIRE(trace_writer_begin(r->w, meta) == 0);
	struct trace_module module = {.module_id = 1, .unmapped_ns = UINT64_MAX, .path = "/bin/x"};
	REQUIRE(trace_writer_module(r->w, &module) == 0);
	for (uint32_t i = 0; i < REF_STACKS; i++) {
		struct trace_stack stack = {
			.parent_id = i / 2, .module_id = 1, .pc = first_stack + i};
		REQUIRE(trace_writer_stacks(r->w, &stack, 1) == 0);
	}
	for (uint32_t i = 0; i < REF_THREADS; i++) {
		struct trace_thread thread = {.thread_id = i, .tid = 100 + i, .end_ns = UINT64_MAX};
		REQUIRE(trace_writer_thread(r->w, &thread) == 0);
	}
}

static void cut(struct recording *r)
{
	struct trace_slice slice;
	REQUIRE(model_slice_take(r->m, &slice, NULL) == 0);
	REQUIRE(trace_writer_slice(r->w, &slice) == 0);
}

static void put(struct recording *r, const struct trace_event *event)
{
	struct trace_event copy = *event;
	REQUIRE(model_apply(r->m, &copy, 1, NULL) == 0);
	REQUIRE(trace_writer_events(r->w, &copy, 1) == 0);
	if (model_slice_due(r->m))
		cut(r);
}

static void end(struct recording *r, uint32_t cause, uint64_t duration_ns)
{
	const struct trace_symbol symbols[] = {
		{.module_id = 1, .address = 0x1000, .function = "leaf", .source = TRACE_SYM_SYMTAB},
	};
	struct trace_end end = {.cause = cause, .duration_ns = duration_ns};
	cut(r);
	REQUIRE(trace_writer_symbols(r->w, symbols, 1) == 0);
	REQUIRE(trace_writer_end(r->w, &end) == 0);
	REQUIRE(trace_writer_close(r->w, NULL) == 0);
	model_free(r->m);
}

struct trace_meta plain_meta(void)
{
	return (struct trace_meta){.tool_version = "0",
				   .program = "/bin/x",
				   .mode = "exact",
				   .source = "run",
				   .host = "here",
				   .pid = 7,
				   .page_bytes = 4096,
				   .addresses = true};
}

/* ---- events with the numbers of their blocks ---- */

struct heap *make_heap(uint64_t seed)
{
	struct heap *heap = calloc(1, sizeof *heap);
	struct ref_model *ref = ref_new();
	struct ref_source source = {.random = seed, .addresses = 300, .honest = true};
	struct model *m;
	REQUIRE(heap);
	REQUIRE(model_new(&(struct model_options){0}, &m, NULL) == 0);
	while (heap->count < MERGE_EVENTS) {
		struct trace_event events[2], want;
		size_t count = ref_make(&source, ref, events);
		for (size_t i = 0; i < count; i++)
			ref_apply(ref, &events[i], &want);
		REQUIRE(model_apply(m, events, count, NULL) == 0);
		memcpy(heap->events + heap->count, events, count * sizeof *events);
		heap->count += count;
	}
	/* The file counts microseconds. */
	for (size_t i = 0; i < heap->count; i++)
		heap->events[i].time_ns = heap->events[i].time_ns / 1000 * 1000;
	model_free(m);
	ref_free(ref);
	return heap;
}

/* ---- a recording in pieces ---- */

enum state { DEAD, LIVE, MOVING };
struct follower {
	enum state *states; /* by block */
	uint32_t *movers;
	uint64_t *numbers; /* in the piece */
	uint64_t births;
	int64_t moving[REF_THREADS]; /* block, or -1 */
	struct trace_event *born;    /* by block */
	uint64_t piece_births;
};

static void follow(struct follower *f, const struct trace_event *event)
{
	int64_t *moving = &f->moving[event->thread_id];
	bool births = event->op == TRACE_ALLOC || event->op == TRACE_REALLOC_ALLOC;
	bool moves = event->op == TRACE_REALLOC_ALLOC || event->op == TRACE_REALLOC_FREE;
	if (moves && *moving >= 0)
		f->states[*moving] = DEAD;
	if (moves || event->op == TRACE_REALLOC_UNDO) {
		if (event->op == TRACE_REALLOC_UNDO && *moving >= 0)
			f->states[*moving] = LIVE;
		*moving = -1;
	}
	if (births) {
		f->states[f->births] = LIVE;
		f->born[f->births] = *event;
		f->births++;
	} else if (event->op == TRACE_REALLOC_FREE && event->block_id != TRACE_NO_BLOCK) {
		f->states[event->block_id] = MOVING;
		f->movers[event->block_id] = event->thread_id;
		*moving = (int64_t)event->block_id;
	} else if (event->block_id != TRACE_NO_BLOCK && event->op != TRACE_REALLOC_UNDO &&
		   event->op != TRACE_ALLOC_FAIL) {
		f->states[event->block_id] = DEAD;
	}
}

/* docs/trace-format.md: a piece begins with what is being moved, then with what lives. */
static void put_border(struct recording *r, struct follower *f, struct trace_meta *meta, bool write)
{
	f->piece_births = 0;
	for (int pass = 0; pass < 2; pass++) {
		for (uint64_t i = 0; i < f->births; i++) {
			if (f->states[i] != (pass ? LIVE : MOVING))
				continue;
			if (!write) {
				meta->inherited_blocks += pass;
				continue;
			}
			struct trace_event event = f->born[i];
			event.op = TRACE_ALLOC;
			event.time_ns = 0;
			event.block_id = f->numbers[i] = f->piece_births++;
			put(r, &event);
			const struct trace_event half = {.op = TRACE_REALLOC_FREE,
							 .block_id = event.block_id,
							 .address = event.address,
							 .thread_id = f->movers[i]};
			if (!pass)
				put(r, &half);
		}
	}
}

static void put_in_piece(struct recording *r, struct follower *f, struct trace_event event,
			 uint64_t start_ns, bool first)
{
	bool births = event.op == TRACE_ALLOC || event.op == TRACE_REALLOC_ALLOC;
	uint64_t whole_id = births ? f->births : event.block_id;
	struct trace_event in_piece = event;
	in_piece.time_ns -= start_ns;
	if (!first)
		in_piece.time_ns += TRIM_START_NS;
	if (births)
		in_piece.block_id = f->numbers[whole_id] = f->piece_births++;
	else if (event.block_id != TRACE_NO_BLOCK)
		in_piece.block_id = f->numbers[event.block_id];
	put(r, &in_piece);
	follow(f, &event);
}

void make_pieces(const struct heap *heap, uint64_t seed, struct file files[MERGE_PIECES])
{
	struct follower f = {.states = calloc(heap->count, sizeof *f.states),
			     .movers = calloc(heap->count, sizeof *f.movers),
			     .numbers = calloc(heap->count, sizeof *f.numbers),
			     .born = calloc(heap->count, sizeof *f.born)};
	struct ref_source dice = {.random = seed};
	size_t at = 0;
	memset(f.moving, -1, sizeof f.moving);
	for (uint32_t piece = 0; piece < MERGE_PIECES; piece++) {
		size_t stop = piece + 1 == MERGE_PIECES
				      ? heap->count
				      : at + ref_random(&dice, 2 * heap->count / MERGE_PIECES);
		stop = stop < heap->count ? stop : heap->count;
		uint64_t start_ns =
			piece ? heap->events[at < heap->count ? at : at - 1].time_ns : 0;
		struct trace_meta meta = plain_meta();
		struct recording r;
		meta.series_id = 99;
		meta.piece = piece + 1;
		meta.piece_start_ns = start_ns;
		meta.start_unix_ns = 1000000 + start_ns;
		put_border(NULL, &f, &meta, false);
		files[piece] = make_file();
		begin(&r, files[piece].fd, &meta, 0x1001);
		r.m->by_block = true;
		put_border(&r, &f, &meta, true);
		for (; at < stop; at++)
			put_in_piece(&r, &f, heap->events[at], start_ns, !piece);
		end(&r, piece + 1 < MERGE_PIECES ? TRACE_END_ROTATED : TRACE_END_EXIT,
		    stop > 0 ? heap->events[stop - 1].time_ns - start_ns + 2000 : 0);
	}
	free(f.states);
	free(f.movers);
	free(f.numbers);
	free(f.born);
}

void write_recording(const struct heap *heap, int fd, const struct trace_meta *meta)
{
	struct recording r;
	begin(&r, fd, meta, 0x1001);
	for (size_t i = 0; i < heap->count; i++)
		put(&r, &heap->events[i]);
	end(&r, TRACE_END_EXIT, heap->events[heap->count - 1].time_ns + 1000);
}
