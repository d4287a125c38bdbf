/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two open-addressing tables and a text:
 *
 *   instances  (file, bias) -> id       4096 at most, so that half the slots stay empty
 *   files      identity -> file number  likewise
 *   text       the identities: what makes a file that file, byte by byte
 *
 * When one of them is full, ids go on but are no longer remembered.
 */
#include "agent/modules_instance.h"

enum {
	SLOTS = 2 * MODULE_INSTANCES_REMEMBERED,
	TEXT_BYTES = 1024 * 1024,
};

/* Begins the identity of a file; build-id and path follow. */
struct identity {
	uint64_t headers_hash;
	uint32_t build_id_bytes;
	uint32_t path_bytes;
};

struct file {
	uint64_t hash;
	uint32_t offset; /* of its identity in the text */
	uint32_t number; /* from 1; 0: an empty slot */
};

struct instance {
	uint64_t bias;
	uint32_t file; /* number; 0: an empty slot */
	uint32_t id;
};

struct instances {
	uint32_t next_id;
	uint32_t file_count;
	uint32_t instance_count;
	uint32_t text_used;
	struct file files[SLOTS];
	struct instance instances[SLOTS];
	uint8_t text[TEXT_BYTES];
};

struct instances *instances_new(module_map_fn map, void *ctx)
{
	struct instances *instances = map(ctx, sizeof *instances);

	if (instances)
		instances->next_id = 1;
	return instances;
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15;
	return hash ^ hash >> 29;
}

static uint64_t mix_bytes(uint64_t hash, const void *bytes, size_t count)
{
	const uint8_t *byte = bytes;

	for (size_t i = 0; i < count; i++)
		hash = mix(hash, byte[i]);
	return hash;
}

static struct identity identity_of(const struct module *module)
{
	return (struct identity){
		.headers_hash = module->headers_hash,
		.build_id_bytes = module->build_id_bytes,
		.path_bytes = module->path_bytes,
	};
}

static bool is_file(const struct instances *instances, const struct file *file,
		    const struct module *module)
{
	struct identity identity = identity_of(module);
	const uint8_t *text = instances->text + file->offset;

	if (__builtin_memcmp(text, &identity, sizeof identity) != 0)
		return false;
	text += sizeof identity;
	if (__builtin_memcmp(text, module->build_id, module->build_id_bytes) != 0)
		return false;
	text += module->build_id_bytes;
	return __builtin_memcmp(text, module->path, module->path_bytes) == 0;
}

/* Write the identity into the text; false: no room. */
static bool add_text(struct instances *instances, const struct module *module)
{
	struct identity identity = identity_of(module);
	uint32_t bytes = (uint32_t)sizeof identity + module->build_id_bytes + module->path_bytes;
	uint8_t *text = instances->text + instances->text_used;

	if (bytes > TEXT_BYTES - instances->text_used)
		return false;
	__builtin_memcpy(text, &identity, sizeof identity);
	text += sizeof identity;
	__builtin_memcpy(text, module->build_id, module->build_id_bytes);
	text += module->build_id_bytes;
	__builtin_memcpy(text, module->path, module->path_bytes);
	instances->text_used += bytes;
	return true;
}

/* Number of the object's file, old or new; 0: no room. */
static uint32_t take_file(struct instances *instances, const struct module *module)
{
	uint64_t hash = mix(module->headers_hash, module->build_id_bytes);
	hash = mix_bytes(hash, module->build_id, module->build_id_bytes);
	hash = mix_bytes(hash, module->path, module->path_bytes);
	struct file *file = &instances->files[hash % SLOTS];

	while (file->number) {
		if (file->hash == hash && is_file(instances, file, module))
			return file->number;
		if (++file == &instances->files[SLOTS])
			file = instances->files;
	}
	if (instances->file_count == MODULE_INSTANCES_REMEMBERED)
		return 0;
	uint32_t offset = instances->text_used;
	if (!add_text(instances, module))
		return 0;
	file->hash = hash;
	file->offset = offset;
	/* Last: a rescan that never came to its end leaves no half slot behind. */
	file->number = ++instances->file_count;
	return file->number;
}

static uint32_t new_id(struct instances *instances)
{
	return instances->next_id <= MODULE_INSTANCE_MAX ? instances->next_id++ : 0;
}

uint32_t instances_take(struct instances *instances, const struct module *module)
{
	uint32_t file = take_file(instances, module);
	struct instance *slot = &instances->instances[mix(module->bias, file) % SLOTS];

	if (!file)
		return new_id(instances);
	while (slot->file) {
		if (slot->file == file && slot->bias == module->bias)
			return slot->id;
		if (++slot == &instances->instances[SLOTS])
			slot = instances->instances;
	}
	uint32_t id = new_id(instances);
	if (!id || instances->instance_count == MODULE_INSTANCES_REMEMBERED)
		return id;
	instances->instance_count++;
	slot->bias = module->bias;
	slot->id = id;
	slot->file = file;
	return id;
}
