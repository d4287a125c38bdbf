/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/debugfile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEBUG_FOLDER "/usr/lib/debug"

enum { PATH_ROOM = 4096 + 256, CRC_CHUNK_BYTES = 64 * 1024 };

struct search {
	const struct elffile *module;
	const char *root;
	bool check_crc; /* the build-id is not known: the content must match */
	uint32_t crc;
};

static uint32_t crc_update(uint32_t crc, const uint8_t *bytes, size_t count)
{
	static const uint32_t nibbles[16] = {
		0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
		0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
		0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
	};
	crc = ~crc;
	for (size_t i = 0; i < count; i++) {
		crc ^= bytes[i];
		crc = crc >> 4 ^ nibbles[crc & 15];
		crc = crc >> 4 ^ nibbles[crc & 15];
	}
	return ~crc;
}

static bool crc_matches(int fd, uint32_t wanted)
{
	uint8_t bytes[CRC_CHUNK_BYTES];
	uint32_t crc = 0;
	ssize_t got;
	for (off_t at = 0; (got = pread(fd, bytes, sizeof bytes, at)) > 0; at += got)
		crc = crc_update(crc, bytes, (size_t)got);
	return got == 0 && crc == wanted;
}

static bool fits(const struct search *search, const struct elffile *file)
{
	const struct elffile *module = search->module;
	if (module->build_id_bytes)
		return file->build_id_bytes == module->build_id_bytes &&
		       !memcmp(file->build_id, module->build_id, module->build_id_bytes);
	return search->check_crc && crc_matches(file->fd, search->crc);
}

static bool try_path(const struct search *search, const char *path, struct elffile *ret_file)
{
	const char *roots[] = {search->root, ""};
	for (size_t i = search->root[0] ? 0 : 1; i < 2; i++) {
		struct elffile file;
		if (elffile_open(&file, roots[i], path, NULL))
			continue;
		if (fits(search, &file)) {
			*ret_file = file;
			return true;
		}
		elffile_close(&file);
	}
	return false;
}

static bool try_build_id(const struct search *search, struct elffile *ret_file)
{
	const struct elffile *module = search->module;
	if (module->build_id_bytes < 2)
		return false;
	char path[sizeof DEBUG_FOLDER + 2 * ELFFILE_BUILD_ID_MAX + 32];
	size_t used = (size_t)snprintf(path, sizeof path, DEBUG_FOLDER "/.build-id/%02x/",
				       module->build_id[0]);
	for (uint32_t i = 1; i < module->build_id_bytes; i++)
		used += (size_t)snprintf(path + used, sizeof path - used, "%02x",
					 module->build_id[i]);
	snprintf(path + used, sizeof path - used, ".debug");
	return try_path(search, path, ret_file);
}

/* The name in .gnu_debuglink; NULL if there is none or it is no plain file name. */
static const char *debug_link(struct search *search)
{
	GElf_Shdr header;
	Elf_Scn *section = elffile_section(search->module, ".gnu_debuglink", 0, &header);
	Elf_Data *data = section ? elf_rawdata(section, NULL) : NULL;
	if (!data || !data->d_buf || data->d_size > 4096)
		return NULL;
	const char *name = data->d_buf;
	size_t bytes = strnlen(name, data->d_size);
	size_t crc_at = (bytes + 4) & ~(size_t)3;
	if (!bytes || crc_at + 4 > data->d_size || strchr(name, '/'))
		return NULL;
	memcpy(&search->crc, name + crc_at, 4);
	search->check_crc = true;
	return name;
}

static bool try_link(struct search *search, const char *module_path, struct elffile *ret_file)
{
	const char *name = debug_link(search), *slash = strrchr(module_path, '/');
	if (!name || !slash)
		return false;
	static const struct {
		const char *before, *after; /* the module's folder */
	} places[] = {{"", ""}, {"", "/.debug"}, {DEBUG_FOLDER, ""}};
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		char path[PATH_ROOM];
		int bytes =
			snprintf(path, sizeof path, "%s%.*s%s/%s", places[i].before,
				 (int)(slash - module_path), module_path, places[i].after, name);
		if (bytes < (int)sizeof path && strcmp(path, module_path) &&
		    try_path(search, path, ret_file))
			return true;
	}
	return false;
}

int debugfile_open(struct elffile *ret_file, const struct elffile *module, const char *root,
		   const char *module_path)
{
	struct search search = {.module = module, .root = root};
	if (try_build_id(&search, ret_file) || try_link(&search, module_path, ret_file))
		return 0;
	return -ENOENT;
}
