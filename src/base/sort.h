/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorting with a context, which POSIX has not (qsort_r differs between systems).
 * In place, O(n log n) always; equal elements end in any order. Thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef int (*sort_compare_fn)(const void *left, const void *right, void *ctx);

void sort_array(void *array, size_t count, size_t bytes, sort_compare_fn compare, void *ctx);
/*
 * By the uint64_t that each element begins with; equal ones stay in order. `room` is as large as
 * the array. O(n) for each byte in which keys differ: for large arrays of numbers near each other.
 */
void sort_by_number(void *array, size_t count, size_t bytes, void *room);
/* Only the `first` smallest, in order, at the front; the others after them in any. O(n log first)
 */
void sort_array_first(void *array, size_t count, size_t first, size_t bytes,
		      sort_compare_fn compare, void *ctx);
