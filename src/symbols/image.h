/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The debug sections of one ELF file: mapped, and unpacked when they are first
 * asked for. A file that shrinks while it is mapped ends the process that reads
 * it, so debug information is read where that does no harm (see worker.c).
 */
#pragma once

#include "symbols/cursor.h"
#include "symbols/elffile.h"

enum image_section {
	IMAGE_INFO,
	IMAGE_ABBREV,
	IMAGE_LINE,
	IMAGE_STR,
	IMAGE_LINE_STR,
	IMAGE_STR_OFFSETS,
	IMAGE_ADDR,
	IMAGE_RANGES,
	IMAGE_RNGLISTS,
	IMAGE_CU_INDEX,
	IMAGE_SECTIONS,
};

struct image_part {
	const uint8_t *data; /* NULL: not there, or damaged */
	size_t bytes;
	const uint8_t *packed; /* until it is unpacked */
	size_t packed_bytes;
	uint8_t packing; /* 0 = plain, else ELFCOMPRESS_* */
	bool is_owned;
	bool is_terminated; /* its last byte is 0, so every string in it ends */
};

struct image {
	void *map; /* NULL for an image in memory */
	size_t map_bytes;
	uint64_t room_bytes; /* left for unpacked sections */
	struct image_part parts[IMAGE_SECTIONS];
};

/*
 * split: the sections of a .dwo or .dwp file, whose names end in .dwo. At most
 * max_bytes are unpacked. -ENODATA if there is no .debug_info, -ENOMEM. The ELF
 * file may be closed afterwards unless it is an image in memory.
 */
TM_MUST_CHECK int image_open(struct image *image, const struct elffile *file, bool split,
			     uint64_t max_bytes);
void image_close(struct image *image);

/* A section's bytes; data NULL if there are none. */
const struct image_part *image_part(struct image *image, enum image_section section);

static inline struct cursor image_cursor(struct image *image, enum image_section section,
					 uint64_t offset)
{
	const struct image_part *part = image_part(image, section);
	return cursor_at(part->data, part->bytes, offset);
}

/* The terminated string at an offset, or NULL. */
const char *image_text(struct image *image, enum image_section section, uint64_t offset);
