/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sieve for names: nearly all symbols of a large program are none that anybody
 * looks for, and are told so by their first three bytes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { PLAN_SIEVE_BITS = 1 << 16 };

struct plan_sieve {
	uint64_t bits[PLAN_SIEVE_BITS / 64];
};

/* Bytes behind the name's end do not count. */
static inline uint32_t plan_sieve_slot(const char *name)
{
	uint32_t first = (uint8_t)name[0], second = first ? (uint8_t)name[1] : 0;
	uint32_t third = second ? (uint8_t)name[2] : 0;
	return (first | second << 8 | third << 16) * 0x9e3779b1u >> 16;
}

/* Lets names through that begin as this one does; all, if it is shorter than three bytes. */
static inline void plan_sieve_add(struct plan_sieve *sieve, const char *name)
{
	uint32_t slot = plan_sieve_slot(name);
	if (strnlen(name, 3) < 3)
		memset(sieve->bits, 0xff, sizeof sieve->bits);
	else
		sieve->bits[slot / 64] |= 1ull << slot % 64;
}

/* False: certainly none of those that were added, nor one that begins with one of them. */
static inline bool plan_sieve_passes(const struct plan_sieve *sieve, const char *name)
{
	uint32_t slot = plan_sieve_slot(name);
	return sieve->bits[slot / 64] >> slot % 64 & 1;
}
