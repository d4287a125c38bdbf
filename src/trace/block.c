/* SPDX-License-Identifier: Apache-2.0 */
/* Packing, sealing and checking of blocks: see the header. */
#include "trace/block.h"

#include "trace/container.h"

#include <errno.h>
#include <stddef.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

enum {
	BLOCK_ZSTD_LEVEL = 1,
	BLOCK_ZSTD_HURRIED = -1,
	BLOCK_PACK_MIN = 64,
	BLOCK_FRAMES_ROOM = CONTAINER_COLUMNS_MAX * 64, /* what frames may take beyond one */
};

static uint64_t header_checksum(const struct format_block_header *header, uint64_t file_id)
{
	size_t covered = offsetof(struct format_block_header, header_checksum);
	return XXH3_64bits_withSeed(header, covered, file_id);
}

static uint32_t payload_checksum(const void *stored, size_t bytes, uint64_t file_id)
{
	return (uint32_t)XXH3_64bits_withSeed(stored, bytes, file_id);
}

/* Types whose payload is no container of columns, or whose columns resemble each other. */
static bool is_whole(unsigned type)
{
	return type == FORMAT_BEGIN || type == FORMAT_END || type == FORMAT_INDEX ||
	       type == FORMAT_SLICE || type == FORMAT_CURVE;
}

/*
 * Bytes stored; 0 when packing does not help. One zstd frame per column: they
 * unpack as one, and each has the tables that suit it (5 to 10 % smaller).
 */
static size_t compress(ZSTD_CCtx *zstd, unsigned type, struct span raw, uint8_t *out, size_t room)
{
	size_t ends[CONTAINER_COLUMNS_MAX] = {span_left(&raw)}, parts = 1, stored = 0, start = 0;
	if (!zstd || span_left(&raw) < BLOCK_PACK_MIN)
		return 0;
	if (!is_whole(type))
		parts = container_cut(raw, ends);
	for (size_t i = 0; i < parts; i++) {
		size_t added = ZSTD_compress2(zstd, out + stored, room - stored, raw.next + start,
					      ends[i] - start);
		if (ZSTD_isError(added))
			return 0;
		stored += added;
		start = ends[i];
	}
	return stored < span_left(&raw) ? stored : 0;
}

void block_packer_hurry(ZSTD_CCtx *zstd, bool hurried)
{
	int level = hurried ? BLOCK_ZSTD_HURRIED : BLOCK_ZSTD_LEVEL;
	ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, level);
}

ZSTD_CCtx *block_packer(void)
{
	ZSTD_CCtx *zstd = ZSTD_createCCtx();
	if (zstd)
		block_packer_hurry(zstd, false);
	return zstd;
}

void block_pack(struct ZSTD_CCtx_s *zstd, uint64_t file_id, struct format_block_header *header,
		const void *raw, size_t raw_bytes, struct bytes *out)
{
	size_t room = ZSTD_compressBound(raw_bytes) + BLOCK_FRAMES_ROOM;
	if (!bytes_reserve(out, sizeof *header + room + FORMAT_ALIGN))
		return;
	uint8_t *start = out->data + out->used, *payload = start + sizeof *header;
	size_t stored = compress(zstd, header->type, span_of(raw, raw_bytes), payload, room);
	header->flags &= (uint8_t)~FORMAT_COMPRESSED;
	if (stored > 0) {
		header->flags |= FORMAT_COMPRESSED;
	} else {
		stored = raw_bytes;
		if (stored > 0)
			memcpy(payload, raw, stored);
	}
	header->magic = FORMAT_BLOCK_MAGIC;
	header->reserved = 0;
	header->stored_bytes = (uint32_t)stored;
	header->raw_bytes = (uint32_t)raw_bytes;
	header->payload_checksum = payload_checksum(payload, stored, file_id);
	header->header_checksum = header_checksum(header, file_id);
	memcpy(start, header, sizeof *header);
	size_t length = sizeof *header + stored, aligned = (size_t)block_align(length);
	memset(start + length, 0, aligned - length);
	out->used += aligned;
}

void block_renumber(struct format_block_header *header, uint64_t file_id, uint32_t sequence)
{
	header->sequence = sequence;
	header->header_checksum = header_checksum(header, file_id);
}

void block_reseal(struct format_block_header *header, uint64_t file_id, uint32_t sequence,
		  const void *stored)
{
	header->payload_checksum = payload_checksum(stored, header->stored_bytes, file_id);
	block_renumber(header, file_id, sequence);
}

bool block_header_valid(const struct format_block_header *header, uint64_t file_id)
{
	if (header->magic != FORMAT_BLOCK_MAGIC || header->raw_bytes > FORMAT_RAW_MAX ||
	    header->stored_bytes > header->raw_bytes)
		return false;
	if (!(header->flags & FORMAT_COMPRESSED) && header->stored_bytes != header->raw_bytes)
		return false;
	return header->header_checksum == header_checksum(header, file_id);
}

bool block_payload_valid(const struct format_block_header *header, uint64_t file_id,
			 const void *stored)
{
	return header->payload_checksum == payload_checksum(stored, header->stored_bytes, file_id);
}

bool block_unpack(const struct format_block_header *header, const void *stored, void *raw)
{
	if (!(header->flags & FORMAT_COMPRESSED)) {
		if (header->raw_bytes > 0)
			memcpy(raw, stored, header->raw_bytes);
		return true;
	}
	size_t got = ZSTD_decompress(raw, header->raw_bytes, stored, header->stored_bytes);
	return !ZSTD_isError(got) && got == header->raw_bytes;
}

void block_file_header_init(struct format_file_header *header, uint64_t file_id)
{
	*header = (struct format_file_header){
		.version = FORMAT_VERSION,
		.header_bytes = sizeof *header,
		.file_id = file_id,
	};
	memcpy(header->magic, FORMAT_FILE_MAGIC, sizeof header->magic);
	size_t covered = offsetof(struct format_file_header, checksum);
	header->checksum = XXH3_64bits(header, covered);
}

int block_file_header_check(const struct format_file_header *header, const char *path,
			    struct tm_error *err)
{
	if (memcmp(header->magic, FORMAT_FILE_MAGIC, sizeof header->magic) != 0)
		return tm_fail(err, -EBADMSG, "'%s' is not a Tidemark trace", path);
	if (header->version != FORMAT_VERSION)
		return tm_fail(err, -EPROTONOSUPPORT,
			       "'%s' has trace format %u; this tidemark reads format %d: use the "
			       "tidemark that wrote it, or a newer one",
			       path, header->version, FORMAT_VERSION);
	size_t covered = offsetof(struct format_file_header, checksum);
	if (header->checksum != XXH3_64bits(header, covered) ||
	    header->header_bytes != sizeof *header)
		return tm_fail(err, -EBADMSG, "'%s': the file header at offset 0 is damaged", path);
	return 0;
}

void block_trailer_init(struct format_trailer *trailer, uint64_t file_id, uint64_t index_offset)
{
	*trailer = (struct format_trailer){.file_id = file_id, .index_offset = index_offset};
	memcpy(trailer->magic, FORMAT_TRAILER_MAGIC, sizeof trailer->magic);
	size_t covered = offsetof(struct format_trailer, checksum);
	trailer->checksum = XXH3_64bits_withSeed(trailer, covered, file_id);
}

bool block_trailer_valid(const struct format_trailer *trailer, uint64_t file_id)
{
	size_t covered = offsetof(struct format_trailer, checksum);
	return memcmp(trailer->magic, FORMAT_TRAILER_MAGIC, sizeof trailer->magic) == 0 &&
	       trailer->file_id == file_id &&
	       trailer->checksum == XXH3_64bits_withSeed(trailer, covered, file_id);
}
