/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that have sums per stack instead of events: one or more snapshots, each
 * with what had been allocated by then and what was live. They become slices, one
 * per snapshot; nothing in between is known, and the trace says so.
 *
 *	profile_snapshot(p, time_ns) { profile_row(p, &row) ... } profile_close(p)
 *
 * A stack that a snapshot does not mention has nothing live at it. Times must rise.
 */
#pragma once

#include "import/frames.h"
#include "import/reader.h"

struct profile;

struct profile_row {
	uint32_t stack_id;
	/* In all, up to this snapshot; PROFILE_UNKNOWN: at least what lives, and rises with it. */
	uint64_t allocations, allocated_bytes;
	uint64_t live_blocks, live_bytes;
	/* Blocks of this row are all of this size; 0 = not known. */
	uint64_t block_bytes;
};
#define PROFILE_UNKNOWN UINT64_MAX

/* What a file with nothing but the live bytes of each stack does not say. */
#define PROFILE_BYTES_ALONE                                                       \
	(TRACE_UNKNOWN_LIFETIMES | TRACE_UNKNOWN_THREADS | TRACE_UNKNOWN_EVENTS | \
	 TRACE_UNKNOWN_ALLOCATIONS | TRACE_UNKNOWN_COUNTS | TRACE_UNKNOWN_SIZES | \
	 TRACE_UNKNOWN_PEAK | TRACE_UNKNOWN_TEMPORARY)

TM_MUST_CHECK int profile_new(struct import_job *job, struct profile **ret_profile,
			      struct tm_error *err);
struct profile *profile_free(struct profile *p);
TM_MUST_CHECK int profile_snapshot(struct profile *p, uint64_t time_ns, struct tm_error *err);
/* Rows of one stack add up. Bytes without blocks count as one: say TRACE_UNKNOWN_COUNTS then. */
TM_MUST_CHECK int profile_row(struct profile *p, const struct profile_row *row,
			      struct tm_error *err);
/* The snapshot becomes a slice. At most 65,535 of them: -EFBIG. */
TM_MUST_CHECK int profile_close(struct profile *p, struct tm_error *err);
/* Counts stacks and ends the section, after the last fact. */
TM_MUST_CHECK int profile_end(struct profile *p, const struct frames *frames, uint64_t duration_ns,
			      struct tm_error *err);
