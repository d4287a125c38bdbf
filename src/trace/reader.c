/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a trace, choosing a section, facts of the whole file. */
#include "trace/reader.h"

#include "base/memory.h"
#include "trace/block.h"

#include <errno.h>
#include <inttypes.h>

static void warn_unfinished(struct trace_reader *r)
{
	const struct scan *scan = &r->scan;
	size_t sealed = 0, events = 0;
	while (sealed < scan->count && !(scan->entries[sealed].header.flags & FORMAT_JOURNAL))
		sealed++;
	for (size_t i = sealed; i < scan->count; i++)
		events += scan->entries[i].header.type == FORMAT_EVENTS;
	uint64_t end = sizeof(struct format_file_header);
	if (sealed > 0)
		end = block_end(scan->entries[sealed - 1].offset,
				&scan->entries[sealed - 1].header);
	source_warn(
		&r->source,
		"the file has no end (it is still being written, or its writing was cut short); "
		"it was read up to the last whole block, which ends at offset %" PRIu64 "%s",
		end, events > 0 ? ", and from the journal" : "");
}

static int open_reader(struct trace_reader *r, const char *path, struct tm_error *err)
{
	int rc = source_open(&r->source, path, err);
	if (rc == 0)
		rc = scan_file(&r->scan, &r->source, err);
	if (rc < 0)
		return rc;
	if (!r->scan.finished)
		warn_unfinished(r);
	if (r->scan.count == 0)
		return tm_fail(err, -ENODATA,
			       "'%s' has no whole block: its recording ended before "
			       "anything was written",
			       path);
	r->section_count = r->scan.section + 1;
	return trace_reader_select(r, r->section_count - 1, err);
}

int trace_reader_open(const char *path, struct trace_reader **ret_reader, struct tm_error *err)
{
	struct trace_reader *r = tm_alloc(sizeof *r);
	if (!r)
		return tm_fail(err, -ENOMEM, "There is no memory to open '%s'", path);
	r->source.fd = -1;
	int rc = open_reader(r, path, err);
	if (rc < 0) {
		trace_reader_close(r);
		return rc;
	}
	*ret_reader = r;
	return 0;
}

struct trace_reader *trace_reader_close(struct trace_reader *r)
{
	if (!r)
		return NULL;
	reader_forget(r);
	for (size_t i = 0; i < READER_MEMORIES; i++)
		decode_memory_free(atomic_load(&r->memories[i]));
	section_done(&r->section);
	reader_slices_done(&r->slices);
	scan_done(&r->scan);
	source_close(&r->source);
	return tm_free(r);
}

int trace_reader_select(struct trace_reader *r, size_t section, struct tm_error *err)
{
	if (section >= r->section_count)
		return tm_fail(err, -ENOENT, "'%s' has %u sections, there is no number %zu",
			       r->source.path, r->section_count, section);
	struct section selected = {0};
	int rc = section_init(&selected, &r->scan, (uint32_t)section, err);
	struct reader_slices slices = {0};
	if (rc == 0)
		rc = reader_slices_init(&slices, &selected, err);
	if (rc < 0) {
		section_done(&selected);
		return rc;
	}
	reader_forget(r);
	section_done(&r->section);
	reader_slices_done(&r->slices);
	r->section = selected;
	r->slices = slices;
	r->section_number = (uint32_t)section;
	uint64_t limit = source_limit(&r->source);
	r->stack_count = (uint32_t)section_ordinals(&selected, FORMAT_STACKS, limit) + 1;
	r->thread_count = (uint32_t)section_ids(&selected, FORMAT_THREADS, limit);
	rc = reader_load_end(r, err);
	return rc < 0 ? rc : reader_load_refs(r, err);
}

size_t trace_reader_section_count(const struct trace_reader *r)
{
	return r->section_count;
}

bool trace_reader_complete(const struct trace_reader *r)
{
	return section_count(&r->section, FORMAT_END) > 0;
}

bool trace_reader_indexed(const struct trace_reader *r)
{
	return r->scan.finished;
}

const char *trace_reader_warning(const struct trace_reader *r)
{
	return r->source.warnings > 0 ? r->source.warning : NULL;
}

uint64_t trace_reader_bytes_read(const struct trace_reader *r)
{
	return atomic_load(&((struct trace_reader *)r)->source.bytes_read);
}

uint64_t trace_reader_file_bytes(const struct trace_reader *r)
{
	return r->source.held_bytes;
}

bool trace_reader_usage(const struct trace_reader *r, size_t index, struct trace_usage *ret)
{
	if (index + 1 >= FORMAT_TYPE_COUNT)
		return false;
	unsigned type = (unsigned)index + 1;
	struct trace_usage usage = {.name = source_type_name(type)};
	for (size_t i = 0; i < r->scan.count; i++) {
		const struct format_block_header *header = &r->scan.entries[i].header;
		if (header->type != type)
			continue;
		usage.blocks++;
		usage.stored_bytes += sizeof *header + header->stored_bytes;
		usage.raw_bytes += header->raw_bytes;
	}
	*ret = usage;
	return true;
}
