/* SPDX-License-Identifier: Apache-2.0 */
/* A slice of aggregates to bytes and back, as columns. */
#pragma once

#include "trace/aggregates.h"
#include "trace/bytes.h"
#include "trace/records.h"

#include <stdbool.h>
#include <stdint.h>

/* The slice's own numbers, without its rows: what a CURVE block has of each slice. */
void slices_put_facts(struct bytes *out, const struct trace_slice *slice);
void slices_get_facts(struct span *in, struct trace_slice *slice);
/* The whole payload of a SLICE block; out->failed tells lack of memory. */
void slices_put(struct bytes *out, const struct trace_slice *slice);

/* A slice with all that it points to. */
struct slices_reader {
	struct trace_slice slice;
	struct trace_slice_row *rows;
	struct trace_death *deaths;
	struct trace_bucket *sizes, *lives;
	struct trace_culled_thread *threads;
	bool no_buckets; /* set before: rows come without sizes and lives, which takes less */
};
/*
 * Decode; stacks must be below stack_count. NULL, or what is wrong (decode_no_memory included). The
 * reader's arrays are replaced; slices_done() frees them.
 */
const char *slices_get(struct span payload, uint32_t stack_count, struct slices_reader *r);
void slices_done(struct slices_reader *r);
/* Which ends of which slice, by the numbers in the file. */
struct slices_ends_of {
	uint32_t slice_id;
	uint32_t first_birth; /* born in this one or later: counted */
	uint32_t before;      /* born in this one or later, but before first_birth: from_before */
};
/* The ends of one slice alone: each row goes to fn as it is decoded. */
const char *slices_get_ends(struct span payload, uint32_t stack_count,
			    const struct slices_ends_of *which, trace_ends_fn fn, void *ctx);
