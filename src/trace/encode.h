/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events to columns. Fills one block at a time; the caller takes the columns
 * when it is full, or pieces of them earlier, for the journal.
 */
#pragma once

#include "base/error.h"
#include "trace/bytes.h"
#include "trace/columns.h"
#include "trace/stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct encode;

TM_MUST_CHECK int encode_new(bool addresses, struct encode **ret_encode);
struct encode *encode_free(struct encode *e);

/*
 * A section begins: ordinals count from 0 again. Frees of blocks older than the
 * open slice are noted in *refs (may be NULL), which must outlive the section.
 */
void encode_section(struct encode *e, bool free_stacks, struct stream *refs);
/*
 * The section that begins leaves out blocks: numbers of those that begin may jump, and
 * TRACE_EVENT_LASTING is stored. Right after encode_section(). -ENOMEM.
 */
TM_MUST_CHECK int encode_culled(struct encode *e);
/* One past the highest thread id of the section so far. */
uint32_t encode_thread_end(const struct encode *e);
/*
 * Encode events until the block is full; *ret_taken tells how many. -ENOMEM, or
 * -EINVAL for an event that cannot be: block ids out of order, an unknown op, a
 * stack that is not below stack_end.
 */
TM_MUST_CHECK int encode_events(struct encode *e, uint32_t stack_end,
				const struct trace_event *events, size_t count, size_t *ret_taken);
bool encode_full(const struct encode *e);
/* Events in the open block. */
size_t encode_count(const struct encode *e);
/* Ordinals, times and sizes of the open block for its header. */
void encode_summary(const struct encode *e, struct format_block_header *header);
/*
 * The payload of the open block's ENDS; *header is that of its EVENTS and changes where the two
 * differ. False without memory, or if a stack is not below stack_end: there is none then.
 */
bool encode_ends(const struct encode *e, uint32_t stack_end, struct format_block_header *header,
		 struct bytes *out);
/* The open block's columns that follow *from (how far each had come), and *from moves on. */
void encode_piece(const struct encode *e, bool addresses, uint32_t from[COLUMN_COUNT],
		  struct bytes *out);
/* The block was taken: the next begins. O(1). */
void encode_restart(struct encode *e);
/* Events up to these ordinals are not stored. The open block must be empty. -EINVAL backwards. */
TM_MUST_CHECK int encode_skip(struct encode *e, uint64_t event, uint64_t block_id);
