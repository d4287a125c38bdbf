/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers for pairs of size and stack, from 0 in order of appearance. Memory is
 * bounded: when it is full all pairs are forgotten, and get new numbers when they
 * come again. A number never has two meanings.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIZES_KEPT_MAX = 1 << 19 };

struct sizes { /* start with {0} */
	struct sizes_slot *slots;
	size_t room, used; /* room: a power of two, or 0 */
	uint32_t next;
};

/* -ENOMEM; -EOVERFLOW after 2^32 numbers. */
TM_MUST_CHECK int sizes_number(struct sizes *sizes, uint64_t size_bytes, uint32_t stack,
			       uint32_t *ret_number, bool *ret_new);
void sizes_done(struct sizes *sizes);
