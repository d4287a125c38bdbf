/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/unpack.h"

#include <errno.h>
#include <libdeflate.h>
#include <limits.h>
#include <lzma.h>
#include <zstd.h>

#include "base/memory.h"

/* What xz may use for its dictionary: that of level 9 fits. */
#define XZ_MEMORY_MAX (128u << 20)

int unpack_zlib(const uint8_t *packed, size_t packed_bytes, size_t plain_bytes, uint8_t **ret_plain)
{
	/* No deflate stream grows more than that. */
	if (plain_bytes / 1100 > packed_bytes)
		return -EBADMSG;
	/* Twice as fast as zlib, where the whole is at hand. */
	struct libdeflate_decompressor *unpacker = libdeflate_alloc_decompressor();
	uint8_t *plain = unpacker ? tm_alloc(plain_bytes) : NULL;
	enum libdeflate_result code = LIBDEFLATE_BAD_DATA;
	if (plain)
		code = libdeflate_zlib_decompress(unpacker, packed, packed_bytes, plain,
						  plain_bytes, NULL);
	libdeflate_free_decompressor(unpacker);
	if (!plain)
		return -ENOMEM;
	if (code != LIBDEFLATE_SUCCESS) {
		tm_free(plain);
		return -EBADMSG;
	}
	*ret_plain = plain;
	return 0;
}

int unpack_zstd(const uint8_t *packed, size_t packed_bytes, size_t plain_bytes, uint8_t **ret_plain)
{
	uint8_t *plain = tm_alloc(plain_bytes);
	if (!plain)
		return -ENOMEM;
	size_t got = ZSTD_decompress(plain, plain_bytes, packed, packed_bytes);
	if (ZSTD_isError(got) || got != plain_bytes) {
		tm_free(plain);
		return -EBADMSG;
	}
	*ret_plain = plain;
	return 0;
}

int unpack_xz(const uint8_t *packed, size_t packed_bytes, size_t max_bytes, uint8_t **ret_plain,
	      size_t *ret_plain_bytes)
{
	size_t room = packed_bytes < max_bytes / 8 ? packed_bytes * 8 + 4096 : max_bytes;
	for (;;) {
		uint64_t memory = XZ_MEMORY_MAX;
		size_t from = 0, got = 0;
		uint8_t *plain = tm_alloc(room);
		if (!plain)
			return -ENOMEM;
		lzma_ret code = lzma_stream_buffer_decode(&memory, 0, NULL, packed, &from,
							  packed_bytes, plain, &got, room);
		if (code == LZMA_OK) {
			*ret_plain = plain;
			*ret_plain_bytes = got;
			return 0;
		}
		tm_free(plain);
		if (code != LZMA_BUF_ERROR || room > max_bytes / 4)
			return code == LZMA_BUF_ERROR ? -EFBIG : -EBADMSG;
		room *= 4;
	}
}
