/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/namemap.h"

#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

enum { SLOTS_FIRST = 1024, SLOTS_MAX = 1 << 20 };

void namemap_done(struct namemap *map)
{
	tm_free(map->slots);
	*map = (struct namemap){0};
}

/* Where the key is, or where it belongs. */
static size_t find_slot(const struct namemap *map, uint64_t key)
{
	size_t mask = map->slot_count - 1, at = hash_u64(key) & mask;
	while (map->slots[at].name && map->slots[at].key != key)
		at = (at + 1) & mask;
	return at;
}

const struct namemap_entry *namemap_find(const struct namemap *map, uint64_t key)
{
	if (!map->slot_count)
		return NULL;
	const struct namemap_entry *found = &map->slots[find_slot(map, key)];
	return found->name ? found : NULL;
}

static bool make_room(struct namemap *map)
{
	if (map->used * 2 < map->slot_count)
		return true;
	if (map->slot_count == SLOTS_MAX) {
		memset(map->slots, 0, map->slot_count * sizeof *map->slots);
		map->used = 0;
		return true;
	}
	struct namemap grown = {.slot_count = map->slot_count ? map->slot_count * 2 : SLOTS_FIRST};
	grown.slots = tm_alloc_array(grown.slot_count, sizeof *grown.slots);
	if (!grown.slots)
		return false;
	for (size_t i = 0; i < map->slot_count; i++)
		if (map->slots[i].name)
			grown.slots[find_slot(&grown, map->slots[i].key)] = map->slots[i];
	grown.used = map->used;
	tm_free(map->slots);
	*map = grown;
	return true;
}

void namemap_put(struct namemap *map, struct namemap_entry entry)
{
	if (!make_room(map))
		return;
	map->slots[find_slot(map, entry.key)] = entry;
	map->used++;
}
