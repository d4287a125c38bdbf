/* SPDX-License-Identifier: Apache-2.0 */
/* Which objects have entry points, where their islands lie, and what is written down of it. */
#include "inject/state.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

enum {
	PLACE_TRIES = 16,
	HEAP_ROOM = 1 << 30, /* above [heap] and below [stack]: there they grow */
	LOWEST_ADDRESS = 0x10000,
};

/* ---- plans ---- */

static struct inject_object *find_object(struct inject *inject, const struct object *object)
{
	for (size_t i = 0; i < inject->object_count; i++)
		if (inject->objects[i].bias == object->bias &&
		    inject->objects[i].inode == object->inode)
			return &inject->objects[i];
	return NULL;
}

static struct inject_object *add_object(struct inject *inject, const struct object *object)
{
	if (inject->object_count == inject->object_room) {
		size_t room = inject->object_room ? inject->object_room * 2 : 32;
		struct inject_object *grown = tm_grow_array(inject->objects, room, sizeof *grown);
		if (!grown)
			return NULL;
		inject->objects = grown;
		inject->object_room = room;
	}
	struct inject_object *added = &inject->objects[inject->object_count++];
	*added = (struct inject_object){.bias = object->bias,
					.start = object->start,
					.end = object->end,
					.inode = object->inode,
					.code_end = object->code_end,
					.path = tm_strdup(object->path)};
	return added->path ? added : NULL;
}

static void note_unhooked(struct inject *inject, const struct inject_object *object)
{
	const struct plan *plan = object->plan;
	if (plan->refusal_count && !*inject->unhooked)
		snprintf(inject->unhooked, sizeof inject->unhooked,
			 "Not hooked: %.60s in %.80s (%.150s)%s", plan->refusals[0].name,
			 object->path, plan->refusals[0].reason,
			 plan->refusal_count > 1 ? ", and others" : "");
	inject->facts.refused += plan->refusal_count;
	inject->facts.functions += plan->entry_count;
}

static int plan_object(struct inject *inject, const struct proc_maps *maps,
		       const struct object *object, struct tm_error *err)
{
	struct inject_object *added = add_object(inject, object);
	if (!added)
		return tm_fail(err, -ENOMEM, "out of memory");
	const struct proc_map *map = proc_maps_find(maps, object->start);
	int fd = map ? objects_open(inject->facts.pid, inject->tid, map) : -ENOENT;
	if (fd < 0)
		return 0;
	struct plan_source source = {.fd = fd,
				     .bias = object->bias,
				     .what = PLAN_ALL | PLAN_SYSTEM,
				     .hooks = inject->options.hooks};
	struct tm_error why = {0};
	int error = plan_new(&source, &added->plan, &why);
	struct plan *unload = inject->has_unload ? NULL : unload_plan(fd, object->bias);
	close(fd);
	if (error == -ENOMEM)
		return tm_fail(err, error, "out of memory");
	if (error)
		added->plan = NULL; /* not a file that has entry points */
	else
		note_unhooked(inject, added);
	if (unload) { /* an object of its own: its island is made otherwise */
		added = add_object(inject, object);
		if (!added) {
			plan_free(unload);
			return tm_fail(err, -ENOMEM, "out of memory");
		}
		added->plan = unload;
		added->unload = inject->has_unload = true;
	}
	return 0;
}

static int place(struct inject *inject, struct inject_object *object, uint64_t address,
		 struct patch_set **ret, struct tm_error *err)
{
	return object->unload ? unload_place(inject, object->plan, address, ret)
			      : patch_place(object->plan, address, inject->glue, ret, err);
}

int islands_maps(struct inject *inject, struct proc_maps *ret)
{
	int error = proc_maps_read(inject->facts.pid, inject->tid, ret);
	if (!error)
		return 0;
	pid_t alive = proc_live_thread(inject->facts.pid); /* that one has just ended */
	if (!alive)
		return error;
	inject->tid = alive;
	return proc_maps_read(inject->facts.pid, alive, ret);
}

int islands_plan(struct inject *inject, struct tm_error *err)
{
	struct proc_maps maps;
	struct objects objects;
	int found = 0;
	int error = islands_maps(inject, &maps);
	if (error)
		return tm_fail(err, error, "cannot read what process %d has mapped: %s",
			       (int)inject->facts.pid, strerror(-error));
	error = objects_find(inject->facts.pid, inject->tid, &maps, &objects, err);
	for (size_t i = 0; !error && i < objects.count; i++) {
		if (find_object(inject, &objects.list[i]))
			continue;
		error = plan_object(inject, &maps, &objects.list[i], err);
		const struct inject_object *last = &inject->objects[inject->object_count - 1];
		found += !error && last->plan && last->plan->entry_count;
	}
	if (!error)
		objects_done(&objects);
	proc_maps_done(&maps);
	return error ? error : found;
}

/* ---- places ---- */

/* What is mapped, with room where things grow. */
static struct patch_range *taken_ranges(const struct proc_maps *maps)
{
	struct patch_range *ranges = tm_alloc_array(maps->count + 1, sizeof *ranges);
	for (size_t i = 0; ranges && i < maps->count; i++) {
		const struct proc_map *map = &maps->maps[i];
		ranges[i] = (struct patch_range){.start = map->start, .end = map->end};
		if (!strcmp(map->path, "[heap]"))
			ranges[i].end += HEAP_ROOM;
		if (!strcmp(map->path, "[stack]"))
			ranges[i].start -= HEAP_ROOM;
	}
	return ranges;
}

static int choose_place(struct inject *inject, const struct plan *plan, uint64_t *ret,
			struct tm_error *err)
{
	struct proc_maps maps;
	struct patch_range within = {0};
	int error = islands_maps(inject, &maps);
	if (error)
		return tm_fail(err, error, "process %d has ended", (int)inject->facts.pid);
	struct patch_range *ranges = taken_ranges(&maps);
	bool reached = patch_reach(plan, &within.start, &within.end);
	uint64_t place = 0;
	if (within.start < LOWEST_ADDRESS)
		within.start = LOWEST_ADDRESS;
	if (ranges && reached)
		place = patch_find_gap(ranges, maps.count, &within, plan->entries[0].reloc.address,
				       patch_island_bytes(plan));
	tm_free(ranges);
	proc_maps_done(&maps);
	if (!place)
		return tm_fail(err, -ENOSPC,
			       "there is no free memory within 2 GiB of the allocator of process "
			       "%d",
			       (int)inject->facts.pid);
	*ret = place;
	return 0;
}

/* The island of an earlier session that still has exactly the bytes it would get now. */
static bool reuse_island(struct inject *inject, struct inject_object *object)
{
	struct wire_attach_range islands[WIRE_ATTACH_ISLANDS];
	uint32_t count = 0;
	if (session_read(inject, offsetof(struct wire_attach_block, island_count), &count,
			 sizeof count) ||
	    count > WIRE_ATTACH_ISLANDS ||
	    session_read(inject, offsetof(struct wire_attach_block, islands), islands,
			 sizeof islands))
		return false;
	for (uint32_t i = 0; i < count; i++) {
		struct patch_set *set = NULL;
		struct tm_error ignored = {0};
		if (islands[i].end - islands[i].start != patch_island_bytes(object->plan) ||
		    place(inject, object, islands[i].start, &set, &ignored))
			continue;
		uint8_t *now = tm_alloc(set->island_bytes);
		bool same = now &&
			    !remote_read(inject->memory_fd, set->address, now, set->island_bytes) &&
			    !memcmp(now, set->island, set->island_bytes);
		tm_free(now);
		if (same) {
			object->set = set;
			return true;
		}
		patch_set_free(set);
	}
	return false;
}

/* Another thread's mapping may come in between: look again. */
static int map_place(struct inject *inject, const struct plan *plan, uint64_t *ret_place,
		     struct tm_error *err)
{
	size_t bytes = patch_island_bytes(plan);
	for (int i = 0; i < PLACE_TRIES; i++) {
		uint64_t place = 0;
		int64_t result = 0;
		int error = choose_place(inject, plan, &place, err);
		if (!error && steps_race(&inject->stop.steps, "island"))
			error = remote_order(&inject->remote, WIRE_ATTACH_MAP, place, bytes,
					     &result, err);
		if (!error)
			error = remote_order(&inject->remote, WIRE_ATTACH_MAP, place, bytes,
					     &result, err);
		if (error)
			return error;
		if (!result) {
			*ret_place = place;
			return 0;
		}
		if (result != -EEXIST)
			return tm_fail(err, (int)result, "process %d cannot map %zu bytes: %s",
				       (int)inject->facts.pid, bytes, strerror((int)-result));
	}
	return tm_fail(err, -EEXIST,
		       "process %d maps memory faster than a free place can be taken; try again",
		       (int)inject->facts.pid);
}

static int note_island(struct inject *inject, const struct patch_set *set, struct tm_error *err)
{
	uint32_t count = 0;
	struct wire_attach_range range = {set->address, set->address + set->island_bytes};
	int error = session_read(inject, offsetof(struct wire_attach_block, island_count), &count,
				 sizeof count);
	if (!error && count >= WIRE_ATTACH_ISLANDS)
		return tm_fail(err, -ENOSPC,
			       "process %d has loaded so many allocators that no more can be "
			       "followed",
			       (int)inject->facts.pid);
	if (!error)
		error = session_write(
			inject, offsetof(struct wire_attach_block, islands) + count * sizeof range,
			&range, sizeof range);
	count++;
	if (!error)
		error = session_write(inject, offsetof(struct wire_attach_block, island_count),
				      &count, sizeof count);
	return error ? tm_fail(err, error, "process %d has ended", (int)inject->facts.pid) : 0;
}

static int map_island(struct inject *inject, struct inject_object *object, struct tm_error *err)
{
	uint64_t address = 0;
	if (reuse_island(inject, object))
		return object->unload ? unload_tell(inject, object->set) : 0;
	int error = map_place(inject, object->plan, &address, err);
	if (!error)
		error = place(inject, object, address, &object->set, err);
	if (error)
		return error;
	error = remote_write(inject->memory_fd, address, object->set->island,
			     object->set->island_bytes);
	if (!error && object->unload)
		error = unload_tell(inject, object->set);
	if (error)
		return tm_fail(err, error, "cannot write to the memory of process %d: %s",
			       (int)inject->facts.pid, strerror(-error));
	return note_island(inject, object->set, err);
}

int islands_map(struct inject *inject, struct tm_error *err)
{
	int error = 0;
	for (size_t i = 0; !error && i < inject->object_count; i++) {
		struct inject_object *object = &inject->objects[i];
		if (object->plan && object->plan->entry_count && !object->set)
			error = map_island(inject, object, err);
	}
	return error;
}

/* ---- writing it down ---- */

struct notes {
	struct wire_attach_patch patches[WIRE_ATTACH_PATCHES];
	struct wire_attach_range ranges[WIRE_ATTACH_RANGES];
	uint32_t patch_count, range_count;
};

static bool put_patch(struct notes *notes, const struct patch *patch)
{
	struct wire_attach_patch note = {
		.address = patch->address, .bytes = RELOC_PATCH_BYTES, .in_place = 1};
	if (notes->patch_count == WIRE_ATTACH_PATCHES)
		return false;
	memcpy(note.old, patch->old, sizeof patch->old);
	memcpy(note.new, patch->new, sizeof patch->new);
	notes->patches[notes->patch_count++] = note;
	return true;
}

static bool put_object(struct notes *notes, const struct inject_object *object)
{
	for (size_t i = 0; i < object->set->count; i++)
		if (!put_patch(notes, &object->set->patches[i]))
			return false;
	if (notes->range_count < WIRE_ATTACH_RANGES && !object->unload)
		notes->ranges[notes->range_count++] =
			(struct wire_attach_range){object->start, object->end};
	return true;
}

static int write_notes(struct inject *inject, const struct notes *notes)
{
	int error = session_write(inject, offsetof(struct wire_attach_block, patches),
				  notes->patches, notes->patch_count * sizeof notes->patches[0]);
	if (!error)
		error = session_write(inject, offsetof(struct wire_attach_block, ranges),
				      notes->ranges, sizeof notes->ranges);
	if (!error)
		error = session_write(inject, offsetof(struct wire_attach_block, range_count),
				      &notes->range_count, sizeof notes->range_count);
	/* Last: what it counts is there. */
	if (!error)
		error = session_write(inject, offsetof(struct wire_attach_block, patch_count),
				      &notes->patch_count, sizeof notes->patch_count);
	return error;
}

int islands_note(struct inject *inject, struct tm_error *err)
{
	struct notes *notes = tm_alloc(sizeof *notes);
	if (!notes)
		return tm_fail(err, -ENOMEM, "out of memory");
	bool fits = true;
	for (size_t i = 0; fits && i < inject->object_count; i++)
		if (inject->objects[i].set)
			fits = put_object(notes, &inject->objects[i]);
	int error = fits ? write_notes(inject, notes) : -ENOSPC;
	tm_free(notes);
	if (error == -ENOSPC)
		return tm_fail(err, error, "process %d has more than %d entry points to allocators",
			       (int)inject->facts.pid, WIRE_ATTACH_PATCHES);
	return error ? tm_fail(err, error, "process %d has ended", (int)inject->facts.pid) : 0;
}
