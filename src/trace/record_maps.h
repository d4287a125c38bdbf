/* SPDX-License-Identifier: Apache-2.0 */
/* A part of records.h, which includes it: calls that map memory, apart from the heap. */
#pragma once

#include <stdint.h>

enum trace_map_op {
	TRACE_MAP = 0,
	TRACE_UNMAP = 1,
	TRACE_MAP_PROTECT = 2,
	TRACE_MAP_ADVISE = 3,
	TRACE_MAP_BRK = 4, /* address = old break, bytes = new break */
	/* Of calls whose rows were restated: address = how many mapped memory, bytes = how much. */
	TRACE_MAP_FOLDED = 5,
	TRACE_MAP_OPS = 6,
};
struct trace_map_event {
	uint64_t time_ns;
	uint64_t address;
	uint64_t bytes;
	uint64_t moved_from; /* mremap: the old address; 0 otherwise */
	uint32_t stack_id;
	uint32_t thread_id;
	uint32_t prot_or_advice;
	uint32_t flags; /* mmap's flags; TRACE_MAP_FILE set when a file is behind it */
	uint8_t op;     /* enum trace_map_op */
};
#define TRACE_MAP_FILE     (1u << 31)
#define TRACE_MAP_RESTATED (1u << 30) /* no call: of calls that were folded, or told again */

/* How many calls that mapped memory the row stands for. */
static inline uint64_t trace_map_calls(const struct trace_map_event *event)
{
	if (event->op == TRACE_MAP_FOLDED)
		return event->address;
	return event->op == TRACE_MAP && !(event->flags & TRACE_MAP_RESTATED);
}
