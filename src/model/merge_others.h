/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a merged trace has beside heap events: mappings, memory from outside,
 * marks. Of several processes the memory is summed up, and each has an address
 * space of its own, so that their mappings do not meet.
 */
#pragma once

#include "model/copy.h"
#include "model/merge_join.h"

struct merge_others {
	const struct merge_plan *plan;
	struct merge_names *names;
	struct copy *copy; /* writer and model */
	struct trace_sample sum;
};

/* The stream's part is a new one. */
TM_MUST_CHECK int merge_others_open(struct merge_others *others, struct merge_stream *s,
				    struct tm_error *err);
/* When the next thing is due, in the part's times; UINT64_MAX: there is none. */
uint64_t merge_others_next(const struct merge_stream *s);
/* Writes it, not earlier than *now_ns, which moves on. */
TM_MUST_CHECK int merge_others_take(struct merge_others *others, struct merge_stream *s,
				    uint64_t *now_ns, struct tm_error *err);
/* The process is gone: it has no part in the sums any more. */
TM_MUST_CHECK int merge_others_end(struct merge_others *others, struct merge_stream *s,
				   uint64_t *now_ns, struct tm_error *err);
