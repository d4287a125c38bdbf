/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of variable length: LEB128 (seven bits per byte, low ones first, the
 * top bit says that more follow) and zigzag for signed values. Decoding never
 * reads beyond the bytes it is given. Freestanding-safe, so the few lines of
 * code are here and not in a .c file.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { VARINT_BYTES_MAX = 10 };

/* Write value to out, which has room for VARINT_BYTES_MAX. The number of bytes written. */
static inline size_t varint_put(uint8_t *out, uint64_t value)
{
	size_t length = 0;
	while (value >= 0x80) {
		out[length++] = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	out[length++] = (uint8_t)value;
	return length;
}

/*
 * Read one number from the first `bytes` bytes at `in`. The number of bytes it
 * took; 0 if it is cut off or does not fit 64 bits, and *ret_value is untouched.
 */
static inline size_t varint_get(const uint8_t *in, size_t bytes, uint64_t *ret_value)
{
	uint64_t value = 0;
	for (size_t i = 0; i < bytes && i < VARINT_BYTES_MAX; i++) {
		if (i == VARINT_BYTES_MAX - 1 && in[i] > 1)
			return 0;
		value |= (uint64_t)(in[i] & 0x7f) << (7 * i);
		if (!(in[i] & 0x80)) {
			*ret_value = value;
			return i + 1;
		}
	}
	return 0;
}

/* The number of bytes varint_put() would write. */
static inline size_t varint_length(uint64_t value)
{
	return (size_t)(63 - __builtin_clzll(value | 1)) / 7 + 1;
}

/* Signed to unsigned so that small magnitudes stay small: 0, -1, 1, -2 become 0, 1, 2, 3. */
static inline uint64_t varint_zigzag(int64_t value)
{
	return ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0);
}

static inline int64_t varint_unzigzag(uint64_t value)
{
	return (int64_t)((value >> 1) ^ (0 - (value & 1)));
}
