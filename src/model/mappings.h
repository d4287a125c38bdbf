/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own mappings as blocks, each with the call that made it: what
 * kind=mapped chooses. Accessible anonymous memory only, as in the sums. Where a
 * mapping ends in parts, each part is a block.
 */
#pragma once

#include "base/error.h"
#include "trace/records.h"

#include <stddef.h>
#include <stdint.h>

struct mapping {
	uint64_t address, bytes;
	uint64_t birth_ns;      /* whole microseconds, as of all events */
	uint64_t end_ns;        /* UINT64_MAX: it has not ended */
	uint32_t stack_id;      /* of the call that made it, or made it accessible */
	uint32_t thread_id;     /* likewise */
	uint32_t end_thread_id; /* of the call that ended it */
};

typedef int (*mapping_fn)(void *ctx, const struct mapping *mapping);
/* All of them, in the order of their ends. -ENOMEM, or what fn returned. */
TM_MUST_CHECK int mappings_each(const struct trace_map_event *events, size_t count,
				uint64_t page_bytes, mapping_fn fn, void *ctx);
