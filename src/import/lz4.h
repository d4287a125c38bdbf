/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of LZ4 without a frame, as bytehound writes them: they may end with a
 * match, which liblz4 refuses.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum lz4_end {
	LZ4_WHOLE, /* the input ended where a block may end */
	LZ4_FULL,  /* there is no room for what comes next */
	LZ4_CUT,   /* the input ended within something */
	LZ4_BAD,   /* a match before the first byte */
};

/* Unpacks as far as it can; *ret_bytes tells how many bytes came out. Reads no byte twice. */
enum lz4_end lz4_unpack(const uint8_t *in, size_t in_bytes, uint8_t *out, size_t out_bytes,
			size_t *ret_bytes);
