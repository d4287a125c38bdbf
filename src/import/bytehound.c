/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bytehound's .dat files (memory-profiler): events back to back without lengths, so
 * one of an unknown kind ends the reading. The writer cuts them anywhere: a file
 * that ends within an event is whole as far as it goes.
 *
 * Events are written about in the order of their time; they are put in order first.
 */
#include "import/bytehound.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "import/formats.h"
#include "import/lz4.h"

enum kind {
	KIND_HEADER = 0,
	KIND_ALLOC = 1,
	KIND_REALLOC = 2,
	KIND_FREE = 3,
	KIND_FILE = 4,
	KIND_BACKTRACE = 5,
	KIND_MEMORY_DUMP = 6,
	KIND_MARKER = 7,
	KIND_MAP_OLD = 8,
	KIND_UNMAP_OLD = 9,
	KIND_MALLOPT = 10,
	KIND_ENVIRON = 11,
	KIND_WALL_CLOCK = 12,
	KIND_PARTIAL_BACKTRACE = 13,
	KIND_STRING = 14,
	KIND_DECODED_FRAME = 15,
	KIND_DECODED_BACKTRACE = 16,
	KIND_GROUP_STATISTICS = 17,
	KIND_PARTIAL_BACKTRACE_32 = 18,
	KIND_BACKTRACE_32 = 19,
	KIND_ALLOC_EX = 20,
	KIND_REALLOC_EX = 21,
	KIND_FREE_EX = 22,
	KIND_FILE_64 = 23,
	KIND_ADD_REGION = 24,
	KIND_REMOVE_REGION = 25,
	KIND_REGION_USAGE = 26,
	KIND_MAP = 27,
};

enum {
	BODY_BYTES = 44,
	FLAG_JEMALLOC = 1 << 30,
	TEXT_BYTES = 64 << 10, /* of the command line */
};
#define FLAG_CALLOC (1u << 31)

int bytehound_no_memory(struct bytehound *b)
{
	return tm_fail(b->err, -ENOMEM, "no memory to import the file");
}

static int end_here(struct bytehound *b)
{
	b->ended = true;
	return 0;
}

uint64_t bytehound_time_ns(struct bytehound *b, uint64_t time_us)
{
	uint64_t since = time_us > b->start_us ? time_us - b->start_us : 0;
	if (since >> 44) {
		b->odd++;
		since = 0;
	}
	if (since > b->last_us)
		b->last_us = since;
	return since * 1000;
}

/* ---- threads ---- */

static bool same_thread(const void *ctx, uint32_t number, const void *key)
{
	return ((const struct bytehound *)ctx)->threads[number] == *(const uint32_t *)key;
}

static int64_t add_thread(struct bytehound *b, uint32_t tid)
{
	if (b->thread_count == b->thread_room) {
		size_t room = b->thread_room * 2 + 16;
		void *grown = tm_grow_array(b->threads, room, sizeof *b->threads);
		if (!grown)
			return -1;
		b->threads = grown;
		b->thread_room = room;
	}
	uint32_t number = (uint32_t)b->thread_count;
	b->threads[number] = tid;
	if (idmap_add(&b->thread_map, hash_u64(tid), number))
		return -1;
	b->thread_count++;
	const struct trace_thread thread = {.thread_id = number, .tid = tid, .end_ns = UINT64_MAX};
	return trace_writer_thread(import_writer(b->job), &thread) ? -1 : (int64_t)number;
}

int64_t bytehound_thread(struct bytehound *b, uint32_t tid)
{
	if (b->thread_count && tid == b->last_tid)
		return b->last_thread;
	uint32_t found = idmap_find(&b->thread_map, hash_u64(tid), same_thread, b, &tid);
	int64_t number = found != IDMAP_NONE ? (int64_t)found : add_thread(b, tid);
	if (number >= 0) {
		b->last_tid = tid;
		b->last_thread = (uint32_t)number;
	}
	return number;
}

/* ---- the head ---- */

static int read_text(struct bytehound *b, char **ret)
{
	const char *bytes;
	size_t kept;
	struct text text = {0};
	if (!bytehound_need(&b->stream, 4) ||
	    !bytehound_bytes(&b->stream, bytehound_u32(&b->stream), TEXT_BYTES, &bytes, &kept))
		return end_here(b);
	/* Arguments end with NUL. */
	while (kept && !bytes[kept - 1])
		kept--;
	for (size_t i = 0; i < kept; i++)
		text_put_char(&text, bytes[i] ? bytes[i] : ' ');
	text_put(&text, "");
	return text_take(&text, ret) ? bytehound_no_memory(b) : 0;
}

static int begin(struct bytehound *b, struct trace_meta *meta)
{
	static const struct events_options how = {0};
	b->begun = true;
	meta->clock = "monotonic";
	meta->addresses = meta->free_stacks = true;
	meta->origin = "bytehound";
	int code = import_begin(b->job, meta, b->err);
	if (!code)
		code = events_new(b->job, &how, &b->events, b->err);
	if (!code)
		code = frames_new(b->job, &b->frames, b->err);
	return code ? code : order_new(b->events, &b->order, b->err);
}

static int read_header(struct bytehound *b)
{
	struct bytehound_stream *s = &b->stream;
	char *command = NULL, *program = NULL, *arch = NULL;
	if (!bytehound_need(s, 52))
		return end_here(b);
	uint64_t id[2];
	id[0] = bytehound_u64(s);
	id[1] = bytehound_u64(s);
	uint64_t start_us = bytehound_u64(s), now_us = bytehound_u64(s);
	uint64_t seconds = bytehound_u64(s), ns = bytehound_u64(s);
	uint32_t pid = bytehound_u32(s);
	int code = read_text(b, &command);
	if (!code && !b->ended)
		code = read_text(b, &program);
	if (!code && !b->ended)
		code = read_text(b, &arch);
	if (!code && !b->ended && !bytehound_skip(s, 9))
		b->ended = true;
	/* Later ones repeat the first. */
	if (!code && !b->ended && !b->begun) {
		uint64_t wall_ns = seconds < 1u << 31 ? seconds * 1000000000 + ns : 0;
		uint64_t since_ns = now_us > start_us ? (now_us - start_us) * 1000 : 0;
		struct trace_meta meta = {.program = program,
					  .command = command,
					  .pid = pid,
					  .start_unix_ns =
						  wall_ns > since_ns ? wall_ns - since_ns : 0};
		b->start_us = start_us;
		memcpy(b->id, id, sizeof id);
		code = begin(b, &meta);
	} else if (!code && !b->ended && memcmp(b->id, id, sizeof id) != 0) {
		b->odd++;
	}
	tm_free(command);
	tm_free(program);
	tm_free(arch);
	return code;
}

/* ---- events ---- */

/* Of the block: the same in its allocation and its free. 0 = not known. */
static uint64_t block_number(uint64_t thread, uint64_t counter)
{
	if ((!thread && !counter) || (thread == UINT64_MAX && counter == UINT64_MAX))
		return 0;
	return hash_pair(thread, counter) | 1;
}

static uint8_t api_of(uint32_t flags, bool moves)
{
	if (flags & FLAG_JEMALLOC)
		return TRACE_API_JEMALLOC;
	if (flags & FLAG_CALLOC)
		return TRACE_API_CALLOC;
	return moves ? TRACE_API_REALLOC : TRACE_API_MALLOC;
}

static int read_alloc(struct bytehound *b, bool extended, bool moves)
{
	struct bytehound_stream *s = &b->stream;
	size_t bytes = BODY_BYTES + 8 + (extended ? 16 : 0) + (moves ? 8 : 0);
	uint64_t number = 0, old_pointer = 0;
	if (!bytehound_need(s, bytes))
		return end_here(b);
	if (extended) {
		uint64_t owner = bytehound_u64(s);
		number = block_number(owner, bytehound_u64(s));
	}
	uint64_t time_ns = bytehound_time_ns(b, bytehound_u64(s));
	if (moves)
		old_pointer = bytehound_u64(s);
	struct trace_event birth = {.time_ns = time_ns,
				    .block_id = number,
				    .op = moves ? TRACE_REALLOC_ALLOC : TRACE_ALLOC};
	birth.address = bytehound_u64(s);
	birth.size_bytes = bytehound_u64(s);
	birth.stack_id = bytehound_stack(b, bytehound_u64(s));
	int64_t thread = bytehound_thread(b, bytehound_u32(s));
	birth.api = api_of(bytehound_u32(s), moves);
	s->at += 12;
	if (thread < 0)
		return bytehound_no_memory(b);
	birth.thread_id = (uint32_t)thread;
	int code = 0;
	if (moves) {
		/* A chain keeps its number: the end of the old block must not be moved by it. */
		const struct trace_event end = {.time_ns = time_ns,
						.address = old_pointer,
						.free_stack_id = birth.stack_id,
						.thread_id = birth.thread_id,
						.op = TRACE_REALLOC_FREE};
		code = order_add(b->order, &end, b->err);
	}
	return code ? code : order_add(b->order, &birth, b->err);
}

static int read_free(struct bytehound *b, bool extended)
{
	struct bytehound_stream *s = &b->stream;
	uint64_t number = 0;
	if (!bytehound_need(s, extended ? 44 : 28))
		return end_here(b);
	if (extended) {
		uint64_t owner = bytehound_u64(s);
		number = block_number(owner, bytehound_u64(s));
	}
	struct trace_event end = {.block_id = number, .op = TRACE_FREE};
	end.time_ns = bytehound_time_ns(b, bytehound_u64(s));
	end.address = bytehound_u64(s);
	end.free_stack_id = bytehound_stack(b, bytehound_u64(s));
	int64_t thread = bytehound_thread(b, bytehound_u32(s));
	if (thread < 0)
		return bytehound_no_memory(b);
	end.thread_id = (uint32_t)thread;
	return order_add(b->order, &end, b->err);
}

/* What `bytehound strip` took out: sums of a backtrace. */
static int read_statistics(struct bytehound *b)
{
	struct bytehound_stream *s = &b->stream;
	if (!bytehound_need(s, 56))
		return end_here(b);
	s->at += 24;
	b->stripped += bytehound_u64(s);
	b->stripped_bytes += bytehound_u64(s);
	s->at += 16;
	return 0;
}

static int read_marker(struct bytehound *b)
{
	char name[32];
	if (!bytehound_need(&b->stream, 4))
		return end_here(b);
	snprintf(name, sizeof name, "marker %" PRIu32, bytehound_u32(&b->stream));
	/* It has no time of its own. */
	const struct trace_moment mark = {
		.time_ns = b->last_us * 1000, .kind = TRACE_MOMENT_MARK, .text = name};
	int code = trace_writer_moment(import_writer(b->job), &mark);
	return code ? import_write_failed(code, b->err) : 0;
}

static int skip(struct bytehound *b, uint64_t bytes)
{
	return bytehound_skip(&b->stream, bytes) ? 0 : end_here(b);
}

/* Bytes with their length before them, after `before` others. */
static int skip_bytes(struct bytehound *b, size_t before)
{
	if (!bytehound_need(&b->stream, before + 4))
		return end_here(b);
	b->stream.at += before;
	return skip(b, bytehound_u32(&b->stream));
}

static int read_names(struct bytehound *b, enum kind kind)
{
	switch (kind) {
	case KIND_BACKTRACE:
	case KIND_BACKTRACE_32:
		return bytehound_backtrace(b, kind == KIND_BACKTRACE_32);
	case KIND_PARTIAL_BACKTRACE:
	case KIND_PARTIAL_BACKTRACE_32:
		return bytehound_partial_backtrace(b, kind == KIND_PARTIAL_BACKTRACE_32);
	case KIND_STRING:
		return bytehound_string(b);
	case KIND_DECODED_FRAME:
		return bytehound_decoded_frame(b);
	case KIND_DECODED_BACKTRACE:
		return bytehound_decoded_backtrace(b);
	default:
		return tm_fail(b->err, -EBADMSG,
			       "an event of kind %d is not known: the file is damaged, or of a "
			       "newer bytehound",
			       (int)kind);
	}
}

static int read_other(struct bytehound *b, enum kind kind)
{
	switch (kind) {
	case KIND_HEADER:
		return read_header(b);
	case KIND_FILE:
	case KIND_FILE_64:
		return bytehound_file(b, kind == KIND_FILE_64);
	case KIND_MEMORY_DUMP:
		return skip_bytes(b, 16);
	case KIND_MARKER:
		return read_marker(b);
	case KIND_MAP_OLD:
	case KIND_UNMAP_OLD:
		return bytehound_old_map(b, kind == KIND_MAP_OLD);
	case KIND_MALLOPT:
		return skip(b, 32);
	case KIND_ENVIRON:
		return skip_bytes(b, 0);
	case KIND_WALL_CLOCK:
		return skip(b, 24);
	case KIND_GROUP_STATISTICS:
		return read_statistics(b);
	case KIND_ADD_REGION:
		return bytehound_add_region(b);
	case KIND_REMOVE_REGION:
		return bytehound_remove_region(b);
	case KIND_REGION_USAGE:
		return bytehound_region_usage(b);
	case KIND_MAP:
		return bytehound_map(b);
	default:
		return read_names(b, kind);
	}
}

static int read_event(struct bytehound *b)
{
	enum kind kind = (enum kind)bytehound_u32(&b->stream);
	if (!b->begun && kind != KIND_HEADER)
		return tm_fail(b->err, -EBADMSG, "the file does not begin with its header");
	switch (kind) {
	case KIND_ALLOC:
	case KIND_ALLOC_EX:
		return read_alloc(b, kind == KIND_ALLOC_EX, false);
	case KIND_REALLOC:
	case KIND_REALLOC_EX:
		return read_alloc(b, kind == KIND_REALLOC_EX, true);
	case KIND_FREE:
	case KIND_FREE_EX:
		return read_free(b, kind == KIND_FREE_EX);
	default:
		return read_other(b, kind);
	}
}

static int read_events(struct bytehound *b)
{
	int code = 0;
	while (!code && !b->ended && bytehound_need(&b->stream, 4))
		code = read_event(b);
	if (code == -EBADMSG && b->begun) {
		/* What came before it is as good as ever. */
		import_fact(b->job, "Reading ended early: %s.", b->err->text);
		code = 0;
	}
	if (!code && !b->begun)
		return tm_fail(b->err, -EBADMSG, "the file ends within its header");
	if (b->ended || b->stream.damaged || b->stream.at != b->stream.end)
		import_cut(b->job);
	return code;
}

/* ---- the end ---- */

static void say(struct bytehound *b, const struct events_counts *counts)
{
	struct import_job *job = b->job;
	if (counts->unseen)
		import_fact(job,
			    "%" PRIu64 " allocations came on a live address (bytehound missed the "
			    "free): the old block counts as freed unseen.",
			    counts->unseen);
	if (counts->late)
		import_fact(job,
			    "%" PRIu64 " events stand so far behind their time that they were "
			    "taken where they stand.",
			    counts->late);
	if (b->stripped)
		import_fact(job,
			    "%" PRIu64 " short-lived allocations of %" PRIu64 " bytes were "
			    "stripped from the file and are not in the figures.",
			    b->stripped, b->stripped_bytes);
	if (b->unknown_backtraces)
		import_fact(job, "%" PRIu64 " events have a backtrace that is not in the file.",
			    b->unknown_backtraces);
	if (b->frames_cut)
		import_fact(job, "%" PRIu64 " backtraces are longer than %d frames and were cut.",
			    b->frames_cut, BYTEHOUND_DEPTH_MAX);
	if (b->odd)
		import_fact(job, "%" PRIu64 " values make no sense and were left out.", b->odd);
}

static int finish(struct bytehound *b)
{
	struct events_counts counts;
	int code = order_finish(b->order, b->err);
	if (!code)
		code = bytehound_sample(b);
	if (!code)
		code = bytehound_resolve(b);
	if (!code)
		code = frames_finish(b->frames, b->err);
	if (!code)
		code = events_finish(b->events, &counts, b->err);
	if (code)
		return code;
	say(b, &counts);
	import_count(b->job, counts.events, frames_stack_count(b->frames));
	const struct trace_end end = {.cause = TRACE_END_UNSAID,
				      .duration_ns = b->last_us * 1000,
				      .freed_unseen = counts.unseen,
				      .freed_older = counts.older};
	return import_end(b->job, &end, b->err);
}

static int read_bytehound(struct import_job *job, struct tm_error *err)
{
	struct bytehound *b = tm_alloc(sizeof *b);
	if (!b)
		return tm_fail(err, -ENOMEM, "no memory to import the file");
	b->job = job;
	b->err = err;
	b->stream.in = import_input(job);
	b->addresses = tm_alloc_array(BYTEHOUND_DEPTH_MAX, sizeof *b->addresses);
	int code = b->addresses ? read_events(b) : bytehound_no_memory(b);
	if (!code)
		code = finish(b);
	order_free(b->order);
	events_free(b->events);
	frames_free(b->frames);
	bytehound_stacks_done(b);
	bytehound_space_done(b);
	tm_free(b->usages);
	idmap_done(&b->usage_map);
	tm_free(b->threads);
	idmap_done(&b->thread_map);
	texts_done(&b->texts);
	tm_free(b->stream.room);
	tm_free(b);
	return code;
}

/* ---- is it one? ---- */

static uint64_t word(const uint8_t *at, unsigned bytes)
{
	uint64_t value = 0;
	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)at[i] << (8 * i);
	return value;
}

/* No mark, no version: a first chunk whose first event is a header with sensible times. */
static bool recognise_bytehound(const char *head, size_t bytes, bool whole)
{
	uint8_t first[4096];
	const uint8_t *in = (const uint8_t *)head;
	size_t got = 0;
	(void)whole;
	if (bytes < 16 || (*in != 1 && *in != 2) || word(in + 1, 4) > INPUT_PEEK_MAX)
		return false;
	uint64_t length = word(in + 1, 4);
	size_t seen = bytes - 5 < length ? bytes - 5 : (size_t)length;
	if (*in == 1) {
		lz4_unpack(in + 5, seen, first, sizeof first, &got);
	} else {
		got = seen < sizeof first ? seen : sizeof first;
		memcpy(first, in + 5, got);
	}
	if (got < 60 || word(first, 4) != KIND_HEADER)
		return false;
	uint64_t start_us = word(first + 20, 8), now_us = word(first + 28, 8);
	uint64_t seconds = word(first + 36, 8), ns = word(first + 44, 8);
	return start_us <= now_us + 1000000 && now_us >> 56 == 0 && seconds < 1ull << 33 &&
	       ns < 1000000000 && word(first + 56, 4) <= 1 << 20;
}

const struct import_format import_bytehound = {
	.name = "bytehound",
	.title = "bytehound (memory-profiler), .dat",
	.recognise = recognise_bytehound,
	.read = read_bytehound,
};
