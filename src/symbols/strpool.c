/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interned strings: an open-addressing table of pointers into a list of slabs.
 * Nothing is ever taken out, so a pointer stays valid until the pool goes.
 */
#include "symbols/strpool.h"

#include <stdint.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

enum { SLAB_BYTES = 64 * 1024, SLOTS_FIRST = 1024 };

struct slab {
	struct slab *next;
	size_t used, room;
	char text[];
};

struct slot {
	const char *text; /* NULL = empty */
	uint32_t hash;
	uint32_t bytes;
};

struct strpool {
	struct slab *slabs;
	struct slot *slots;
	size_t slot_count; /* a power of two */
	size_t used;
};

struct strpool *strpool_new(void)
{
	struct strpool *pool = tm_alloc(sizeof *pool);
	if (!pool)
		return NULL;
	pool->slot_count = SLOTS_FIRST;
	pool->slots = tm_alloc_array(pool->slot_count, sizeof *pool->slots);
	return pool->slots ? pool : strpool_free(pool);
}

struct strpool *strpool_free(struct strpool *pool)
{
	if (!pool)
		return NULL;
	for (struct slab *slab = pool->slabs, *next; slab; slab = next) {
		next = slab->next;
		tm_free(slab);
	}
	tm_free(pool->slots);
	return tm_free(pool);
}

static int grow_slots(struct strpool *pool)
{
	size_t count = pool->slot_count * 2;
	struct slot *slots = tm_alloc_array(count, sizeof *slots);
	if (!slots)
		return -1;
	for (size_t i = 0; i < pool->slot_count; i++) {
		if (!pool->slots[i].text)
			continue;
		size_t at = pool->slots[i].hash & (count - 1);
		while (slots[at].text)
			at = (at + 1) & (count - 1);
		slots[at] = pool->slots[i];
	}
	tm_free(pool->slots);
	pool->slots = slots;
	pool->slot_count = count;
	return 0;
}

/* A string is kept with its number before it and its terminator behind. */
static char *store(struct strpool *pool, const char *text, size_t bytes)
{
	struct slab *slab = pool->slabs;
	uint32_t number = (uint32_t)pool->used;
	size_t needed = sizeof number + bytes + 1;
	if (!slab || slab->room - slab->used < needed) {
		size_t room = needed > SLAB_BYTES ? needed : SLAB_BYTES;
		slab = tm_alloc(sizeof *slab + room);
		if (!slab)
			return NULL;
		slab->room = room;
		slab->next = pool->slabs;
		pool->slabs = slab;
	}
	char *copy = slab->text + slab->used + sizeof number;
	memcpy(copy - sizeof number, &number, sizeof number);
	memcpy(copy, text, bytes);
	copy[bytes] = '\0';
	slab->used += needed;
	return copy;
}

uint32_t strpool_number(const char *text)
{
	uint32_t number;
	memcpy(&number, text - sizeof number, sizeof number);
	return number;
}

const char *strpool_intern(struct strpool *pool, const char *text, size_t bytes)
{
	if (bytes > UINT32_MAX / 2 || pool->used == UINT32_MAX ||
	    (pool->used * 2 >= pool->slot_count && grow_slots(pool)))
		return NULL;
	uint32_t hash = (uint32_t)hash_bytes(text, bytes);
	size_t at = hash & (pool->slot_count - 1);
	for (; pool->slots[at].text; at = (at + 1) & (pool->slot_count - 1)) {
		const struct slot *slot = &pool->slots[at];
		if (slot->hash == hash && slot->bytes == bytes && !memcmp(slot->text, text, bytes))
			return slot->text;
	}
	char *copy = store(pool, text, bytes);
	if (!copy)
		return NULL;
	pool->slots[at] = (struct slot){.text = copy, .hash = hash, .bytes = (uint32_t)bytes};
	pool->used++;
	return copy;
}
