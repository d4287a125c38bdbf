/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorting with a context, which POSIX has not (qsort_r differs between systems).
 * In place, O(n log n) always; equal elements end in any order. Thread-safe.
 */
#pragma once

#include <stddef.h>

typedef int (*sort_compare_fn)(const void *left, const void *right, void *ctx);

void sort_array(void *array, size_t count, size_t bytes, sort_compare_fn compare, void *ctx);
/* Only the `first` smallest, in order, at the front; the others after them in any. O(n log first)
 */
void sort_array_first(void *array, size_t count, size_t first, size_t bytes,
		      sort_compare_fn compare, void *ctx);
