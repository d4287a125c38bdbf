/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Front door of the trace file (*.tide). docs/trace-format.md is the format.
 *
 * Writer: one producer thread calls it; it encodes columns in that thread and
 * compresses and writes in a thread of its own, behind a bounded queue. Errors
 * are sticky: the calls return 0 or the first error; a failed disk never
 * blocks the producer for ever.
 *
 * Reader: opens finished, unfinished and damaged files alike; reads only the
 * headers it hops over and the blocks it is asked for.
 */
#pragma once

#include "base/error.h"
#include "trace/records.h"

#include <pthread.h>
#include <stddef.h>

struct trace_writer;
struct trace_reader;

/* What a writer is asked for, and how it keeps a file small. */
#include "trace/bounds.h"

/* ---- writing ---- */

/* Takes over fd (a new, empty file open for reading and writing, mode 0600), also on failure. */
TM_MUST_CHECK int trace_writer_open(int fd, const struct trace_writer_options *options,
				    struct trace_writer **ret_writer, struct tm_error *err);
/*
 * Sections that begin from now on are written without ENDS, SUMS and CURVE, or with them: for who
 * does not know stack and size of every block that ends.
 */
void trace_writer_lean(struct trace_writer *w, bool lean);
/* A section begins: ids of stacks, modules, threads, blocks, slices restart. */
int trace_writer_begin(struct trace_writer *w, const struct trace_meta *meta);
/* New stacks, in order of their ids: before the events that use them. */
int trace_writer_stacks(struct trace_writer *w, const struct trace_stack *stacks, size_t count);
/* Also again, to set unmapped_ns. */
int trace_writer_module(struct trace_writer *w, const struct trace_module *module);
/* Also again, to set name or end_ns. A thread that has events but no record is added nameless. */
int trace_writer_thread(struct trace_writer *w, const struct trace_thread *thread);
/*
 * block_id, thread_id, op must be filled (where meta.cull_ns is set block_id may jump); of frees
 * the block's stack_id and size_bytes and TRACE_EVENT_TEMPORARY, too. O(count). Waits only while
 * the disk is behind, and then not for ever.
 */
int trace_writer_events(struct trace_writer *w, const struct trace_event *events, size_t count);
/*
 * The next event has this ordinal and the next block this number: those between are in the slices
 * but not in the file. The caller counts them in trace_end.events_not_stored.
 */
int trace_writer_skip(struct trace_writer *w, uint64_t event, uint64_t block_id);
int trace_writer_maps(struct trace_writer *w, const struct trace_map_event *events, size_t count);
int trace_writer_sample(struct trace_writer *w, const struct trace_sample *sample);
/* Its time not before that of the one before. */
int trace_writer_moment(struct trace_writer *w, const struct trace_moment *moment);
int trace_writer_slice(struct trace_writer *w, const struct trace_slice *slice);
int trace_writer_symbols(struct trace_writer *w, const struct trace_symbol *symbols, size_t count);
int trace_writer_sources(struct trace_writer *w, const struct trace_source_line *lines,
			 size_t count);
/* The same for a section that may have ended: as trace_writer_section() numbered it. */
int trace_writer_late_symbols(struct trace_writer *w, uint32_t section,
			      const struct trace_symbol *symbols, size_t count);
int trace_writer_late_sources(struct trace_writer *w, uint32_t section,
			      const struct trace_source_line *lines, size_t count);
/* Number of the open section, or of the next. */
uint32_t trace_writer_section(const struct trace_writer *w);
/* At least every 50 ms: what is buffered goes to the journal, for SIGKILL of us. Never waits. */
int trace_writer_tick(struct trace_writer *w);
/* All so far is sealed, and forced to the disk in the background. */
int trace_writer_sync(struct trace_writer *w);
/* Fewer blocks may wait to be written from now on. */
void trace_writer_shrink(struct trace_writer *w);
/* Events come faster than we write: pack fast rather than small, until it is not so. */
void trace_writer_hurry(struct trace_writer *w, bool hurried);
pthread_t trace_writer_worker(const struct trace_writer *w); /* packs and writes, until close */
void trace_writer_sums(struct trace_writer *w); /* no slice follows: their sums are packed now */
/* Ends the section. What the caller did not count as not stored, or culled, is filled in. */
int trace_writer_end(struct trace_writer *w, const struct trace_end *end);
/* That end as the file has it. Borrowed, until the next. */
const struct trace_end *trace_writer_ended(const struct trace_writer *w);
/* Bytes in the file so far (thread-safe); events of the section that there was no room for. */
uint64_t trace_writer_bytes(const struct trace_writer *w);
uint64_t trace_writer_unstored(const struct trace_writer *w);
/* Waits for the writing thread, writes the index, closes. The sticky error. Accepts NULL. */
int trace_writer_close(struct trace_writer *w, struct tm_error *err);

/* ---- other names for a trace that is there ---- */

struct trace_rewrite;
/*
 * Begins a copy beside the trace, without its symbols and source lines. Close
 * puts the copy in its place at one stroke: who reads it sees the one or the
 * other. On any failure, and after cancel, the trace is as it was.
 */
TM_MUST_CHECK int trace_rewrite_open(const char *path, struct trace_rewrite **ret_rewrite,
				     struct tm_error *err);
TM_MUST_CHECK int trace_rewrite_symbols(struct trace_rewrite *w, uint32_t section,
					const struct trace_symbol *symbols, size_t count,
					struct tm_error *err);
TM_MUST_CHECK int trace_rewrite_sources(struct trace_rewrite *w, uint32_t section,
					const struct trace_source_line *lines, size_t count,
					struct tm_error *err);
/* Releases it, also on failure. */
TM_MUST_CHECK int trace_rewrite_close(struct trace_rewrite *w, struct tm_error *err);
struct trace_rewrite *trace_rewrite_cancel(struct trace_rewrite *w);

/* ---- reading ---- */

/* The file must have one whole block at least. Damage beyond that is warned of. */
TM_MUST_CHECK int trace_reader_open(const char *path, struct trace_reader **ret_reader,
				    struct tm_error *err);
struct trace_reader *trace_reader_close(struct trace_reader *r);

size_t trace_reader_section_count(const struct trace_reader *r);
/* Selects a section for all calls below; the last one is selected by open(). */
TM_MUST_CHECK int trace_reader_select(struct trace_reader *r, size_t section, struct tm_error *err);

/* The selected section has its end. */
bool trace_reader_complete(const struct trace_reader *r);
/* The file has its index: it was closed, and opening it needed no walk through its blocks. */
bool trace_reader_indexed(const struct trace_reader *r);
/* What was damaged or missing so far, or NULL. It grows as more is read. */
const char *trace_reader_warning(const struct trace_reader *r);
uint64_t trace_reader_bytes_read(const struct trace_reader *r);
/* What the file takes: while it is written there is a hole in it, which does not count. */
uint64_t trace_reader_file_bytes(const struct trace_reader *r);

/* How much of the file each kind of block takes, all sections. */
struct trace_usage {
	const char *name; /* static */
	uint64_t blocks, stored_bytes, raw_bytes;
};
/* Number `index` of the kinds; false at their end. */
bool trace_reader_usage(const struct trace_reader *r, size_t index, struct trace_usage *ret);

/*
 * All borrowed, valid until the reader is closed or another section selected; loaded on first use.
 * A damaged block is left out with a warning; what it had is zeros where ids need their place.
 */
TM_MUST_CHECK int trace_reader_meta(struct trace_reader *r, const struct trace_meta **ret,
				    struct tm_error *err);
/* If there is no end the cause is TRACE_END_UNKNOWN or TRACE_END_COLLECTOR_LOST. */
TM_MUST_CHECK int trace_reader_end(struct trace_reader *r, const struct trace_end **ret,
				   struct tm_error *err);
/* [0] is the empty stack. */
TM_MUST_CHECK int trace_reader_stacks(struct trace_reader *r, const struct trace_stack **ret,
				      size_t *ret_count, struct tm_error *err);
/* [0] is unused. */
TM_MUST_CHECK int trace_reader_modules(struct trace_reader *r, const struct trace_module **ret,
				       size_t *ret_count, struct tm_error *err);
TM_MUST_CHECK int trace_reader_threads(struct trace_reader *r, const struct trace_thread **ret,
				       size_t *ret_count, struct tm_error *err);
TM_MUST_CHECK int trace_reader_samples(struct trace_reader *r, const struct trace_sample **ret,
				       size_t *ret_count, struct tm_error *err);
/* Marks and pauses, by time. */
TM_MUST_CHECK int trace_reader_moments(struct trace_reader *r, const struct trace_moment **ret,
				       size_t *ret_count, struct tm_error *err);
/* The interval in bytes from this moment on, if it is a change to sampling; else 0. */
uint64_t trace_moment_interval(const struct trace_moment *moment);
/* The largest interval that blocks of the section were sampled by; 0: none was. Loads the moments.
 */
uint64_t trace_reader_sample_bytes(struct trace_reader *r);
/* Sorted by module_id and address; those of one address as they were written. */
TM_MUST_CHECK int trace_reader_symbols(struct trace_reader *r, const struct trace_symbol **ret,
				       size_t *ret_count, struct tm_error *err);
/* Sorted by file and line; empty unless the recording was asked to keep source lines. */
TM_MUST_CHECK int trace_reader_sources(struct trace_reader *r, const struct trace_source_line **ret,
				       size_t *ret_count, struct tm_error *err);
TM_MUST_CHECK int trace_reader_maps(struct trace_reader *r, const struct trace_map_event **ret,
				    size_t *ret_count, struct tm_error *err);

/* Event blocks: facts from their headers, no payload read. */
struct trace_event_block {
	uint64_t first_event, event_count;
	uint64_t first_block_id; /* block_id of the first allocation in it */
	uint64_t start_ns, end_ns;
	uint64_t min_size_bytes, max_size_bytes; /* asked for in it; min > max: nothing was */
	uint64_t offset;                         /* in the file; of its first piece */
};
size_t trace_reader_event_block_count(const struct trace_reader *r);
TM_MUST_CHECK int trace_reader_event_block(const struct trace_reader *r, size_t index,
					   struct trace_event_block *ret);
/*
 * Decode one block into events[] (room for event_count). Of a free, size, stack and address are
 * filled where the block began in the same block of events, size and stack also where the journal
 * has them (TRACE_EVENT_OLD); else 0. A damaged block is an error; the others stay readable.
 * Thread-safe for distinct buffers after open and select.
 */
TM_MUST_CHECK int trace_reader_events(struct trace_reader *r, size_t index,
				      struct trace_event *events, struct tm_error *err);
/* The same without addresses: fewer bytes to read and less to do. */
TM_MUST_CHECK int trace_reader_plain_events(struct trace_reader *r, size_t index,
					    struct trace_event *events, struct tm_error *err);

/* Slices, sums over them, ends of older blocks. */
#include "trace/aggregates.h"
