/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/modules_seen.h"

#include <string.h>

#include "base/memory.h"
#include "wire/wire.h"

void modules_seen_init(struct modules_seen *modules)
{
	*modules = (struct modules_seen){.count = 1};
}

void modules_seen_done(struct modules_seen *modules)
{
	for (uint32_t id = 1; id < modules->count; id++)
		tm_free((char *)modules->rows[id].path);
	tm_free(modules->rows);
	tm_free(modules->dirty);
	tm_free(modules->by_instance);
	modules_seen_init(modules);
}

static bool cover_instance(struct modules_seen *modules, uint32_t instance)
{
	if (instance < modules->by_instance_count)
		return true;
	uint32_t count = modules->by_instance_count ? modules->by_instance_count : 64;
	while (count <= instance)
		count *= 2;
	uint32_t *grown = tm_grow_array(modules->by_instance, count, sizeof *grown);
	if (!grown)
		return false;
	memset(grown + modules->by_instance_count, 0,
	       (count - modules->by_instance_count) * sizeof *grown);
	modules->by_instance = grown;
	modules->by_instance_count = count;
	return true;
}

static bool make_room(struct modules_seen *modules)
{
	if (modules->count < modules->room)
		return true;
	uint32_t room = modules->room ? modules->room * 2 : 64;
	struct trace_module *rows = tm_grow_array(modules->rows, room, sizeof *rows);
	if (!rows)
		return false;
	modules->rows = rows;
	uint8_t *dirty = tm_grow_array(modules->dirty, room, 1);
	if (!dirty)
		return false;
	modules->dirty = dirty;
	modules->room = room;
	return true;
}

static void mark_dirty(struct modules_seen *modules, uint32_t id)
{
	modules->dirty_count += !modules->dirty[id];
	modules->dirty[id] = 1;
}

uint32_t modules_seen_id(struct modules_seen *modules, uint32_t instance)
{
	if (instance == WIRE_MODULE_NONE)
		return 0;
	if (instance == WIRE_MODULE_MARK)
		return TRACE_MODULE_MARK;
	if (instance > MODULES_INSTANCE_MAX)
		return 0;
	if (instance < modules->by_instance_count && modules->by_instance[instance])
		return modules->by_instance[instance];
	char *path = tm_strdup("");
	if (!path || !cover_instance(modules, instance) || !make_room(modules)) {
		modules->no_memory = true;
		tm_free(path);
		return 0;
	}
	uint32_t id = modules->count++;
	modules->rows[id] =
		(struct trace_module){.module_id = id, .unmapped_ns = UINT64_MAX, .path = path};
	modules->dirty[id] = 0;
	mark_dirty(modules, id);
	modules->by_instance[instance] = id;
	return id;
}

void modules_seen_add(struct modules_seen *modules, uint32_t instance,
		      const struct trace_module *facts, const char *path, size_t path_bytes)
{
	uint32_t id = modules_seen_id(modules, instance);
	if (!id || id == TRACE_MODULE_MARK)
		return;
	struct trace_module *row = &modules->rows[id];
	char *copy = tm_alloc(path_bytes + 1);
	if (!copy) {
		modules->no_memory = true;
		return;
	}
	memcpy(copy, path, path_bytes);
	tm_free((char *)row->path);
	uint64_t mapped_ns = row->end ? row->mapped_ns : facts->mapped_ns;
	*row = *facts;
	row->module_id = id;
	row->mapped_ns = mapped_ns;
	row->unmapped_ns = UINT64_MAX;
	row->path = copy;
	mark_dirty(modules, id);
}

void modules_seen_gone(struct modules_seen *modules, uint32_t instance, uint64_t time_ns)
{
	if (instance >= modules->by_instance_count || !modules->by_instance[instance])
		return;
	uint32_t id = modules->by_instance[instance];
	modules->rows[id].unmapped_ns = time_ns;
	mark_dirty(modules, id);
}
