/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writing thread and the bounded queue before it. One producer puts batches
 * of raw blocks; the thread packs and writes them, in order. After an error it
 * goes on taking batches and drops them, so that the producer never hangs.
 */
#pragma once

#include "base/error.h"
#include "trace/bytes.h"
#include "trace/format.h"
#include "trace/trace.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SINK_BATCH_PARTS = 10 };

struct sink;

struct sink_part {
	struct format_block_header header; /* type, section, flags, summary */
	struct bytes raw;
	uint64_t covers; /* SLICE: events of the section up to its end */
	bool packed;     /* for the thread: it was not left out */
};

/* Blocks that are written together. */
struct sink_batch {
	struct sink_batch *next;
	bool journal; /* into the journal, not sealed */
	bool replace; /* the journal begins anew with it */
	bool sync;    /* when written, force it to the disk */
	/* For the thread: without its events; something that came before it is missing. */
	bool bare, after_gap;
	size_t count;
	struct sink *sink; /* has spare memory for it, and gets it back */
	struct sink_part parts[SINK_BATCH_PARTS];
};

/* Takes over fd also when it fails. */
TM_MUST_CHECK int sink_open(int fd, const struct trace_writer_options *options,
			    struct sink **ret_sink, struct tm_error *err);

/* A new batch; NULL without memory. */
struct sink_batch *sink_batch_new(struct sink *s);
/* One more block in the batch: fill its header's words and append to its raw bytes. */
struct sink_part *sink_batch_add(struct sink_batch *batch, enum format_type type, uint32_t section);
void sink_batch_drop(struct sink_batch *batch); /* the last one again: it is not written */
struct sink_batch *sink_batch_free(struct sink_batch *batch);
/*
 * Hand over. A journal batch is dropped with -EAGAIN while the queue is full;
 * others wait, but not for ever: when a disk takes nothing for seconds, events are
 * no longer stored; when it goes on taking nothing, that is an error like others.
 * 0 or the sticky error.
 */
int sink_put(struct sink *s, struct sink_batch *batch);

/* The queue is as short as can be from now on. */
void sink_shrink(struct sink *s);
/* Events are packed fast rather than small, while it is so. */
void sink_hurry(struct sink *s, bool hurried);
/* The thread that packs and writes; there until sink_close(). */
pthread_t sink_thread(const struct sink *s);
/* Wait until everything handed over is written, or the disk takes nothing for seconds. */
void sink_drain(struct sink *s);

/* Thread-safe. */
int sink_error(const struct sink *s);
bool sink_events_stopped(const struct sink *s); /* limit reached, disk hung, or an error */
uint64_t sink_bytes(const struct sink *s);
uint64_t sink_unstored(const struct sink *s);
/* The disk took nothing for so long that events are no longer stored. */
bool sink_was_late(const struct sink *s);
/* The disk was nearly full. */
bool sink_disk_low(const struct sink *s);
/* A slice is wanted; events of the open section that the slices in the file have. */
bool sink_wants_slice(const struct sink *s);
uint64_t sink_covered(const struct sink *s);
/* Events of the open section that were given back; when its single events begin (UINT64_MAX: none
 * are left). */
uint64_t sink_folded(const struct sink *s);
uint64_t sink_since_ns(const struct sink *s);
void sink_add_unstored(struct sink *s, uint64_t events);

/* Waits for the thread, writes the index, closes. The sticky error. */
int sink_close(struct sink *s, struct tm_error *err);
