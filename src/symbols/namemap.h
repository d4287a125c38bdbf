/* SPDX-License-Identifier: Apache-2.0 */
/* A cache from a number (an offset, an address) to a name; forgets all when it is full. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct namemap_entry {
	uint64_t key;
	const char *name; /* NULL = empty */
	bool flag;        /* the caller's */
};

struct namemap {
	struct namemap_entry *slots;
	size_t slot_count, used;
};

void namemap_done(struct namemap *map);
/* NULL if it is not there. Valid until the next namemap_put(). */
const struct namemap_entry *namemap_find(const struct namemap *map, uint64_t key);
/* Keeps an entry that is not there; without memory it is simply not kept. */
void namemap_put(struct namemap *map, struct namemap_entry entry);
