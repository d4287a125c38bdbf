/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two neighbouring slices as one that says the same of their time as a whole:
 * what is counted is added up exactly, what holds at an end is that of its end.
 */
#pragma once

#include "trace/bytes.h"
#include "trace/records.h"

#include <stdint.h>

/* The highest number of the slice that has this number now: births in it are one entry. */
typedef uint32_t (*slices_last_fn)(const void *ctx, uint32_t number);

/* The payload of a SLICE block: b follows a. 0 or -ENOMEM. */
int slices_merge(const struct trace_slice *a, const struct trace_slice *b, slices_last_fn last_of,
		 const void *ctx, struct bytes *out);
