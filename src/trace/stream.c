/* SPDX-License-Identifier: Apache-2.0 */
/* Records on their way into a block: see the header. */
#include "trace/stream.h"

#include "trace/container.h"

void stream_init(struct stream *s, enum format_type type, unsigned column_count)
{
	*s = (struct stream){.type = type, .column_count = column_count};
}

void stream_done(struct stream *s)
{
	for (unsigned i = 0; i < s->column_count; i++)
		bytes_done(&s->columns[i]);
}

void stream_count(struct stream *s, uint64_t time_ns, uint32_t id)
{
	if (s->count == 0)
		s->start_ns = s->end_ns = time_ns;
	s->count++;
	if (time_ns > s->end_ns)
		s->end_ns = time_ns;
	if (id >= s->id_end)
		s->id_end = id + 1;
}

void stream_restart(struct stream *s)
{
	s->first_ordinal += s->count;
	s->count = s->journal_count = 0;
	for (unsigned i = 0; i < s->column_count; i++) {
		s->columns[i].used = 0;
		s->journal_from[i] = 0;
		s->last[i] = 0;
	}
}

void stream_section(struct stream *s)
{
	stream_restart(s);
	s->first_ordinal = 0;
	s->id_end = 0;
}

size_t stream_bytes(const struct stream *s)
{
	size_t total = 0;
	for (unsigned i = 0; i < s->column_count; i++)
		total += s->columns[i].used;
	return total;
}

void stream_summary(const struct stream *s, struct format_block_header *header)
{
	header->first_ordinal = s->first_ordinal;
	header->count = s->count;
	header->first_block_id = s->id_end;
	header->start_ns = s->start_ns;
	header->end_ns = s->end_ns;
}

void stream_piece(const struct stream *s, uint32_t from[STREAM_COLUMNS], struct bytes *out)
{
	struct span columns[STREAM_COLUMNS];
	for (unsigned i = 0; i < s->column_count; i++) {
		const struct bytes *column = &s->columns[i];
		out->failed |= column->failed;
		columns[i] = span_of(column->data ? column->data + from[i] : NULL,
				     column->used - from[i]);
		from[i] = (uint32_t)column->used;
	}
	container_put(out, columns, s->column_count);
}
