/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of trace.h, which includes it: what a writer is asked for, and how a
 * file is kept within bounds while it is written. docs/days.md has the reasons.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct trace_map_event;
struct trace_slice;
struct trace_writer;

/* Not 0 stops. */
typedef int (*trace_map_fn)(void *ctx, const struct trace_map_event *event);
/* Goes through all rows, as often as it is called; false: they cannot be read, or it was stopped.
 */
typedef bool (*trace_maps_fn)(const void *ctx, trace_map_fn fn, void *fn_ctx);
/*
 * Gives fewer rows that lead to the same mappings and peaks, of the same stacks and threads. 0 or
 * -errno.
 */
typedef int (*trace_restate_fn)(trace_maps_fn each, const void *each_ctx, trace_map_fn put,
				void *put_ctx);

struct trace_writer_options {
	bool addresses;     /* store the address column */
	uint64_t max_bytes; /* 0 = none; reached: events are no longer stored, the rest goes on */
	/*
	 * Older events are folded: they stay in the slices, their blocks are written over. 0 = not;
	 * retain_ns: single events of the last so long stay. retain_bytes: the file gets no larger,
	 * if names and stacks are not. Slices and samples are merged with age; mappings are
	 * restated, by who knows what they mean (NULL: they are not).
	 */
	uint64_t retain_ns, retain_bytes;
	trace_restate_fn restate;
	uint32_t queue_blocks; /* 0 = default */
	bool lean; /* without ENDS, SUMS and CURVE: a smaller file that is slower to ask */
};

/* Events of the section that were folded, of those that were stored. Thread-safe. */
uint64_t trace_writer_folded(const struct trace_writer *w);
/* The disk was nearly full: old events were folded for it, or newer ones not stored. Thread-safe.
 */
bool trace_writer_disk_low(const struct trace_writer *w);
/* Likewise, that the disk took nothing for seconds, and events were no longer stored. */
bool trace_writer_disk_hung(const struct trace_writer *w);
/* Events wait for a slice before they can be folded, and room is short. Thread-safe. */
bool trace_writer_wants_slice(const struct trace_writer *w);
/* What waits to be more is given now: trace_writer_flush() then includes it. */
void trace_writer_seal(struct trace_writer *w);
/* Waits until all that was given is in the file, or the disk takes nothing for seconds. */
void trace_writer_flush(struct trace_writer *w);
/*
 * trace_writer_tick() with what the open slice has so far (NULL: none), for who does not give all
 * its events to the writer: whoever reads the file before its end takes it as the last slice.
 */
int trace_writer_tick_slice(struct trace_writer *w, const struct trace_slice *open);
/* The next tick begins the journal anew: it needs the open slice, even if nothing is new in it. */
bool trace_writer_renews(const struct trace_writer *w);
