/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of events in order, decoded by several threads ahead of the one that
 * looks at them. Memory: two decoded blocks per thread.
 */
#pragma once

#include "base/error.h"
#include "trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EVENT_SCAN_THREADS_MAX = 8, EVENT_SCAN_BLOCK_MAX = 1 << 20 };

struct event_scan {
	struct trace_reader *reader;
	size_t first, end; /* numbers of the blocks of events */
	bool addresses;    /* are needed */
	bool marks;        /* ends of older blocks get TRACE_EVENT_TEMPORARY; ENDS must be there */
	unsigned threads;  /* 0 = one per core, at most EVENT_SCAN_THREADS_MAX */
	/* Which blocks need not be decoded; NULL: all are. Called by any thread. */
	bool (*skip)(const void *ctx, size_t index);
	const void *skip_ctx;
	/* Called in order, by the asking thread. Not 0 stops with that value. */
	int (*fn)(void *ctx, size_t index, const struct trace_event_block *facts,
		  struct trace_event *events);
	/*
	 * Instead of fn, if there is one: called by any thread, blocks in no order. *memory is
	 * NULL at first, then what an earlier call made of it, for a block with a lower number;
	 * it is tm_free()d in the end after done_memory(). What it says is for `digested`, which is
	 * called in order by the asking thread.
	 */
	int (*digest)(const void *ctx, size_t index, const struct trace_event_block *facts,
		      const struct trace_event *events, void **memory);
	int (*digested)(void *ctx, const struct trace_event_block *facts, const void *memory);
	void (*done_memory)(void *memory);
	/* As fn, for a block that is damaged: its events are not known. May be NULL. */
	int (*damaged)(void *ctx, size_t index, const struct trace_event_block *facts);
	void *ctx;
};
struct event_scan_counts {
	uint64_t blocks, skipped, damaged_events;
};

/* 0, what fn returned, -ENOMEM, -EIO. Counts are added to *counts. */
TM_MUST_CHECK int event_scan_run(const struct event_scan *scan, struct event_scan_counts *counts,
				 struct tm_error *err);
/* How many threads "0" means. */
unsigned event_scan_threads(unsigned wanted);
