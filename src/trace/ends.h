/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What events that end older heap blocks say of them: a block of ENDS belongs to
 * a block of EVENTS and has a row for each end of a heap block that was born
 * before it. With both, every end has its stack and size without a look at
 * older events.
 */
#pragma once

#include "trace/bytes.h"
#include "trace/format.h"
#include "trace/records.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows of the open block of events. */
struct ends {
	struct trace_old_end *rows;
	size_t count, room;
	uint64_t undone; /* reallocs that failed, in the same block of events */
	bool failed;     /* no memory, or a row that cannot be: nothing is written */
};

void ends_done(struct ends *ends);
static inline void ends_clear(struct ends *ends)
{
	ends->count = 0;
	ends->undone = 0;
	ends->failed = false;
}
/* Longer rows[]. Not inline: the hot path calls it rarely. */
void ends_grow(struct ends *ends);

static inline void ends_add(struct ends *ends, const struct trace_old_end *row)
{
	if (__builtin_expect(ends->count == ends->room, 0))
		ends_grow(ends);
	if (!ends->failed)
		ends->rows[ends->count++] = *row;
}

/* The payload, and what the header says of it. Stacks must be below stack_count. */
void ends_put(struct bytes *out, const struct ends *ends, uint32_t stack_count,
	      struct format_block_header *header);
/* `rows` has room for header->count. NULL, or what is wrong (decode_no_memory included). */
const char *ends_get(struct span payload, const struct format_block_header *header,
		     uint32_t stack_count, struct trace_old_end *rows);
