/* SPDX-License-Identifier: Apache-2.0 */
/* What belongs to what, and when it began: the sections in streams. */
#pragma once

#include "model/merge.h"

struct merge_part {
	struct trace_reader *reader;
	const struct trace_meta *meta;
	const struct trace_end *end;
	uint64_t offset_ns; /* in the merged trace, of its time 0 */
	uint64_t last_ns;   /* of its own times */
	size_t stream;
};

struct merge_plan {
	struct merge_part *parts; /* by stream, then in order */
	size_t part_count;
	size_t *first; /* by stream: its first part; first[stream_count] is the end */
	size_t stream_count;
	bool by_wall_clock;
	uint64_t start_unix_ns; /* of time 0 */
};

/* -ENOMEM, -EINVAL, -ENODATA, and what reading returns. */
TM_MUST_CHECK int merge_plan_make(struct merge_plan *plan, struct trace_reader *const *readers,
				  size_t count, enum merge_align align, struct tm_error *err);
void merge_plan_done(struct merge_plan *plan);

static inline bool merge_is_next_piece(const struct merge_plan *plan, size_t part)
{
	return part > plan->first[plan->parts[part].stream];
}
