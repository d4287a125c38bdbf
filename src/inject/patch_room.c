/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/patch_room.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"

enum { ISLANDS_MAX = 1024, GROWTHS = 2 };
#define HEAP_GROWTH  (1ull << 30) /* behind the program, or the heap if it has one */
#define STACK_GROWTH (1ull << 28) /* below the first thread's stack */
#define NEXT_BYTES   (1ull << 24) /* below a mapping: the kernel puts the next ones there */

static void take(struct patch_room *room, uint64_t start, uint64_t end)
{
	size_t at = 0;
	if (room->count == room->space)
		return;
	while (at < room->count && room->taken[at].start < start)
		at++;
	memmove(&room->taken[at + 1], &room->taken[at], (room->count - at) * sizeof *room->taken);
	room->taken[at] = (struct patch_range){start, end};
	room->count++;
}

/* The end of the mappings that follow each other from the program's code on: its data, its bss. */
static uint64_t program_end(const struct proc_maps *maps, uint64_t program)
{
	uint64_t end = 0;
	for (size_t i = 0; i < maps->count; i++)
		if (maps->maps[i].start <= program && program < maps->maps[i].end)
			end = maps->maps[i].end;
		else if (end && maps->maps[i].start == end)
			end = maps->maps[i].end;
	return end;
}

int patch_room_init(struct patch_room *room, const struct proc_maps *maps, uint64_t program)
{
	uint64_t end = program_end(maps, program);
	*room = (struct patch_room){.space = maps->count + ISLANDS_MAX + GROWTHS};
	room->taken = tm_alloc_array(room->space, sizeof *room->taken);
	if (!room->taken)
		return -ENOMEM;
	for (size_t i = 0; i < maps->count; i++)
		room->taken[room->count++] =
			(struct patch_range){maps->maps[i].start, maps->maps[i].end};
	for (size_t i = 0; i < maps->count; i++) {
		const struct proc_map *map = &maps->maps[i];
		if (!strcmp(map->path, "[heap]") && map->end > end)
			end = map->end;
		if (!strcmp(map->path, "[stack]") && map->start > STACK_GROWTH)
			take(room, map->start - STACK_GROWTH, map->start);
	}
	if (end)
		take(room, end, end + HEAP_GROWTH);
	return 0;
}

void patch_room_done(struct patch_room *room)
{
	tm_free(room->taken);
	*room = (struct patch_room){0};
}

/* Until the island is mapped the program, or the agent for itself, may map something else. */
static uint64_t find(const struct patch_room *room, const struct patch_range *within, uint64_t near,
		     size_t bytes)
{
	struct patch_range *wider = tm_alloc_array(room->count, sizeof *wider);
	uint64_t place = 0;
	for (size_t i = 0; wider && i < room->count; i++) {
		uint64_t start = room->taken[i].start;
		wider[i] = (struct patch_range){start > NEXT_BYTES ? start - NEXT_BYTES : 0,
						room->taken[i].end};
	}
	if (wider)
		place = patch_find_gap(wider, room->count, within, near, bytes);
	tm_free(wider);
	return place ? place : patch_find_gap(room->taken, room->count, within, near, bytes);
}

uint64_t patch_room_take(struct patch_room *room, const struct plan *plan)
{
	struct patch_range within = {0};
	size_t bytes = patch_island_bytes(plan);
	uint64_t place = 0;
	if (room->count < room->space && patch_reach(plan, &within.start, &within.end))
		place = find(room, &within, plan->entries[0].reloc.address, bytes);
	if (place)
		take(room, place, place + bytes);
	return place;
}
