/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/seal.h"

#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/memory.h"
#include "trace/block.h"

/* Make the checksums of the blocks from offset on right. */
static void seal_blocks(uint8_t *data, size_t size, uint64_t offset, uint64_t file_id)
{
	struct format_block_header header;
	while (offset < size && size - offset > sizeof header) {
		memcpy(&header, data + offset, sizeof header);
		size_t room = size - (size_t)offset - sizeof header;
		header.magic = FORMAT_BLOCK_MAGIC;
		if (header.stored_bytes > room)
			header.stored_bytes = (uint32_t)room;
		if (!(header.flags & FORMAT_COMPRESSED))
			header.raw_bytes = header.stored_bytes;
		header.payload_checksum = (uint32_t)XXH3_64bits_withSeed(
			data + offset + sizeof header, header.stored_bytes, file_id);
		header.header_checksum = XXH3_64bits_withSeed(
			&header, offsetof(struct format_block_header, header_checksum), file_id);
		memcpy(data + offset, &header, sizeof header);
		offset = block_end(offset, &header);
	}
}

uint8_t *seal_copy(const uint8_t *data, size_t size)
{
	struct format_file_header header;
	uint8_t *copy = size < sizeof header ? NULL : tm_alloc(size);
	if (!copy)
		return NULL;
	memcpy(copy, data, size);
	memcpy(&header, copy, sizeof header);
	uint64_t journal_offset = header.journal_offset;
	block_file_header_init(&header, header.file_id);
	header.journal_offset = journal_offset;
	memcpy(copy, &header, sizeof header);
	seal_blocks(copy, size, sizeof header, header.file_id);
	if (journal_offset >= sizeof header && journal_offset % FORMAT_ALIGN == 0)
		seal_blocks(copy, size, journal_offset, header.file_id);
	return copy;
}
