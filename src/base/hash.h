/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixing for hash tables: every bit of the input moves about half the bits of
 * the result. Not for secrets, and not stable between versions: never store it.
 * Freestanding-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Multiply to 128 bits and fold: both halves depend on all input bits. */
static inline uint64_t hash_fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t hash_u64(uint64_t value)
{
	uint64_t mixed = hash_fold(value ^ 0x6a09e667f3bcc909ull, 0x9e3779b97f4a7c15ull);
	return hash_fold(mixed, 0xc2b2ae3d27d4eb4full);
}

/* Order matters: hash_pair(a, b) is not hash_pair(b, a). */
static inline uint64_t hash_pair(uint64_t first, uint64_t second)
{
	return hash_u64(hash_u64(first) + second);
}

static inline uint64_t hash_bytes(const void *data, size_t bytes)
{
	const uint8_t *in = data;
	uint64_t hash = hash_u64(bytes);
	while (bytes > 0) {
		uint64_t word = 0;
		size_t part = bytes < 8 ? bytes : 8;
		for (size_t i = 0; i < part; i++)
			word |= (uint64_t)in[i] << (8 * i);
		hash = hash_fold(hash ^ word, 0x9e3779b97f4a7c15ull);
		in += part;
		bytes -= part;
	}
	return hash_u64(hash);
}
