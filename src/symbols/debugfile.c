/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/debugfile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEBUG_FOLDER "/usr/lib/debug"

enum { PATH_ROOM = 4096 + 256, CRC_CHUNK_BYTES = 64 * 1024, LINK_MAX_BYTES = 4096 };

/* What a candidate must be. */
struct wanted {
	const struct debugfile_search *search;
	const uint8_t *build_id;
	uint32_t build_id_bytes;
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

static bool fits(const struct wanted *wanted, const struct elffile *file)
{
	if (wanted->build_id_bytes)
		return file->build_id_bytes == wanted->build_id_bytes &&
		       !memcmp(file->build_id, wanted->build_id, wanted->build_id_bytes);
	return wanted->check_crc && crc_matches(file->fd, wanted->crc);
}

static bool try_file(const struct wanted *wanted, const char *root, const char *path,
		     struct elffile *ret_file)
{
	struct elffile file;
	if (elffile_open(&file, root, path, NULL))
		return false;
	if (fits(wanted, &file)) {
		*ret_file = file;
		return true;
	}
	elffile_close(&file);
	return false;
}

static bool try_roots(const struct wanted *wanted, const char *path, struct elffile *ret_file)
{
	for (size_t i = 0; i < wanted->search->root_count; i++)
		if (try_file(wanted, wanted->search->roots[i], path, ret_file))
			return true;
	return false;
}

/* folder/rest below each folder of debug files. */
static bool try_folders(const struct wanted *wanted, const char *rest, struct elffile *ret_file)
{
	char path[PATH_ROOM];
	for (size_t i = 0; i < wanted->search->dir_count; i++)
		if (snprintf(path, sizeof path, "%s%s", wanted->search->dirs[i], rest) <
			    (int)sizeof path &&
		    try_file(wanted, "", path, ret_file))
			return true;
	return snprintf(path, sizeof path, DEBUG_FOLDER "%s", rest) < (int)sizeof path &&
	       try_roots(wanted, path, ret_file);
}

static bool try_build_id(const struct wanted *wanted, struct elffile *ret_file)
{
	if (wanted->build_id_bytes < 2)
		return false;
	char path[2 * ELFFILE_BUILD_ID_MAX + 32];
	size_t used = (size_t)snprintf(path, sizeof path, "/.build-id/%02x/", wanted->build_id[0]);
	for (uint32_t i = 1; i < wanted->build_id_bytes; i++)
		used += (size_t)snprintf(path + used, sizeof path - used, "%02x",
					 wanted->build_id[i]);
	snprintf(path + used, sizeof path - used, ".debug");
	return try_folders(wanted, path, ret_file);
}

/* A section that begins with a file's name; what follows the name is in *ret_rest. */
static const char *link_name(const struct elffile *file, const char *section_name,
			     const uint8_t **ret_rest, size_t *ret_rest_bytes)
{
	GElf_Shdr header;
	Elf_Scn *section = elffile_section(file, section_name, 0, &header);
	Elf_Data *data = section ? elf_rawdata(section, NULL) : NULL;
	if (!data || !data->d_buf || data->d_size > LINK_MAX_BYTES)
		return NULL;
	const char *name = data->d_buf;
	size_t bytes = strnlen(name, data->d_size);
	if (!bytes || bytes == data->d_size)
		return NULL;
	*ret_rest = (const uint8_t *)name + bytes + 1;
	*ret_rest_bytes = data->d_size - bytes - 1;
	return name;
}

/* The name in .gnu_debuglink; NULL if there is none or it is no plain file name. */
static const char *debug_link(struct wanted *wanted, const struct elffile *module)
{
	const uint8_t *rest;
	size_t rest_bytes;
	const char *name = link_name(module, ".gnu_debuglink", &rest, &rest_bytes);
	/* The checksum is at the next multiple of four. */
	size_t padding = name ? -(strlen(name) + 1) & 3 : 0;
	if (!name || rest_bytes < padding + 4 || strchr(name, '/'))
		return NULL;
	memcpy(&wanted->crc, rest + padding, 4);
	wanted->check_crc = true;
	return name;
}

static bool try_link(struct wanted *wanted, const struct elffile *module, const char *module_path,
		     struct elffile *ret_file)
{
	const char *name = debug_link(wanted, module), *slash = strrchr(module_path, '/');
	if (!name || !slash)
		return false;
	int folder = (int)(slash - module_path);
	char path[PATH_ROOM];
	static const char *const beside[] = {"", "/.debug"};
	for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++)
		if (snprintf(path, sizeof path, "%.*s%s/%s", folder, module_path, beside[i], name) <
			    (int)sizeof path &&
		    strcmp(path, module_path) && try_roots(wanted, path, ret_file))
			return true;
	if (snprintf(path, sizeof path, "%.*s/%s", folder, module_path, name) < (int)sizeof path &&
	    try_folders(wanted, path, ret_file))
		return true;
	return snprintf(path, sizeof path, "/%s", name) < (int)sizeof path &&
	       try_folders(wanted, path, ret_file);
}

int debugfile_open(struct elffile *ret_file, const struct elffile *module,
		   const struct debugfile_search *search, const char *module_path)
{
	struct wanted wanted = {
		.search = search,
		.build_id = module->build_id,
		.build_id_bytes = module->build_id_bytes,
	};
	if (try_link(&wanted, module, module_path, ret_file) || try_build_id(&wanted, ret_file))
		return 0;
	return -ENOENT;
}

int debugfile_open_build(struct elffile *ret_file, const uint8_t *build_id, uint32_t build_id_bytes,
			 const struct debugfile_search *search)
{
	struct wanted wanted = {
		.search = search,
		.build_id = build_id,
		.build_id_bytes = build_id_bytes,
	};
	return try_build_id(&wanted, ret_file) ? 0 : -ENOENT;
}

/* A name as written in a file: absolute, or as seen from the file's own folder. */
static bool try_from(const struct wanted *wanted, const struct elffile *file, const char *name,
		     struct elffile *ret_file)
{
	char path[PATH_ROOM];
	const char *slash = strrchr(file->path, '/');
	if (name[0] == '/')
		return try_roots(wanted, name, ret_file);
	return slash &&
	       snprintf(path, sizeof path, "%.*s/%s", (int)(slash - file->path), file->path, name) <
		       (int)sizeof path &&
	       try_file(wanted, file->root, path, ret_file);
}

int debugfile_open_alt(struct elffile *ret_file, const struct elffile *file,
		       const struct debugfile_search *search)
{
	struct wanted wanted = {.search = search};
	size_t bytes = 0;
	const char *name = link_name(file, ".gnu_debugaltlink", &wanted.build_id, &bytes);
	if (!name || !bytes || bytes > ELFFILE_BUILD_ID_MAX)
		return -ENODATA;
	wanted.build_id_bytes = (uint32_t)bytes;
	if (file->path && try_from(&wanted, file, name, ret_file))
		return 0;
	const char *base = strrchr(name, '/');
	char path[PATH_ROOM];
	if (snprintf(path, sizeof path, "/.dwz/%s", base ? base + 1 : name) < (int)sizeof path &&
	    try_folders(&wanted, path, ret_file))
		return 0;
	return try_build_id(&wanted, ret_file) ? 0 : -ENOENT;
}
