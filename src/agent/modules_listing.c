/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/modules_listing.h"

enum { CAPACITY_FIRST = 128, STRING_BYTES_FIRST = 32 * 1024 };

static bool grow(struct listing *listing, uint32_t count)
{
	uint32_t capacity = listing->capacity ? listing->capacity : CAPACITY_FIRST;

	while (capacity < count)
		capacity *= 2;
	if (capacity == listing->capacity)
		return true;
	struct module *memory = listing->map(listing->ctx, capacity * sizeof *memory);
	if (!memory)
		return false;
	listing->modules = memory;
	listing->capacity = capacity;
	return true;
}

/* Copy a path into the listing. False: no memory. */
static bool keep_path(struct listing *listing, struct module *module)
{
	uint32_t bytes = module->path_bytes + 1;

	if (bytes > listing->string_bytes - listing->strings_used) {
		/* Paths kept so far stay where they are: memory is never given back. */
		uint32_t next =
			listing->string_bytes ? listing->string_bytes * 2 : STRING_BYTES_FIRST;
		char *strings = listing->map(listing->ctx, next);
		if (!strings)
			return false;
		listing->strings = strings;
		listing->string_bytes = next;
		listing->strings_used = 0;
	}
	char *copy = listing->strings + listing->strings_used;
	__builtin_memcpy(copy, module->path, bytes);
	listing->strings_used += bytes;
	module->path = copy;
	return true;
}

bool listing_same_object(const struct module *a, const struct module *b)
{
	return a->bias == b->bias && a->start == b->start && a->end == b->end &&
	       a->flags == b->flags && a->headers_hash == b->headers_hash &&
	       a->build_id_bytes == b->build_id_bytes && a->path_bytes == b->path_bytes &&
	       __builtin_memcmp(a->build_id, b->build_id, a->build_id_bytes) == 0 &&
	       __builtin_memcmp(a->path, b->path, a->path_bytes) == 0;
}

const struct module *listing_seek(const struct listing *listing, uint32_t *at, uintptr_t start)
{
	while (*at < listing->count && listing->modules[*at].start < start)
		(*at)++;
	if (*at == listing->count || listing->modules[*at].start != start)
		return NULL;
	return &listing->modules[*at];
}

/* Where the header of the object around key was; *at moves on from call to call. */
static uintptr_t header_hint(const struct listing *old, uint32_t *at, uintptr_t key)
{
	while (*at < old->count && old->modules[*at].end <= key)
		(*at)++;
	return *at < old->count && old->modules[*at].start <= key ? old->modules[*at].header : 0;
}

bool listing_read(struct listing *ret, struct scan *scan, const struct scan_list *sorted,
		  const struct listing *old)
{
	uint32_t at = 0;

	ret->count = 0;
	ret->strings_used = 0;
	if (!grow(ret, sorted->count))
		return false;
	for (uint32_t i = 0; i < sorted->count; i++) {
		struct module *module = &ret->modules[ret->count];
		uintptr_t hint = header_hint(old, &at, sorted->entries[i].key);
		if (!scan_read(scan, &sorted->entries[i], hint, module))
			continue;
		/* Overlap cannot be: one of the two is a stale or false entry. */
		if (ret->count && module->start < module[-1].end)
			continue;
		if (!keep_path(ret, module))
			return false;
		ret->count++;
	}
	return true;
}

/* Append a copy of an object. False: no memory. */
static bool append(struct listing *listing, const struct module *module)
{
	struct module *copy = &listing->modules[listing->count];

	*copy = *module;
	if (!keep_path(listing, copy))
		return false;
	listing->count++;
	return true;
}

bool listing_merge(struct listing *ret, const struct listing *old, const struct module *module)
{
	bool placed = false;

	ret->count = 0;
	ret->strings_used = 0;
	if (!grow(ret, old->count + 1))
		return false;
	for (uint32_t i = 0; i < old->count; i++) {
		const struct module *other = &old->modules[i];
		if (!placed && other->start >= module->start) {
			placed = true;
			if (!append(ret, module))
				return false;
		}
		bool overlaps = other->start < module->end && module->start < other->end;
		if (!overlaps && !append(ret, other))
			return false;
	}
	return placed || append(ret, module);
}
