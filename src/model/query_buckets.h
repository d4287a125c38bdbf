/* SPDX-License-Identifier: Apache-2.0 */
/* Counts by stack and bucket while an answer is made. */
#pragma once

#include "base/error.h"
#include "model/query.h"

struct bucket_set {
	struct bucket_cell *cells;
	size_t room, count;
};

/* Counts add up modulo 2^64. 0 or -ENOMEM. */
TM_MUST_CHECK int buckets_add(struct bucket_set *set, uint32_t stack_id, uint32_t bucket,
			      uint64_t count);
/* Adds all of `from`. 0 or -ENOMEM. */
TM_MUST_CHECK int buckets_merge(struct bucket_set *set, const struct bucket_set *from);
/* Sorted, without zeros; empties the set. 0 or -ENOMEM. */
TM_MUST_CHECK int buckets_finish(struct bucket_set *set, struct query_bucket **ret,
				 size_t *ret_count);
void buckets_done(struct bucket_set *set);
