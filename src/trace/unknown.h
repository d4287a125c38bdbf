/* SPDX-License-Identifier: Apache-2.0 */
/* A part of records.h: what a trace that was imported does not know. */
#pragma once

/* What a file of another tool does not say; views that need it must not guess. */
enum trace_unknown {
	TRACE_UNKNOWN_LIFETIMES = 1u << 0, /* which block a free ended: no lifetimes, no ages */
	TRACE_UNKNOWN_THREADS = 1u << 1,
	TRACE_UNKNOWN_TIMES = 1u << 2,       /* when things happened: one moment for all */
	TRACE_UNKNOWN_EVENTS = 1u << 3,      /* single events: it has sums per stack alone */
	TRACE_UNKNOWN_ALLOCATIONS = 1u << 4, /* how much was allocated in all: only what lives */
	TRACE_UNKNOWN_FREES = 1u << 5,       /* what was freed: only what was allocated */
	TRACE_UNKNOWN_COUNTS = 1u << 6,      /* numbers of blocks: bytes alone */
	TRACE_UNKNOWN_SIZES = 1u << 7,       /* sizes of single blocks */
	TRACE_UNKNOWN_PEAK = 1u << 8,        /* the peak: that of the moments it has is shown */
	TRACE_UNKNOWN_TEMPORARY = 1u << 9,
};
