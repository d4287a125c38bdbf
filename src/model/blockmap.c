/* SPDX-License-Identifier: Apache-2.0 */
#include "model/blockmap.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/memory.h"
#include "model/seed.h"

enum { GROUP_BITS = 4 };

void blockmap_init(struct blockmap *map)
{
	*map = (struct blockmap){.seed = seed_make(map)};
}

void blockmap_done(struct blockmap *map)
{
	map->slots = tm_free(map->slots);
	map->room = map->count = 0;
}

/* Neighbours stay neighbours: most blocks end soon after they began, beside others of their age. */
static size_t home(const struct blockmap *map, uint64_t old_id)
{
	uint64_t group = hash_u64((old_id >> GROUP_BITS) ^ map->seed) << GROUP_BITS;
	return (size_t)(group | (old_id & ((1u << GROUP_BITS) - 1))) & (map->room - 1);
}

/* The slot that has it, or the free one where it belongs. */
static struct blockmap_entry *slot_of(const struct blockmap *map, uint64_t old_id)
{
	size_t at = home(map, old_id);
	while (map->slots[at].old_id && map->slots[at].old_id != old_id + 1)
		at = (at + 1) & (map->room - 1);
	return &map->slots[at];
}

static int grow(struct blockmap *map)
{
	if (map->count + 1 < map->room / 8 * 5)
		return 0;
	struct blockmap old = *map;
	size_t room = old.room ? old.room * 2 : 256;
	struct blockmap_entry *slots = tm_alloc_array(room, sizeof *slots);
	if (!slots)
		return -ENOMEM;
	map->slots = slots;
	map->room = room;
	for (size_t i = 0; i < old.room; i++)
		if (old.slots[i].old_id)
			*slot_of(map, old.slots[i].old_id - 1) = old.slots[i];
	tm_free(old.slots);
	return 0;
}

int blockmap_add(struct blockmap *map, const struct blockmap_entry *entry)
{
	if (grow(map))
		return -ENOMEM;
	struct blockmap_entry *slot = slot_of(map, entry->old_id);
	map->count += !slot->old_id;
	*slot = *entry;
	slot->old_id++;
	return 0;
}

struct blockmap_entry *blockmap_find(const struct blockmap *map, uint64_t old_id)
{
	if (!map->room || old_id == UINT64_MAX)
		return NULL;
	struct blockmap_entry *slot = slot_of(map, old_id);
	return slot->old_id ? slot : NULL;
}

void blockmap_remove(struct blockmap *map, uint64_t old_id)
{
	struct blockmap_entry *slot = blockmap_find(map, old_id);
	if (!slot)
		return;
	size_t hole = (size_t)(slot - map->slots), at = hole;
	map->count--;
	/* Whatever stands behind the hole and would be looked for from before it moves up. */
	for (;;) {
		map->slots[hole].old_id = 0;
		for (;;) {
			at = (at + 1) & (map->room - 1);
			if (!map->slots[at].old_id)
				return;
			size_t wanted = home(map, map->slots[at].old_id - 1);
			if (((at - wanted) & (map->room - 1)) >= ((at - hole) & (map->room - 1)))
				break;
		}
		map->slots[hole] = map->slots[at];
		hole = at;
	}
}

static int by_old_id(const void *a, const void *b)
{
	uint64_t x = ((const struct blockmap_entry *)a)->old_id;
	uint64_t y = ((const struct blockmap_entry *)b)->old_id;
	return x < y ? -1 : x > y;
}

struct blockmap_entry *blockmap_sorted(const struct blockmap *map)
{
	struct blockmap_entry *list = tm_alloc_array(map->count + 1, sizeof *list);
	size_t used = 0;
	for (size_t i = 0; list && i < map->room; i++)
		if (map->slots[i].old_id) {
			list[used] = map->slots[i];
			list[used++].old_id--;
		}
	if (list)
		qsort(list, used, sizeof *list, by_old_id);
	return list;
}
