/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a key to a small number, for things that are kept in an array of their
 * own: the map stores the key's hash and the index, the caller compares.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct idmap {
	struct idmap_slot *slots;
	size_t slot_count; /* a power of two, or 0 */
	size_t used;
};

/* Is the thing with this id the one that is looked for? */
typedef bool (*idmap_same_fn)(const void *ctx, uint32_t id, const void *key);

enum { IDMAP_NONE = UINT32_MAX };

/* The id, or IDMAP_NONE. */
uint32_t idmap_find(const struct idmap *map, uint64_t hash, idmap_same_fn same, const void *ctx,
		    const void *key);
/* Adds an id that is known to be absent. -ENOMEM. */
TM_MUST_CHECK int idmap_add(struct idmap *map, uint64_t hash, uint32_t id);
void idmap_done(struct idmap *map);
