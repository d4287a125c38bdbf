/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer from slices and the events at the edges, while it is made.
 *
 *   slices   |------|------|------|------|------|
 *   range        [L ]  whole slices  [ R  ]
 *   or           [R]            (within one slice; P is what lies before it there)
 *
 * B(k) is the ordinal at which slice k begins. L ends at B(first_slice), R begins
 * at B(end_slice).
 */
#pragma once

#include "model/query_buckets.h"
#include "model/query_edges.h"

struct fast {
	struct query_section *section;
	const struct query *query;
	const struct query_range *range;
	struct query_answer *answer;
	struct answer_rows rows;
	struct bucket_set sizes, lives;
	struct edges *edges;
	size_t first_slice, end_slice;    /* whole slices; first == end: none */
	uint64_t before, left_end, right; /* P is [before, first event), L ends, R begins here */
	uint64_t left_end_block;          /* births before L's end */
	struct trace_sum *first_sums, *end_sums;
	size_t first_count, end_count;
	uint64_t start_blocks,
		start_bytes; /* of the whole heap, less what lives at B(first_slice) */
	int error;           /* of a callback that cannot return one */
	struct tm_error *err;
};

/* Where L, R and the whole slices are; needs section and range. */
void fast_plan(struct fast *fast);
/* B(k). */
uint64_t fast_boundary(const struct query_section *s, size_t slice);
/* The row of a stack that the filter chooses; NULL if it does not, or without memory (error). */
struct query_figures *fast_row(struct fast *fast, uint32_t stack_id);

/* Each adds its part to the answer. */
struct fast_kept;
/* Other threads begin with the whole slices; `fast` must have its plan, and no figures yet. */
TM_MUST_CHECK int fast_kept_start(struct fast *fast, struct fast_kept **ret_kept);
/* Does the rest and adds all; after a failure (rc) it only ends them. 0 or what failed, rc first.
 */
TM_MUST_CHECK int fast_kept_finish(struct fast *fast, struct fast_kept *kept, int rc);
TM_MUST_CHECK int fast_add_peak(struct fast *fast);
