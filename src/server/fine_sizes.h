/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes in steps finer than the steps of two that a trace has sums of: eight per
 * doubling, so 64, 72, 80 ... 120, 128, 144 ... Reads the events of the range.
 */
#pragma once

#include "server/api_select.h"

enum { FINE_STEPS = 8 };

struct fine_size {
	uint32_t bucket;
	uint32_t stack_id;
	uint64_t count;
};

/* Sorted by stack, then bucket; tm_free() it. -ENOMEM, -ECANCELED, -EIO. */
TM_MUST_CHECK int fine_sizes(const struct call *call, const struct selection *selection,
			     struct fine_size **ret_sizes, size_t *ret_count, struct tm_error *err);
/* The sizes of a bucket. */
uint64_t fine_least(uint32_t bucket);
uint64_t fine_most(uint32_t bucket);
uint32_t fine_bucket(uint64_t bytes);
