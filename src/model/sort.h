/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Sort by the upper 32 bits, stable, in O(count). `other` has room for as many; returns the sorted
 * one. */
uint64_t *sort_by_upper(uint64_t *keys, uint64_t *other, size_t count);
