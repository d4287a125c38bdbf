/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records that are not heap events, on their way into a block: a few growing
 * columns, and how much of them the journal has already. Sealing empties it.
 */
#pragma once

#include "trace/bytes.h"
#include "trace/format.h"

#include <stdint.h>

enum { STREAM_COLUMNS = 3 };

struct stream {
	enum format_type type;
	unsigned column_count;
	struct bytes columns[STREAM_COLUMNS];
	uint64_t first_ordinal; /* of the first record in it, in the section */
	uint32_t count;
	uint32_t id_end; /* one past the highest id ever put into it */
	uint64_t start_ns, end_ns;
	/* Deltas refer to the record before; a block starts from zeros. */
	uint64_t last[STREAM_COLUMNS];
	/* How far the journal's copy has come. */
	uint32_t journal_count;
	uint32_t journal_from[STREAM_COLUMNS];
};

void stream_init(struct stream *s, enum format_type type, unsigned column_count);
void stream_done(struct stream *s);
/* One record with this time and id was put into the columns. */
void stream_count(struct stream *s, uint64_t time_ns, uint32_t id);
/* The columns were taken: the next block begins. */
void stream_restart(struct stream *s);
/* A new section begins. */
void stream_section(struct stream *s);
size_t stream_bytes(const struct stream *s);
/* Header words, and the columns from from[] on; from[] moves on. */
void stream_summary(const struct stream *s, struct format_block_header *header);
void stream_piece(const struct stream *s, uint32_t from[STREAM_COLUMNS], struct bytes *out);
