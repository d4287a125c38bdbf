/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of events: what their headers say, and decoding one. */
#include "trace/reader.h"

#include "base/memory.h"
#include "trace/decode.h"

#include <errno.h>

size_t trace_reader_event_block_count(const struct trace_reader *r)
{
	return section_count(&r->section, FORMAT_EVENTS);
}

int trace_reader_event_block(const struct trace_reader *r, size_t index,
			     struct trace_event_block *ret)
{
	if (index >= section_count(&r->section, FORMAT_EVENTS))
		return -ENOENT;
	const struct section_group *group = section_group(&r->section, FORMAT_EVENTS, index);
	const struct format_block_header *header = &group->header;
	*ret = (struct trace_event_block){
		.first_event = header->first_ordinal,
		.event_count = header->count,
		.first_block_id = header->first_block_id,
		.start_ns = header->start_ns,
		.end_ns = header->end_ns,
		.min_size_bytes = header->min_size_bytes,
		.max_size_bytes = header->max_size_bytes,
		.offset = r->scan.entries[r->section.members[group->first]].offset,
	};
	return 0;
}

/* The block of addresses that belongs to a block of events, or NULL. */
static const struct section_group *find_addresses(const struct trace_reader *r,
						  const struct section_group *events)
{
	size_t low = 0, high = section_count(&r->section, FORMAT_ADDRESSES);
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct section_group *group =
			section_group(&r->section, FORMAT_ADDRESSES, middle);
		if (group->header.first_ordinal == events->header.first_ordinal)
			return group->header.count == events->header.count ? group : NULL;
		if (group->header.first_ordinal < events->header.first_ordinal)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

/* Frees of blocks older than the last slice get their stack and size from the journal. */
static void apply_refs(const struct trace_reader *r, uint64_t first, struct trace_event *events,
		       size_t count)
{
	const struct rows_ref *refs = r->refs.rows;
	size_t low = 0, high = r->refs.count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (refs[middle].ordinal < first)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < r->refs.count && refs[low].ordinal - first < count; low++) {
		struct trace_event *event = &events[refs[low].ordinal - first];
		event->stack_id = refs[low].stack_id;
		event->size_bytes = refs[low].size_bytes;
		event->flags |= TRACE_EVENT_OLD;
	}
}

static struct decode_memory *take_memory(struct trace_reader *r)
{
	struct decode_memory *memory = NULL;
	for (size_t i = 0; i < READER_MEMORIES && !memory; i++)
		memory = atomic_exchange(&r->memories[i], NULL);
	return memory ? memory : decode_memory_new();
}

static void give_memory(struct trace_reader *r, struct decode_memory *memory)
{
	for (size_t i = 0; i < READER_MEMORIES; i++) {
		struct decode_memory *none = NULL;
		if (atomic_compare_exchange_strong(&r->memories[i], &none, memory))
			return;
	}
	decode_memory_free(memory);
}

static int decode_group(struct trace_reader *r, const struct section_group *group,
			struct span *columns, bool addresses, struct trace_event *events,
			struct tm_error *err)
{
	const struct format_block_header *header = &group->header;
	const struct decode_limits limits = {
		.first_block_id = header->first_block_id,
		.start_ns = header->start_ns,
		.stack_count = r->stack_count,
		.thread_count = r->thread_count,
		.free_stacks = header->flags & FORMAT_FREE_STACKS,
	};
	struct decode_memory *memory = take_memory(r);
	const char *wrong =
		memory ? decode_events(&limits, columns, addresses, memory, events, header->count)
		       : decode_no_memory;
	if (memory)
		give_memory(r, memory);
	if (wrong)
		return tm_fail(err, wrong == decode_no_memory ? -ENOMEM : -EBADMSG,
			       "'%s': the events %llu to %llu cannot be read: %s", r->source.path,
			       (unsigned long long)header->first_ordinal,
			       (unsigned long long)(header->first_ordinal + header->count), wrong);
	apply_refs(r, header->first_ordinal, events, header->count);
	return 0;
}

static int read_events(struct trace_reader *r, size_t index, bool with_addresses,
		       struct trace_event *events, struct tm_error *err)
{
	if (index >= section_count(&r->section, FORMAT_EVENTS))
		return tm_fail(err, -ENOENT, "'%s' has no block of events %zu", r->source.path,
			       index);
	const struct section_group *group = section_group(&r->section, FORMAT_EVENTS, index);
	const struct section_group *addresses = with_addresses ? find_addresses(r, group) : NULL;
	struct span columns[COLUMN_COUNT];
	struct bytes storage = {0}, address_storage = {0};
	for (int i = 0; i < COLUMN_COUNT; i++)
		columns[i] = span_of(NULL, 0);
	int rc = section_columns(&r->section, &r->scan, &r->source, group, &storage, columns,
				 COLUMN_EVENTS_COUNT, err);
	if (rc == 0 && addresses) {
		int address_rc = section_columns(&r->section, &r->scan, &r->source, addresses,
						 &address_storage, columns + COLUMN_EVENTS_COUNT,
						 COLUMN_COUNT - COLUMN_EVENTS_COUNT, err);
		/* Without its addresses a block of events is still worth reading. */
		if (address_rc == -EBADMSG)
			addresses = NULL;
		else
			rc = address_rc;
	}
	if (rc == 0)
		rc = decode_group(r, group, columns, addresses != NULL, events, err);
	bytes_done(&storage);
	bytes_done(&address_storage);
	return rc;
}

int trace_reader_events(struct trace_reader *r, size_t index, struct trace_event *events,
			struct tm_error *err)
{
	return read_events(r, index, true, events, err);
}

int trace_reader_plain_events(struct trace_reader *r, size_t index, struct trace_event *events,
			      struct tm_error *err)
{
	return read_events(r, index, false, events, err);
}
