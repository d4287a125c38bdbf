/* SPDX-License-Identifier: Apache-2.0 */
#include "base/idmap.h"

#include <errno.h>

#include "base/memory.h"

enum { SLOTS_FIRST = 256 };

struct idmap_slot {
	uint64_t hash;
	uint32_t id_plus_1; /* 0 = empty */
};

uint32_t idmap_find(const struct idmap *map, uint64_t hash, idmap_same_fn same, const void *ctx,
		    const void *key)
{
	if (!map->slot_count)
		return IDMAP_NONE;
	size_t mask = map->slot_count - 1;
	for (size_t at = hash & mask; map->slots[at].id_plus_1; at = (at + 1) & mask) {
		uint32_t id = map->slots[at].id_plus_1 - 1;
		if (map->slots[at].hash == hash && same(ctx, id, key))
			return id;
	}
	return IDMAP_NONE;
}

static void put(struct idmap_slot *slots, size_t slot_count, struct idmap_slot slot)
{
	size_t at = slot.hash & (slot_count - 1);
	while (slots[at].id_plus_1)
		at = (at + 1) & (slot_count - 1);
	slots[at] = slot;
}

int idmap_add(struct idmap *map, uint64_t hash, uint32_t id)
{
	if (map->used * 2 >= map->slot_count) {
		size_t count = map->slot_count ? map->slot_count * 2 : SLOTS_FIRST;
		struct idmap_slot *slots = tm_alloc_array(count, sizeof *slots);
		if (!slots)
			return -ENOMEM;
		for (size_t i = 0; i < map->slot_count; i++)
			if (map->slots[i].id_plus_1)
				put(slots, count, map->slots[i]);
		tm_free(map->slots);
		map->slots = slots;
		map->slot_count = count;
	}
	put(map->slots, map->slot_count, (struct idmap_slot){.hash = hash, .id_plus_1 = id + 1});
	map->used++;
	return 0;
}

void idmap_done(struct idmap *map)
{
	tm_free(map->slots);
	*map = (struct idmap){0};
}
