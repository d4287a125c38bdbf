/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/image.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "symbols/unpack.h"

/* Headers of Debian 12 do not know it yet. */
enum { PACKED_ZLIB = 1, PACKED_ZSTD = 2 };

static const char *const section_names[IMAGE_SECTIONS] = {
	[IMAGE_INFO] = "info",         [IMAGE_ABBREV] = "abbrev",
	[IMAGE_LINE] = "line",         [IMAGE_STR] = "str",
	[IMAGE_LINE_STR] = "line_str", [IMAGE_STR_OFFSETS] = "str_offsets",
	[IMAGE_ADDR] = "addr",         [IMAGE_RANGES] = "ranges",
	[IMAGE_RNGLISTS] = "rnglists", [IMAGE_CU_INDEX] = "cu_index",
};

static int map_file(struct image *image, const struct elffile *file, const uint8_t **ret_data,
		    size_t *ret_bytes)
{
	struct stat status;
	if (file->fd < 0) {
		*ret_data = (const uint8_t *)elf_rawfile(file->elf, ret_bytes);
		return *ret_data ? 0 : -ENODATA;
	}
	if (fstat(file->fd, &status) || status.st_size <= 0)
		return -ENODATA;
	image->map_bytes = (size_t)status.st_size;
	image->map = mmap(NULL, image->map_bytes, PROT_READ, MAP_PRIVATE, file->fd, 0);
	if (image->map == MAP_FAILED) {
		image->map = NULL;
		return -ENOMEM;
	}
	*ret_data = image->map;
	*ret_bytes = image->map_bytes;
	return 0;
}

/* Which of our sections has this name; IMAGE_SECTIONS = none. */
static enum image_section section_of(const char *name, bool split, bool *ret_old_packing)
{
	*ret_old_packing = !strncmp(name, ".zdebug_", 8);
	if (!*ret_old_packing && strncmp(name, ".debug_", 7) != 0)
		return IMAGE_SECTIONS;
	name += *ret_old_packing ? 8 : 7;
	for (int i = 0; i < IMAGE_SECTIONS; i++) {
		size_t bytes = strlen(section_names[i]);
		/* The index of a .dwp is the one section there without the ending. */
		const char *ending = split && i != IMAGE_CU_INDEX ? ".dwo" : "";
		if (!strncmp(name, section_names[i], bytes) && !strcmp(name + bytes, ending))
			return i;
	}
	return IMAGE_SECTIONS;
}

/* "ZLIB" and the size, big-endian: what GNU tools wrote before ELF had a word for it. */
static bool note_old_packing(struct image_part *part)
{
	uint64_t plain;
	if (!part->data || part->bytes < 12 || memcmp(part->data, "ZLIB", 4) != 0)
		return false;
	memcpy(&plain, part->data + 4, 8);
	part->packing = PACKED_ZLIB;
	part->packed = part->data + 12;
	part->packed_bytes = part->bytes - 12;
	part->bytes = be64toh(plain);
	return true;
}

static bool note_packing(struct image_part *part, bool is_64)
{
	struct cursor in = cursor_at(part->data, part->bytes, 0);
	uint64_t type = cursor_uint(&in, 4);
	if (is_64)
		cursor_skip(&in, 4);
	uint64_t plain = cursor_uint(&in, is_64 ? 8 : 4);
	cursor_skip(&in, is_64 ? 8 : 4);
	if (in.bad || (type != PACKED_ZLIB && type != PACKED_ZSTD))
		return false;
	part->packing = (uint8_t)type;
	part->packed = in.at;
	part->packed_bytes = cursor_left(&in);
	part->bytes = plain;
	return true;
}

static void note_section(struct image *image, const GElf_Shdr *header, enum image_section section,
			 bool old_packing, bool is_64)
{
	struct image_part *part = &image->parts[section];
	bool ok = true;
	if (old_packing)
		ok = note_old_packing(part);
	else if (header->sh_flags & SHF_COMPRESSED)
		ok = note_packing(part, is_64);
	if (!ok)
		*part = (struct image_part){0};
	if (part->packing)
		part->data = NULL;
	else
		part->is_terminated = part->data && part->bytes && !part->data[part->bytes - 1];
}

int image_open(struct image *image, const struct elffile *file, bool split, uint64_t max_bytes)
{
	const uint8_t *data;
	size_t bytes, names;
	*image = (struct image){.room_bytes = max_bytes};
	const char *ident = elf_getident(file->elf, NULL);
	if (!ident || ident[EI_DATA] != ELFDATA2LSB || elf_getshdrstrndx(file->elf, &names))
		return -ENODATA;
	int code = map_file(image, file, &data, &bytes);
	if (code)
		return code;
	Elf_Scn *scan = NULL;
	while ((scan = elf_nextscn(file->elf, scan))) {
		GElf_Shdr header;
		bool old_packing;
		const char *name;
		if (!gelf_getshdr(scan, &header) || header.sh_type == SHT_NOBITS ||
		    header.sh_offset > bytes || header.sh_size > bytes - header.sh_offset ||
		    !(name = elf_strptr(file->elf, names, header.sh_name)))
			continue;
		enum image_section section = section_of(name, split, &old_packing);
		if (section == IMAGE_SECTIONS || image->parts[section].bytes)
			continue;
		image->parts[section] = (struct image_part){.data = data + header.sh_offset,
							    .bytes = header.sh_size};
		note_section(image, &header, section, old_packing, ident[EI_CLASS] == ELFCLASS64);
	}
	if (image->parts[IMAGE_INFO].bytes)
		return 0;
	image_close(image);
	return -ENODATA;
}

void image_close(struct image *image)
{
	for (int i = 0; i < IMAGE_SECTIONS; i++)
		if (image->parts[i].is_owned)
			tm_free((void *)(uintptr_t)image->parts[i].data);
	if (image->map)
		munmap(image->map, image->map_bytes);
	*image = (struct image){0};
}

static void unpack(struct image *image, struct image_part *part)
{
	uint8_t *plain = NULL;
	int code = -EFBIG;
	if (part->bytes <= image->room_bytes)
		code = part->packing == PACKED_ZLIB
			       ? unpack_zlib(part->packed, part->packed_bytes, part->bytes, &plain)
			       : unpack_zstd(part->packed, part->packed_bytes, part->bytes, &plain);
	if (code) {
		*part = (struct image_part){0};
		return;
	}
	image->room_bytes -= part->bytes;
	part->data = plain;
	part->is_owned = true;
	part->packing = 0;
	part->is_terminated = part->bytes && !plain[part->bytes - 1];
}

const struct image_part *image_part(struct image *image, enum image_section section)
{
	struct image_part *part = &image->parts[section];
	if (part->packing)
		unpack(image, part);
	return part;
}

const char *image_text(struct image *image, enum image_section section, uint64_t offset)
{
	const struct image_part *part = image_part(image, section);
	if (part->is_terminated && offset < part->bytes)
		return (const char *)part->data + offset;
	struct cursor at = cursor_at(part->data, part->bytes, offset);
	const char *text = cursor_text(&at);
	return at.bad ? NULL : text;
}
