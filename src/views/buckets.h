/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes and lifetimes in logarithmic buckets (docs/figures.md), each with the
 * functions that have most in it.
 */
#pragma once

#include "model/query.h"
#include "views/views.h"

enum { VIEW_BUCKET_TOPS = 3 };

struct view_bucket_top {
	const char *function; /* of a site; NULL = no name */
	const char *module;
	uint64_t count;
};
struct view_bucket {
	uint32_t bucket;
	uint64_t from, to; /* values in it, both included; bytes, or microseconds */
	uint64_t count;
	struct view_bucket_top tops[VIEW_BUCKET_TOPS]; /* the largest first */
	size_t top_count;
};
struct view_buckets {
	struct view_bucket *list; /* from the first that is used to the last, none left out */
	size_t count;
	uint64_t total;
};

/*
 * Of a query's sizes or lives. Names are borrowed from the data, the list is the caller's.
 * O(n log n). -ENOMEM.
 */
TM_MUST_CHECK int view_buckets_new(const struct view_data *data, const struct query_bucket *buckets,
				   size_t count, struct view_buckets *ret_buckets,
				   struct tm_error *err);
void view_buckets_done(struct view_buckets *buckets);
