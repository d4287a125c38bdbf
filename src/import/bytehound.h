/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the reader of bytehound's .dat files.
 *
 *	chunks (LZ4 or stored) ──> stream of events without lengths ──> bytehound.c
 *	                                                        │
 *	    bytehound_space.c  regions, modules, embedded files │ names
 *	    bytehound_memory.c mappings, resident memory        │
 *	    bytehound_stacks.c backtraces in their three forms ─┤
 *	    order.c            events sorted by time            └─> events
 */
#pragma once

#include "base/idmap.h"
#include "import/events.h"
#include "import/frames.h"
#include "import/order.h"
#include "import/reader.h"
#include "trace/texts.h"

enum {
	BYTEHOUND_NEED_MAX = 1 << 20,   /* bytes that are asked for at once */
	BYTEHOUND_CHUNK_MAX = 16 << 20, /* of one chunk, unpacked */
	BYTEHOUND_DEPTH_MAX = 8192,     /* frames of a backtrace that are kept */
	BYTEHOUND_FILES_MAX = 512,      /* embedded files that are kept for their names */
};

/* ---- the stream (bytehound_stream.c) ---- */

struct bytehound_stream {
	struct import_input *in;
	uint8_t *room;
	size_t room_bytes;
	const uint8_t *at, *end; /* what is unpacked and not yet taken */
	bool ended, damaged;
	uint64_t unpacked;
};
/* At least `bytes` (up to BYTEHOUND_NEED_MAX) from s->at on; false: it ends before. */
bool bytehound_fill(struct bytehound_stream *s, size_t bytes);
static inline bool bytehound_need(struct bytehound_stream *s, size_t bytes)
{
	return (size_t)(s->end - s->at) >= bytes || bytehound_fill(s, bytes);
}
bool bytehound_skip(struct bytehound_stream *s, uint64_t bytes);
/* After bytehound_need(). */
static inline uint32_t bytehound_u32(struct bytehound_stream *s)
{
	const uint8_t *p = s->at;
	s->at += 4;
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline uint64_t bytehound_u64(struct bytehound_stream *s)
{
	uint64_t low = bytehound_u32(s);
	return low | (uint64_t)bytehound_u32(s) << 32;
}
/* The leading one-bits of the first byte say how many follow. False: it ended. */
bool bytehound_varint(struct bytehound_stream *s, uint64_t *ret);
/* Bytes of a text: at most `most` are kept in *ret (borrowed until the next call). */
bool bytehound_bytes(struct bytehound_stream *s, uint64_t length, size_t most, const char **ret,
		     size_t *ret_kept);

/* ---- the reader ---- */

struct bytehound_region {
	uint64_t start, end;
	uint32_t module_id; /* of frames.h; 0 = none */
};

struct bytehound_file {
	const char *path; /* in texts */
	int fd;
	bool fixed; /* linked to one address */
};

struct bytehound_names { /* of postprocessed files */
	const char **strings;
	size_t string_count, string_room;
	struct bytehound_frame {
		uint64_t address;
		uint32_t library, raw_function, function, source, line, column;
		bool inlined;
	} * frames;
	size_t frame_count, frame_room;
	uint32_t backtraces; /* DecodedBacktrace so far: their ids are implicit */
};

struct bytehound {
	struct import_job *job;
	struct tm_error *err;
	struct bytehound_stream stream;
	struct frames *frames;
	struct events *events;
	struct order *order;
	struct texts texts;
	bool begun, ended; /* ended: within an event, or where nothing is known any more */
	uint64_t start_us, last_us;
	uint64_t id[2];
	/* backtraces: their ids, and the stack of each */
	struct bytehound_backtrace {
		uint64_t id;
		uint32_t stack_id;
	} * backtraces;
	size_t backtrace_count, backtrace_room;
	struct idmap backtrace_map;
	uint64_t *addresses; /* one backtrace, while it is read */
	struct bytehound_names names;
	struct bytehound_last *last; /* by thread_id: of partial backtraces */
	size_t last_room;
	/* threads */
	uint32_t *threads; /* tid by thread_id */
	size_t thread_count, thread_room;
	struct idmap thread_map;
	uint32_t last_tid, last_thread;
	/* the address space */
	struct bytehound_region *regions; /* by start */
	size_t region_count, region_room;
	bool has_region_events;
	struct bytehound_file files[BYTEHOUND_FILES_MAX];
	size_t file_count;
	uint64_t file_bytes;
	uint64_t map_ns; /* of the last map event */
	/* resident memory: of each region, and of all */
	struct bytehound_usage {
		uint64_t map_id, resident_kib;
	} * usages;
	size_t usage_count, usage_room;
	struct idmap usage_map;
	uint64_t resident_kib, usage_us, sample_us;
	/* counts */
	uint64_t unknown_backtraces, stripped, stripped_bytes, frames_cut, odd;
};

int bytehound_no_memory(struct bytehound *b);
/* All take the fields of their event from the stream. 0, -errno; b->ended where it ended. */
TM_MUST_CHECK int bytehound_backtrace(struct bytehound *b, bool narrow);
TM_MUST_CHECK int bytehound_partial_backtrace(struct bytehound *b, bool narrow);
TM_MUST_CHECK int bytehound_string(struct bytehound *b);
TM_MUST_CHECK int bytehound_decoded_frame(struct bytehound *b);
TM_MUST_CHECK int bytehound_decoded_backtrace(struct bytehound *b);
TM_MUST_CHECK int bytehound_file(struct bytehound *b, bool wide);
TM_MUST_CHECK int bytehound_add_region(struct bytehound *b);
TM_MUST_CHECK int bytehound_remove_region(struct bytehound *b);
TM_MUST_CHECK int bytehound_region_usage(struct bytehound *b);
TM_MUST_CHECK int bytehound_map(struct bytehound *b);
TM_MUST_CHECK int bytehound_old_map(struct bytehound *b, bool is_map);

/* The stack of a backtrace; 0 for none, and for one that is not known (counted). */
uint32_t bytehound_stack(struct bytehound *b, uint64_t backtrace);
/* -1: no memory. */
int64_t bytehound_thread(struct bytehound *b, uint32_t tid);
uint64_t bytehound_time_ns(struct bytehound *b, uint64_t time_us);
/* What is there is no more. */
void bytehound_drop_range(struct bytehound *b, uint64_t start, uint64_t end);
/* The module at a run-time address, 0 = none; -1: no memory. */
int64_t bytehound_module_at(struct bytehound *b, uint64_t address);
/* What is resident since the last sample, as one. */
TM_MUST_CHECK int bytehound_sample(struct bytehound *b);
/* Looks up names in the embedded files, and in those of this machine. */
TM_MUST_CHECK int bytehound_resolve(struct bytehound *b);
void bytehound_space_done(struct bytehound *b);
void bytehound_stacks_done(struct bytehound *b);
