/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns to events. Everything is checked: a file may be damaged or hostile.
 */
#pragma once

#include "trace/bytes.h"
#include "trace/columns.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a block of events may refer to. */
struct decode_limits {
	uint64_t first_block_id;
	uint64_t start_ns;
	uint32_t stack_count; /* ids below this are known */
	uint32_t thread_count;
	bool free_stacks;
};

/* What is "wrong" when there is no memory: compare the pointer. */
extern const char decode_no_memory[];

/* What decoding remembers within a block of events; can be used for one after the other. */
struct decode_memory;
/* About 5 MiB of address space; NULL without memory. */
struct decode_memory *decode_memory_new(void);
struct decode_memory *decode_memory_free(struct decode_memory *m);

/*
 * Decode `count` events (at most FORMAT_BLOCK_EVENTS) from columns[COLUMN_COUNT];
 * without addresses the address columns are empty. Frees of blocks that began in
 * the same block of events get their address, size and stack, too. NULL, or what
 * is wrong with the columns.
 */
const char *decode_events(const struct decode_limits *limits, struct span columns[COLUMN_COUNT],
			  bool addresses, struct decode_memory *memory, struct trace_event *events,
			  size_t count);
