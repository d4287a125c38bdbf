/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/patching.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "collector/loader.h"
#include "inject/patch.h"
#include "inject/patch_room.h"
#include "inject/proc.h"

enum { MODULES_MAX = 1024 };

/* While the patches of one process are computed. */
struct work {
	const struct patching_options *options;
	struct patching *result;
	struct proc_maps maps;
	struct patch_room room;
	struct text block; /* behind struct wire_patches */
	uint32_t islands;
	struct patching_module *modules; /* that were looked at, now and before */
	size_t module_count;
	dev_t program_device;
	ino_t program_inode;
	bool is_loader; /* which was called by its name; the program is another file */
};

void patching_refuse(char unhooked[PATCHING_UNHOOKED_BYTES], const char *name, const char *reason)
{
	size_t at = strlen(unhooked), room = PATCHING_UNHOOKED_BYTES - at;
	char once[PATCHING_UNHOOKED_BYTES];
	/* A module that is looked at again refuses the same again. */
	snprintf(once, sizeof once, " %s (%s)", name, reason);
	if (strstr(unhooked, once) || (at > 4 && !strcmp(unhooked + at - 4, " ...")))
		return;
	int bytes = snprintf(unhooked + at, room, "%s%s (%s)", at ? ", " : "Not hooked: ", name,
			     reason);
	if (bytes < 0 || (size_t)bytes >= room) /* whole reasons, or the sign that there are more */
		snprintf(unhooked + at, room, "%s", at && room > 4 ? " ..." : "");
}

void patching_refuse_all(char unhooked[PATCHING_UNHOOKED_BYTES], const struct plan *plan,
			 const struct plan_hooks *hooks, uint64_t hooks_found)
{
	for (size_t i = 0; plan && i < plan->refusal_count; i++)
		patching_refuse(unhooked, plan->refusals[i].name, plan->refusals[i].reason);
	for (size_t i = 0; hooks && i < hooks->count; i++)
		if (!(hooks_found >> i & 1))
			patching_refuse(unhooked, hooks->list[i].name.name,
					"there is no function of this name");
}

/* ---- the block ---- */

static void put_set(struct work *work, const struct patch_set *set, const struct plan *plan,
		    const char *path)
{
	struct wire_island island = {.address = set->address,
				     .bytes = set->island_bytes,
				     .patches = (uint32_t)set->count};
	const char *slash = strrchr(path, '/');
	snprintf(island.name, sizeof island.name, "%.28s of %.30s", plan->entries[0].name,
		 slash ? slash + 1 : path);
	text_put_bytes(&work->block, &island, sizeof island);
	for (size_t i = 0; i < set->count; i++) {
		struct wire_patch patch = {.address = set->patches[i].address};
		memcpy(patch.old, set->patches[i].old, WIRE_PATCH_BYTES);
		memcpy(patch.new, set->patches[i].new, WIRE_PATCH_BYTES);
		text_put_bytes(&work->block, &patch, sizeof patch);
	}
	text_put_bytes(&work->block, set->island, set->island_bytes);
	work->islands++;
}

/* ---- islands of libraries that were loaded later ---- */

static bool is_module(const struct patching_module *module, const struct proc_map *map)
{
	return module->start == map->start && module->inode == map->inode &&
	       module->device == map->device;
}

/* It is as it was left, and nobody needs it but this module. */
static bool is_free(const struct work *work, const struct patching_island *island,
		    const struct proc_map *module)
{
	bool there = false, needed = false;
	for (size_t i = 0; i < work->maps.count; i++) {
		const struct proc_map *map = &work->maps.maps[i];
		there |= map->executable && !map->inode && map->start <= island->address &&
			 map->end >= island->address + island->bytes;
		needed |= is_module(&island->owner, map);
	}
	return there && (!needed || is_module(&island->owner, module));
}

/* Else each turn of loading and unloading a library would cost the program an island. */
static uint64_t find_island(struct work *work, const struct plan *plan,
			    const struct proc_map *module)
{
	struct patching_known *known = work->options->known;
	uint64_t bytes = patch_island_bytes(plan), low, high;
	if (!work->options->late || !patch_reach(plan, &low, &high))
		return 0;
	for (size_t i = 0; i < known->island_count; i++) {
		struct patching_island *island = &known->islands[i];
		if (island->bytes < bytes || island->address < low ||
		    island->address + bytes > high || !is_free(work, island, module))
			continue;
		island->owner = (struct patching_module){
			.start = module->start, .device = module->device, .inode = module->inode};
		return island->address;
	}
	return 0;
}

static uint64_t take_island(struct work *work, const struct plan *plan,
			    const struct proc_map *module)
{
	struct patching_known *known = work->options->known;
	uint64_t address = patch_room_take(&work->room, plan);
	if (address && work->options->late && known->island_count < WIRE_LATE_ISLANDS)
		known->islands[known->island_count++] =
			(struct patching_island){.address = address,
						 .bytes = patch_island_bytes(plan),
						 .owner = {.start = module->start,
							   .device = module->device,
							   .inode = module->inode}};
	return address;
}

/* A place for the module's island, and its patches. */
static void place(struct work *work, struct plan *plan, const struct proc_map *module)
{
	struct patch_set *set = NULL;
	uint64_t island = find_island(work, plan, module);
	if (!island)
		island = take_island(work, plan, module);
	if (!island || patch_place(plan, island, work->options->glue, &set, NULL)) {
		patching_refuse(work->options->known->refused, plan->entries[0].name,
				"no memory near it is free");
		return;
	}
	put_set(work, set, plan, module->path);
	patch_set_free(set);
}

/* ---- the modules ---- */

static bool is_program(const struct work *work, const struct stat *facts)
{
	return !work->is_loader && facts->st_dev == work->program_device &&
	       facts->st_ino == work->program_inode;
}

static void plan_module(struct work *work, int fd, const struct proc_map *map)
{
	struct plan_source source = {.fd = fd, .hooks = work->options->hooks};
	struct plan *plan = NULL;
	struct stat facts;
	/* Another file may have its name by now. */
	if (fstat(fd, &facts) || facts.st_ino != map->inode ||
	    plan_bias(fd, map->start, map->offset, &source.bias))
		return;
	source.what = is_program(work, &facts) ? PLAN_ALL : PLAN_NATIVE | PLAN_HIDDEN;
	if (plan_new(&source, &plan, NULL))
		return;
	work->options->known->hooks_found |= plan->hooks_found;
	patching_refuse_all(work->options->known->refused, plan, NULL, 0);
	if (plan->entry_count)
		place(work, plan, map);
	plan_free(plan);
}

/* As the process sees the file: its own root. */
static int open_module(const struct work *work, const struct proc_map *map)
{
	char path[4200];
	int bytes =
		snprintf(path, sizeof path, "/proc/%d/root%s", (int)work->options->pid, map->path);
	return bytes > 0 && (size_t)bytes < sizeof path
		       ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
		       : -1;
}

/* The agent has its own hooks; the loader calls no allocator but ours and libc's. */
static bool is_interesting(const struct work *work, size_t index)
{
	const struct proc_map *map = &work->maps.maps[index];
	if (!map->executable || !map->inode || map->path[0] != '/' ||
	    (work->options->glue >= map->start && work->options->glue < map->end))
		return false;
	for (size_t i = 0; i < index; i++) /* a module has one entry */
		if (work->maps.maps[i].executable && work->maps.maps[i].inode == map->inode &&
		    work->maps.maps[i].device == map->device)
			return false;
	return true;
}

static const struct patching_module *find_known(const struct patching_known *known,
						const struct proc_map *map)
{
	for (size_t i = 0; i < known->count; i++)
		if (is_module(&known->modules[i], map))
			return &known->modules[i];
	return NULL;
}

static void look_at(struct work *work, const struct proc_map *map)
{
	const struct patching_known *known = work->options->known;
	const struct patching_module *before = find_known(known, map);
	bool late = before ? before->late : work->options->late;
	work->modules[work->module_count++] = (struct patching_module){
		.start = map->start, .device = map->device, .inode = map->inode, .late = late};
	/* Where something was unloaded, it may be there anew, without its patches. */
	if (before && !(late && known->closes != work->options->closes))
		return;
	int fd = open_module(work, map);
	if (fd < 0)
		return;
	plan_module(work, fd, map);
	close(fd);
}

static void plan_modules(struct work *work)
{
	struct patching_known *known = work->options->known;
	work->modules = tm_alloc_array(MODULES_MAX, sizeof *work->modules);
	for (size_t i = 0;
	     work->modules && i < work->maps.count && work->module_count < MODULES_MAX; i++)
		if (is_interesting(work, i))
			look_at(work, &work->maps.maps[i]);
	tm_free(known->modules);
	known->modules = work->modules;
	known->count = work->module_count;
	known->closes = work->options->closes;
}

/* An address in the program's code; 0: not seen. */
static uint64_t program_code(const struct work *work)
{
	for (size_t i = 0; i < work->maps.count; i++)
		if (work->maps.maps[i].executable &&
		    work->maps.maps[i].inode == work->program_inode)
			return work->maps.maps[i].start;
	return 0;
}

static bool look(struct work *work)
{
	char path[64];
	struct stat facts;
	snprintf(path, sizeof path, "/proc/%d/exe", (int)work->options->pid);
	if (stat(path, &facts) ||
	    proc_maps_read(work->options->pid, work->options->pid, &work->maps))
		return false;
	work->program_device = facts.st_dev;
	work->program_inode = facts.st_ino;
	work->is_loader = loader_is_file(path);
	return !patch_room_init(&work->room, &work->maps, program_code(work));
}

static bool has_one_thread(pid_t pid)
{
	pid_t *tids = NULL;
	size_t count = 0;
	int error = proc_threads(pid, &tids, &count);
	tm_free(tids);
	return !error && count == 1;
}

static void take_block(struct work *work)
{
	struct patching *result = work->result;
	struct wire_patches head = {.islands = work->islands};
	size_t bytes = sizeof head + work->block.length;
	if (!work->islands || text_error(&work->block))
		return;
	if (!work->options->late && !has_one_thread(work->options->pid)) {
		patching_refuse(work->options->known->refused,
				"an allocator linked into the program",
				"other threads were running already");
		return;
	}
	char *block = tm_alloc(bytes);
	if (!block)
		return;
	memcpy(block, &head, sizeof head);
	memcpy(block + sizeof head, work->block.data, work->block.length);
	result->bytes = block;
	result->count = bytes;
}

void patching_new(const struct patching_options *options, struct patching *ret)
{
	struct work work = {.options = options, .result = ret};
	struct patching_known *known = options->known;
	*ret = (struct patching){0};
	if (!options->late)
		patching_known_done(known);
	if (options->glue && look(&work)) {
		plan_modules(&work);
		take_block(&work);
		memcpy(ret->unhooked, known->refused, sizeof ret->unhooked);
		patching_refuse_all(ret->unhooked, NULL, options->hooks, known->hooks_found);
	}
	text_done(&work.block);
	proc_maps_done(&work.maps);
	patch_room_done(&work.room);
}

void patching_done(struct patching *patching)
{
	tm_free(patching->bytes);
	*patching = (struct patching){0};
}

void patching_known_done(struct patching_known *known)
{
	tm_free(known->modules);
	*known = (struct patching_known){0};
}
