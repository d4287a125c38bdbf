/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of trace.h, which includes it: what a writer is asked for, and how a
 * file is kept within bounds while it is written. docs/days.md has the reasons.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct trace_slice;
struct trace_writer;

struct trace_writer_options {
	bool addresses;     /* store the address column */
	uint64_t max_bytes; /* 0 = none; reached: events are no longer stored, the rest goes on */
	/*
	 * Older events are folded: they stay in the slices, their blocks are written over. 0 = not;
	 * retain_ns: single events of the last so long stay. retain_bytes: the file gets no larger,
	 * if names, stacks and samples are not. Slices are merged with age.
	 */
	uint64_t retain_ns, retain_bytes;
	uint32_t queue_blocks; /* 0 = default */
	bool lean; /* without ENDS, SUMS and CURVE: a smaller file that is slower to ask */
};

/* Events of the section that were folded, of those that were stored. Thread-safe. */
uint64_t trace_writer_folded(const struct trace_writer *w);
/* The disk was nearly full: old events were folded for it, or newer ones not stored. Thread-safe.
 */
bool trace_writer_disk_low(const struct trace_writer *w);
/* Events wait for a slice before they can be folded, and room is short. Thread-safe. */
bool trace_writer_wants_slice(const struct trace_writer *w);
/* Waits until all that was given is in the file, or the disk takes nothing for seconds. */
void trace_writer_flush(struct trace_writer *w);
/*
 * trace_writer_tick() with what the open slice has so far (NULL: none), for who does not give all
 * its events to the writer: whoever reads the file before its end takes it as the last slice.
 */
int trace_writer_tick_slice(struct trace_writer *w, const struct trace_slice *open);
/* The next tick begins the journal anew: it needs the open slice, even if nothing is new in it. */
bool trace_writer_renews(const struct trace_writer *w);
