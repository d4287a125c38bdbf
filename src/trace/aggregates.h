/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of trace.h, which includes it: what a reader finds in the file beside
 * the events so that it need not go through them.
 */
#pragma once

#include "base/error.h"
#include "trace/records.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_reader;

/*
 * Slices in order; the callback's data are valid during the call. Return not 0
 * to stop with that value. A damaged slice is an error: sums would be wrong.
 */
typedef int (*trace_slice_fn)(void *ctx, const struct trace_slice *slice);
TM_MUST_CHECK int trace_reader_slices(struct trace_reader *r, trace_slice_fn fn, void *ctx,
				      struct tm_error *err);
size_t trace_reader_slice_count(const struct trace_reader *r);
/* The same of `count` slices from number `first` on, as far as there are. */
TM_MUST_CHECK int trace_reader_slice_range(struct trace_reader *r, size_t first, size_t count,
					   trace_slice_fn fn, void *ctx, struct tm_error *err);

/* One slice. Thread-safe after open and select. */
TM_MUST_CHECK int trace_reader_slice(struct trace_reader *r, size_t index, trace_slice_fn fn,
				     void *ctx, struct tm_error *err);
/* The same without sizes and lifetimes in its rows. */
TM_MUST_CHECK int trace_reader_plain_slice(struct trace_reader *r, size_t index, trace_slice_fn fn,
					   void *ctx, struct tm_error *err);
/* What ends in a slice, of one stack. */
struct trace_ends_row {
	uint32_t stack_id;
	bool from_before;      /* and some were born in the slice before `first_birth` */
	uint64_t count, bytes; /* born in slice `first_birth` or later; modulo 2^64 */
};
typedef int (*trace_ends_fn)(void *ctx, const struct trace_ends_row *row);
/* Only that of one slice: takes less. Thread-safe after open and select. */
TM_MUST_CHECK int trace_reader_slice_ends(struct trace_reader *r, size_t index,
					  uint32_t first_birth, trace_ends_fn fn, void *ctx,
					  struct tm_error *err);
/* The facts of all slices, without rows; the caller frees *ret (tm_free). Reads few of them. */
TM_MUST_CHECK int trace_reader_curve(struct trace_reader *r, struct trace_slice **ret,
				     size_t *ret_count, struct tm_error *err);
/*
 * Sums over the first `slices` slices, in order of stack_id; the caller frees *ret. Cost: one block
 * of sums and the slices after it, which are few. Thread-safe after open and select.
 */
TM_MUST_CHECK int trace_reader_sums(struct trace_reader *r, size_t slices, struct trace_sum **ret,
				    size_t *ret_count, struct tm_error *err);

/* What belongs to an event block about ends of heap blocks that are older than it. */
struct trace_ends_facts {
	uint64_t count;
	uint64_t lowest_block_id, highest_block_id; /* that end in it; 0 without any */
	uint64_t undone;                            /* reallocs in the event block that failed */
};
/* From headers alone. -ENODATA if the file does not have it: look at older events instead. */
TM_MUST_CHECK int trace_reader_ends_facts(const struct trace_reader *r, size_t index,
					  struct trace_ends_facts *ret);
/*
 * rows[] has room for the count of facts; they are in the order of their events. -ENODATA,
 * -EBADMSG. Thread-safe as trace_reader_events().
 */
TM_MUST_CHECK int trace_reader_ends(struct trace_reader *r, size_t index,
				    struct trace_old_end *rows, struct tm_error *err);
