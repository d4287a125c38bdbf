/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One block: packing a payload, sealing and checking headers. Everything that
 * comes from a file is checked here before anybody believes it.
 */
#pragma once

#include "base/error.h"
#include "trace/bytes.h"
#include "trace/format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ZSTD_CCtx_s;

static inline uint64_t block_align(uint64_t offset)
{
	return (offset + FORMAT_ALIGN - 1) & ~(uint64_t)(FORMAT_ALIGN - 1);
}

/* Offset of what follows the block whose header lies at offset. */
static inline uint64_t block_end(uint64_t offset, const struct format_block_header *header)
{
	return block_align(offset + sizeof *header + header->stored_bytes);
}

/* What packs; NULL without memory. Freed with ZSTD_freeCCtx(). */
struct ZSTD_CCtx_s *block_packer(void);
/* Fast and a fifth larger, or as usual. */
void block_packer_hurry(struct ZSTD_CCtx_s *zstd, bool hurried);

/*
 * Header, payload (packed where that helps) and padding, appended to *out. The
 * caller filled type, flags, section, sequence and the summary of *header; the
 * rest is filled here. out->failed tells lack of memory.
 */
void block_pack(struct ZSTD_CCtx_s *zstd, uint64_t file_id, struct format_block_header *header,
		const void *raw, size_t raw_bytes, struct bytes *out);

/* Gives a sealed header another number. */
void block_renumber(struct format_block_header *header, uint64_t file_id, uint32_t sequence);

/* The same for a copy of the block in another file: the payload is sealed anew, too. */
void block_reseal(struct format_block_header *header, uint64_t file_id, uint32_t sequence,
		  const void *stored);

/* Does it look like a header of this file, with sizes within the limits? */
bool block_header_valid(const struct format_block_header *header, uint64_t file_id);
/* Is the stored payload what was written? */
bool block_payload_valid(const struct format_block_header *header, uint64_t file_id,
			 const void *stored);
/* Unpack into raw, which has room for header->raw_bytes. false if it is not whole. */
bool block_unpack(const struct format_block_header *header, const void *stored, void *raw);

void block_file_header_init(struct format_file_header *header, uint64_t file_id);
/* 0, or a sentence about what is wrong with it. */
TM_MUST_CHECK int block_file_header_check(const struct format_file_header *header, const char *path,
					  struct tm_error *err);
void block_trailer_init(struct format_trailer *trailer, uint64_t file_id, uint64_t index_offset);
bool block_trailer_valid(const struct format_trailer *trailer, uint64_t file_id);

/* Rows that stand for others: those up to the ordinal in first_block_id. */
static inline bool block_is_merged(const struct format_block_header *header)
{
	return (header->type == FORMAT_MAPS || header->type == FORMAT_SAMPLES) &&
	       (header->flags & FORMAT_MERGED);
}
