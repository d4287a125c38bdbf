/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code ranges of one compilation unit: its functions, and what was inlined
 * into each. Made by one walk over the unit's entries, then searched.
 */
#pragma once

#include <elfutils/libdw.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct scope {
	uint64_t low, high; /* [low, high) */
	uint32_t depth;     /* 0 = the function itself, then what is inlined into it, and so on */
	Dwarf_Off die;
};

struct scopes {
	struct scope *list; /* each function is followed by all that is inlined into it */
	size_t count, room;
	struct scopes_function *functions; /* sorted by address */
	size_t function_count, function_room;
};

/* Entries that a damaged or absurd file may make us keep for one unit. */
enum { SCOPES_MAX = 4 * 1024 * 1024, SCOPES_DEPTH_MAX = 256 };

/* -ENOMEM, -EFBIG. O(entries of the unit). */
TM_MUST_CHECK int scopes_init(struct scopes *scopes, Dwarf_Die *unit);
void scopes_done(struct scopes *scopes);
size_t scopes_bytes(const struct scopes *scopes);

/*
 * The scopes that contain the address, outermost (the function itself) first;
 * at most max. Returns how many.
 */
size_t scopes_find(const struct scopes *scopes, uint64_t address, const struct scope **ret_scopes,
		   size_t max);
