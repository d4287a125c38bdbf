/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sort.h"

#include <string.h>

enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS, FEW = 32 };

static void sort_few(uint64_t *keys, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		uint64_t key = keys[i];
		size_t at = i;
		for (; at > 0 && keys[at - 1] >> 32 > key >> 32; at--)
			keys[at] = keys[at - 1];
		keys[at] = key;
	}
}

uint64_t *sort_by_upper(uint64_t *keys, uint64_t *other, size_t count)
{
	if (count <= FEW) {
		sort_few(keys, count);
		return keys;
	}
	uint64_t all = 0;
	for (size_t i = 0; i < count; i++)
		all |= keys[i];
	for (unsigned shift = 32; shift < 64 && all >> shift; shift += DIGIT_BITS) {
		size_t starts[DIGITS] = {0};
		for (size_t i = 0; i < count; i++)
			starts[keys[i] >> shift & (DIGITS - 1)]++;
		size_t sum = 0;
		for (size_t digit = 0; digit < DIGITS; digit++) {
			size_t here = starts[digit];
			starts[digit] = sum;
			sum += here;
		}
		for (size_t i = 0; i < count; i++)
			other[starts[keys[i] >> shift & (DIGITS - 1)]++] = keys[i];
		uint64_t *swap = keys;
		keys = other;
		other = swap;
	}
	return keys;
}
