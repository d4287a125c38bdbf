/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_loader.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	DEBUG_AT = 0x10000,
	MAPS_AT = 0x100000,  /* a struct elf_link_map per object, 64 bytes each */
	NAMES_AT = 0x800000, /* 256 bytes each */
	MAP_STRIDE = 64,
	NAME_STRIDE = 256,
	OBJECT_BYTES = 0x4000,
	DYNAMIC_OFFSET = 0x3000,
	NOTE_OFFSET = 0x400,
};

/* What lies at the beginning of each object. */
struct image {
	Elf64_Ehdr header;
	Elf64_Phdr headers[4];
	uint8_t gap[NOTE_OFFSET - sizeof(Elf64_Ehdr) - 4 * sizeof(Elf64_Phdr)];
	struct {
		uint32_t name_bytes;
		uint32_t description_bytes;
		uint32_t type;
		char name[4];
		uint64_t build_id;
	} note;
};

static void make_image(const struct fake_object *object, struct image *ret)
{
	memset(ret, 0, sizeof *ret);
	memcpy(ret->header.e_ident, ELFMAG, SELFMAG);
	ret->header.e_ident[EI_CLASS] = ELFCLASS64;
	ret->header.e_machine = EM_X86_64;
	ret->header.e_phoff = sizeof(Elf64_Ehdr);
	ret->header.e_phentsize = sizeof(Elf64_Phdr);
	ret->header.e_phnum = object->build_id ? 4 : 3;
	ret->headers[0] = (Elf64_Phdr){
		.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = 0x3000, .p_memsz = 0x3000};
	ret->headers[1] = (Elf64_Phdr){.p_type = PT_LOAD,
				       .p_flags = PF_R | PF_W,
				       .p_vaddr = DYNAMIC_OFFSET,
				       .p_memsz = OBJECT_BYTES - DYNAMIC_OFFSET};
	ret->headers[2] =
		(Elf64_Phdr){.p_type = PT_DYNAMIC, .p_vaddr = DYNAMIC_OFFSET, .p_memsz = 0x100};
	ret->headers[3] = (Elf64_Phdr){
		.p_type = PT_NOTE, .p_vaddr = NOTE_OFFSET, .p_filesz = 24, .p_align = 4};
	ret->note.name_bytes = 4;
	ret->note.description_bytes = 8;
	ret->note.type = 3;
	memcpy(ret->note.name, "GNU", 4);
	ret->note.build_id = object->build_id;
}

static bool copy(uintptr_t from, const void *object, size_t object_bytes, uintptr_t address,
		 void *ret, size_t bytes)
{
	if (address < from || address - from > object_bytes ||
	    object_bytes - (address - from) < bytes)
		return false;
	memcpy(ret, (const uint8_t *)object + (address - from), bytes);
	return true;
}

static bool peek_map(const struct fake_loader *loader, uintptr_t address, void *ret, size_t bytes)
{
	uintptr_t index = (address - MAPS_AT) / MAP_STRIDE;
	struct elf_link_map map = {.bias = 0};

	if (index >= loader->count)
		return false;
	map.bias = loader->objects[index].bias;
	map.dynamic = map.bias + DYNAMIC_OFFSET;
	map.name = NAMES_AT + index * NAME_STRIDE;
	if (index + 1 < loader->count)
		map.next = MAPS_AT + (index + 1) * MAP_STRIDE;
	return copy(MAPS_AT + index * MAP_STRIDE, &map, sizeof map, address, ret, bytes);
}

static bool peek_name(const struct fake_loader *loader, uintptr_t address, void *ret, size_t bytes)
{
	char name[NAME_STRIDE] = "";
	uintptr_t index = (address - NAMES_AT) / NAME_STRIDE;

	if (index >= loader->count)
		return false;
	strncpy(name, loader->objects[index].path, sizeof name - 1);
	return copy(NAMES_AT + index * NAME_STRIDE, name, sizeof name, address, ret, bytes);
}

static bool peek_image(const struct fake_loader *loader, uintptr_t address, void *ret, size_t bytes)
{
	for (uint32_t i = 0; i < loader->count; i++) {
		struct image image;
		if (address - loader->objects[i].bias >= OBJECT_BYTES)
			continue;
		make_image(&loader->objects[i], &image);
		return copy(loader->objects[i].bias, &image, sizeof image, address, ret, bytes);
	}
	return false;
}

static bool fake_peek(void *ctx, uintptr_t address, void *ret, size_t bytes)
{
	struct fake_loader *loader = ctx;
	struct elf_debug debug = {.version = 1, .map = loader->count ? MAPS_AT : 0};

	loader->peeks++;
	if (loader->before_peek)
		loader->before_peek(loader, address);
	debug.state = loader->state;
	debug.map = loader->count ? MAPS_AT : 0;
	if (address >= NAMES_AT + (uintptr_t)FAKE_OBJECTS_MAX * NAME_STRIDE)
		return peek_image(loader, address, ret, bytes);
	if (address >= NAMES_AT)
		return peek_name(loader, address, ret, bytes);
	if (address >= MAPS_AT)
		return peek_map(loader, address, ret, bytes);
	return copy(DEBUG_AT, &debug, ELF_DEBUG_BYTES_V1, address, ret, bytes);
}

static void *fake_map(void *ctx, size_t bytes)
{
	struct fake_loader *loader = ctx;

	if (loader->refuse_memory)
		return NULL;
	loader->mapped_bytes += bytes;
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

static void fake_event(void *ctx, const struct module *module, bool mapped)
{
	struct fake_loader *loader = ctx;

	loader->events[loader->event_count++ % FAKE_EVENTS_MAX] = (struct fake_event){
		.instance = module->instance, .start = module->start, .mapped = mapped};
}

struct fake_loader *fake_loader_new(void)
{
	void *memory = mmap(NULL, sizeof(struct fake_loader), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

struct modules *fake_modules_new(struct fake_loader *loader)
{
	struct elf_scope scope = {.auxv = {.page_bytes = 4096}, .debug = DEBUG_AT};

	return modules_new(&(struct modules_options){.scope = &scope,
						     .map = fake_map,
						     .peek = fake_peek,
						     .event = fake_event,
						     .ctx = loader});
}

void fake_load(struct fake_loader *loader, uintptr_t bias, uint64_t build_id, const char *path)
{
	if (loader->count == FAKE_OBJECTS_MAX)
		abort();
	loader->objects[loader->count++] =
		(struct fake_object){.bias = bias, .build_id = build_id, .path = path};
}

void fake_unload(struct fake_loader *loader, uint32_t index)
{
	memmove(&loader->objects[index], &loader->objects[index + 1],
		(loader->count - index - 1) * sizeof loader->objects[0]);
	loader->count--;
}
