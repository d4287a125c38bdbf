/* SPDX-License-Identifier: Apache-2.0 */
/* Packed sections of ELF files made plain. What comes out is released by tm_free(). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Exactly plain_bytes must come out. -EBADMSG, -ENOMEM. */
TM_MUST_CHECK int unpack_zlib(const uint8_t *packed, size_t packed_bytes, size_t plain_bytes,
			      uint8_t **ret_plain);
TM_MUST_CHECK int unpack_zstd(const uint8_t *packed, size_t packed_bytes, size_t plain_bytes,
			      uint8_t **ret_plain);
/* A whole .xz file of at most max_bytes. -EBADMSG, -EFBIG, -ENOMEM. */
TM_MUST_CHECK int unpack_xz(const uint8_t *packed, size_t packed_bytes, size_t max_bytes,
			    uint8_t **ret_plain, size_t *ret_plain_bytes);
