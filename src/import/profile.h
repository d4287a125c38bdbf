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

TM_MUST_CHECK int profile_new(struct import_job *job, struct profile **ret_profile,
			      struct tm_error *err);
struct profile *profile_free(struct profile *p);
TM_MUST_CHECK int profile_snapshot(struct profile *p, uint64_t time_ns, struct tm_error *err);
/* Rows of one stack add up. Bytes without blocks count as one: say TRACE_UNKNOWN_COUNTS then. */
TM_MUST_CHECK int profile_row(struct profile *p, const struct profile_row *row,
			      struct tm_error *err);
/* The snapshot becomes a slice. At most 65,535 of them: -EFBIG. */
TM_MUST_CHECK int profile_close(struct profile *p, struct tm_error *err);
/* Events that the sums stand for: for trace_end.events_not_stored. */
uint64_t profile_events(const struct profile *p);
