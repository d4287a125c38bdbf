/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live blocks of one process while traces are merged: the number that a block
 * has in its own trace, and the one that it has in the merged one. Open
 * addressing; a block that ends makes its place free again.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct blockmap_entry {
	uint64_t old_id, new_id; /* old_id + 1; 0 = free */
	uint64_t size_bytes;
	uint32_t stack_id; /* merged */
	uint32_t mark;     /* 0; the user's own */
};

struct blockmap {
	struct blockmap_entry *slots;
	size_t room, count;
	uint64_t seed;
};

void blockmap_init(struct blockmap *map);
void blockmap_done(struct blockmap *map);
/* Replaces one of the same old_id. -ENOMEM. */
TM_MUST_CHECK int blockmap_add(struct blockmap *map, const struct blockmap_entry *entry);
/* Valid until the next add or remove. NULL: it does not live. */
struct blockmap_entry *blockmap_find(const struct blockmap *map, uint64_t old_id);
void blockmap_remove(struct blockmap *map, uint64_t old_id);
/* All, by old_id; the caller frees it. NULL: no memory. */
struct blockmap_entry *blockmap_sorted(const struct blockmap *map);
