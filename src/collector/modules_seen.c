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
	modules->changes++;
}

/* A row with the next id; 0 when there is no memory. Takes path over. */
static uint32_t new_row(struct modules_seen *modules, char *path)
{
	if (!path || !make_room(modules)) {
		modules->no_memory = true;
		tm_free(path);
		return 0;
	}
	uint32_t id = modules->count++;
	modules->rows[id] =
		(struct trace_module){.module_id = id, .unmapped_ns = UINT64_MAX, .path = path};
	modules->dirty[id] = 0;
	mark_dirty(modules, id);
	return id;
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
	if (!cover_instance(modules, instance)) {
		modules->no_memory = true;
		return 0;
	}
	modules->by_instance[instance] = new_row(modules, tm_strdup(""));
	return modules->by_instance[instance];
}

void modules_seen_adopt(struct modules_seen *modules, const struct trace_module *facts)
{
	uint32_t id = new_row(modules, tm_strdup(facts->path));
	if (!id)
		return;
	const char *path = modules->rows[id].path;
	modules->rows[id] = *facts;
	modules->rows[id].module_id = id;
	modules->rows[id].mapped_ns = 0;
	modules->rows[id].path = path;
	modules->adopted = id;
}

/* The child's agent numbers anew: a module that came from the parent keeps its id. */
static void recognise(struct modules_seen *modules, uint32_t instance,
		      const struct trace_module *facts, const char *path, size_t path_bytes)
{
	if (!instance || instance > MODULES_INSTANCE_MAX || !cover_instance(modules, instance) ||
	    modules->by_instance[instance])
		return;
	for (uint32_t id = 1; id <= modules->adopted; id++) {
		const struct trace_module *row = &modules->rows[id];
		if (row->bias == facts->bias && row->start == facts->start &&
		    strlen(row->path) == path_bytes && !memcmp(row->path, path, path_bytes) &&
		    !memcmp(row->build_id, facts->build_id, sizeof row->build_id))
			modules->by_instance[instance] = id;
	}
}

void modules_seen_add(struct modules_seen *modules, uint32_t instance,
		      const struct trace_module *facts, const char *path, size_t path_bytes)
{
	recognise(modules, instance, facts, path, path_bytes);
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
