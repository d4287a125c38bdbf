/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index at the end of a finished file: the headers of all blocks with their
 * offsets, so that opening reads one place instead of hopping through the file.
 */
#pragma once

#include "base/error.h"
#include "trace/bytes.h"
#include "trace/format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ZSTD_CCtx_s;

/*
 * Gather the headers of the blocks before sealed_end from the file itself and
 * append INDEX blocks and the trailer to *out, as they belong at sealed_end.
 */
TM_MUST_CHECK int index_build(int fd, uint64_t file_id, uint64_t sealed_end,
			      struct ZSTD_CCtx_s *zstd, struct bytes *out);
