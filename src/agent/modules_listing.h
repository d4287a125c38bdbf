/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts of all objects by rising address, and their paths. Internal to
 * modules*.c; used by one rescan at a time.
 */
#pragma once

#include "agent/modules_scan.h"

struct listing {
	module_map_fn map;
	void *ctx;
	struct module *modules;
	uint32_t count;
	uint32_t capacity;
	char *strings;
	uint32_t strings_used;
	uint32_t string_bytes;
};

/*
 * Read all objects of a sorted list; old says where their headers were. What is
 * no readable object is left out. False: no memory.
 */
bool listing_read(struct listing *ret, struct scan *scan, const struct scan_list *sorted,
		  const struct listing *old);

/* old with one object put in, and without those it overlaps. False: no memory. */
bool listing_merge(struct listing *ret, const struct listing *old, const struct module *module);

/* Is it the same object in the same place? */
bool listing_same_object(const struct module *a, const struct module *b);

/*
 * The object that begins at start, or NULL. *at moves on from call to call:
 * first 0, then with rising start.
 */
const struct module *listing_seek(const struct listing *listing, uint32_t *at, uintptr_t start);
