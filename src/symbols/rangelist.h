/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of addresses, which may overlap, and whose they are. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct rangelist {
	struct rangelist_entry *list;
	size_t count, room;
};

/* -ENOMEM. */
TM_MUST_CHECK int rangelist_add(struct rangelist *ranges, uint64_t low, uint64_t high,
				uint32_t owner);
/* After the last was added, before the first question. */
void rangelist_sort(struct rangelist *ranges);
void rangelist_done(struct rangelist *ranges);
/* The owners of the ranges with the address, the nearest begin first; at most max. Returns how
 * many.
 */
size_t rangelist_find(const struct rangelist *ranges, uint64_t address, uint32_t *ret_owners,
		      size_t max);
