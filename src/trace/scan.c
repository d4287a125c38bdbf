/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the blocks of finished, unfinished and damaged files: see the header. */
#include "trace/scan.h"

#include "base/memory.h"
#include "trace/block.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SCAN_SEARCH_BYTES = 65536 };

static int add(struct scan *scan, struct source *source, const struct format_index_entry *entry,
	       struct tm_error *err)
{
	if (entry->header.type == FORMAT_GAP) {
		scan->gap_bytes += sizeof entry->header + entry->header.stored_bytes;
		return 0;
	}
	if (scan->count == scan->room) {
		size_t room = scan->room ? scan->room * 2 : 256;
		struct format_index_entry *entries =
			tm_grow_array(scan->entries, room, sizeof *entries);
		if (!entries)
			return tm_fail(err, -ENOMEM, "There is no memory to open '%s'",
				       source->path);
		scan->entries = entries;
		scan->room = room;
	}
	scan->entries[scan->count++] = *entry;
	if (entry->header.section > scan->section)
		scan->section = entry->header.section;
	return 0;
}

/* Names may be found, and slices merged, after their section has ended. */
static bool may_be_late(unsigned type)
{
	return type == FORMAT_SYMBOLS || type == FORMAT_SOURCES || type == FORMAT_SLICE ||
	       type == FORMAT_CURVE;
}

/* May this block follow one of that section? Sections rise one by one. */
static bool section_fits(uint32_t section, const struct format_block_header *header)
{
	return header->section == section ||
	       (header->section < section && may_be_late(header->type)) ||
	       (header->section == section + 1 && header->type == FORMAT_BEGIN);
}

/* May this block follow those found so far? Where room is used again, sort_out() says more. */
static bool fits(const struct scan *scan, const struct source *source,
		 const struct format_index_entry *entry)
{
	if (entry->offset > source->file_bytes ||
	    entry->header.stored_bytes > source->file_bytes - entry->offset)
		return false;
	if (scan->count == 0)
		return entry->header.section == 0 || source->reuse;
	const struct format_index_entry *last = &scan->entries[scan->count - 1];
	return entry->offset >= block_end(last->offset, &last->header) &&
	       (source->reuse || section_fits(scan->section, &entry->header));
}

static int compare_sequences(const void *a, const void *b)
{
	const struct format_index_entry *x = a, *y = b;
	return x->header.sequence < y->header.sequence ? -1
						       : x->header.sequence > y->header.sequence;
}

/* Blocks that lie where older ones were: back into the order in which they were written. */
static void sort_out(struct scan *scan)
{
	size_t kept = 0;
	qsort(scan->entries, scan->count, sizeof *scan->entries, compare_sequences);
	scan->section = 0;
	for (size_t i = 0; i < scan->count; i++) {
		const struct format_index_entry *entry = &scan->entries[i];
		if (!section_fits(scan->section, &entry->header))
			continue;
		if (entry->header.section > scan->section)
			scan->section = entry->header.section;
		scan->entries[kept++] = *entry;
	}
	scan->count = kept;
}

/* One INDEX block's entries. */
static int read_index_block(struct scan *scan, struct source *source,
			    const struct format_index_entry *block, struct tm_error *err)
{
	struct bytes raw = {0};
	int rc = source_load(source, block, &raw, err);
	size_t count = raw.used / sizeof(struct format_index_entry);
	for (size_t i = 0; i < count && rc == 0; i++) {
		struct format_index_entry entry;
		memcpy(&entry, raw.data + i * sizeof entry, sizeof entry);
		if (!block_header_valid(&entry.header, source->file_id) ||
		    entry.header.flags & FORMAT_JOURNAL || !fits(scan, source, &entry))
			rc = tm_fail(err, -EBADMSG, "'%s': the index is damaged", source->path);
		else
			rc = add(scan, source, &entry, err);
	}
	bytes_done(&raw);
	return rc;
}

static int read_header(struct source *source, uint64_t offset, struct format_index_entry *ret,
		       size_t *ret_bytes, struct tm_error *err)
{
	memset(ret, 0, sizeof *ret);
	ret->offset = offset;
	return source_read_some(source, &ret->header, sizeof ret->header, offset, ret_bytes, err);
}

/* 1: read. 0: there is no index, or it is damaged. */
static int read_index(struct scan *scan, struct source *source, struct tm_error *err)
{
	struct format_trailer trailer;
	if (source->file_bytes < sizeof(struct format_file_header) + sizeof trailer)
		return 0;
	uint64_t end = source->file_bytes - sizeof trailer;
	int rc = source_read(source, &trailer, sizeof trailer, end, err);
	if (rc < 0)
		return rc;
	if (!block_trailer_valid(&trailer, source->file_id) || trailer.index_offset > end)
		return 0;
	uint64_t offset = trailer.index_offset;
	while (offset < end && rc == 0) {
		struct format_index_entry block;
		size_t got = 0;
		rc = read_header(source, offset, &block, &got, err);
		if (rc == 0 && (got < sizeof block.header ||
				!block_header_valid(&block.header, source->file_id) ||
				block.header.type != FORMAT_INDEX))
			rc = -EBADMSG;
		if (rc == 0)
			rc = read_index_block(scan, source, &block, err);
		if (rc == 0)
			offset = block_end(offset, &block.header);
	}
	if (rc == -EBADMSG) {
		source_warn(source, "the index at offset %" PRIu64 " is damaged", offset);
		scan->count = 0;
		scan->section = 0;
		scan->gap_bytes = 0;
		return 0;
	}
	return rc < 0 ? rc : 1;
}

static bool is_zero(const struct format_block_header *header)
{
	static const struct format_block_header zero;
	return memcmp(header, &zero, sizeof zero) == 0;
}

/* Is there a sealed block of this file in these bytes, at a multiple of the alignment? */
static size_t find_header(const struct source *source, const uint8_t *data, size_t bytes,
			  uint32_t sequence)
{
	struct format_block_header header;
	for (size_t i = 0; i + sizeof header <= bytes; i += FORMAT_ALIGN) {
		memcpy(&header, data + i, sizeof header);
		if (header.magic == FORMAT_BLOCK_MAGIC && !(header.flags & FORMAT_JOURNAL) &&
		    header.sequence >= sequence && block_header_valid(&header, source->file_id))
			return i;
	}
	return bytes;
}

/* After a damaged header: *offset moves to the next sealed block before limit. false: none. */
static int search(struct source *source, uint64_t limit, uint32_t sequence, uint64_t *offset,
		  struct tm_error *err)
{
	uint8_t *data = tm_grow_array(NULL, SCAN_SEARCH_BYTES, 1);
	if (!data)
		return tm_fail(err, -ENOMEM, "There is no memory to open '%s'", source->path);
	uint64_t at = *offset;
	int rc = 0;
	while (at < limit && rc == 0) {
		size_t got = 0;
		rc = source_read_some(source, data, SCAN_SEARCH_BYTES, at, &got, err);
		size_t found = rc == 0 ? find_header(source, data, got, sequence) : got;
		if (rc == 0 && found < got) {
			*offset = at + found;
			rc = 1;
		} else if (got < SCAN_SEARCH_BYTES) {
			break;
		} else {
			/* The last header's worth may begin one that goes on in the next piece. */
			at += SCAN_SEARCH_BYTES - sizeof(struct format_block_header);
		}
	}
	tm_free(data);
	return rc;
}

/* 1: *entry is the next sealed block at or after *offset; 0: there is none. */
static int next_sealed(struct source *source, uint32_t sequence, uint64_t *offset,
		       struct format_index_entry *entry, struct tm_error *err)
{
	uint64_t limit = source->journal_offset && source->journal_offset < source->file_bytes
				 ? source->journal_offset
				 : source->file_bytes;
	size_t got = 0;
	if (*offset >= limit)
		return 0;
	int rc = read_header(source, *offset, entry, &got, err);
	if (rc < 0)
		return rc;
	bool valid =
		got == sizeof entry->header && block_header_valid(&entry->header, source->file_id);
	if (valid && !(entry->header.flags & FORMAT_JOURNAL) && entry->header.sequence >= sequence)
		return 1;
	if (valid || got < sizeof entry->header || is_zero(&entry->header))
		return 0;
	uint64_t damaged = *offset;
	rc = search(source, limit, sequence, offset, err);
	if (rc <= 0)
		return rc;
	source_warn(source, "bytes %" PRIu64 " to %" PRIu64 " are damaged and were left out",
		    damaged, *offset);
	rc = read_header(source, *offset, entry, &got, err);
	return rc < 0 ? rc : 1;
}

static int hop(struct scan *scan, struct source *source, struct tm_error *err)
{
	uint64_t offset = sizeof(struct format_file_header);
	uint32_t sequence = 0;
	for (;;) {
		struct format_index_entry entry;
		int rc = next_sealed(source, sequence, &offset, &entry, err);
		if (rc <= 0)
			return rc;
		sequence = source->reuse ? 0 : entry.header.sequence + 1;
		offset = block_end(offset, &entry.header);
		if (entry.header.type == FORMAT_INDEX || !fits(scan, source, &entry))
			continue;
		rc = add(scan, source, &entry, err);
		if (rc < 0)
			return rc;
	}
}

/* A kill may have torn the last sealed block: then it is none. */
static int check_last(struct scan *scan, struct source *source, struct tm_error *err)
{
	if (scan->count == 0)
		return 0;
	int rc = source_verify(source, &scan->entries[scan->count - 1], err);
	if (rc != -EBADMSG)
		return rc;
	scan->count--;
	return 0;
}

/* What the last section has sealed, by type: first ordinal + 1 of the last block; 0 = none. */
struct sealed {
	uint32_t section;
	uint64_t last[FORMAT_TYPE_COUNT];
};

static struct sealed sealed_ordinals(const struct scan *scan)
{
	struct sealed sealed = {.section = UINT32_MAX};
	if (scan->count > 0)
		sealed.section = scan->section;
	for (size_t i = 0; i < scan->count; i++) {
		const struct format_block_header *header = &scan->entries[i].header;
		if (header->section != sealed.section || header->type >= FORMAT_TYPE_COUNT)
			continue;
		/* What is merged comes late, and stands for several numbers. */
		uint64_t end = header->first_ordinal +
			       (header->type == FORMAT_SLICE && header->count ? header->count : 1);
		if (block_is_merged(header))
			end = header->first_block_id;
		if (end > sealed.last[header->type])
			sealed.last[header->type] = end;
	}
	return sealed;
}

/* Is what this journal block has sealed already, or of no use? */
static bool superseded(const struct sealed *sealed, const struct format_block_header *header)
{
	return header->section != sealed->section || header->type >= FORMAT_TYPE_COUNT ||
	       header->first_ordinal < sealed->last[header->type];
}

static int read_journal(struct scan *scan, struct source *source, struct tm_error *err)
{
	uint64_t offset = source->journal_offset;
	uint32_t sequence = 0;
	struct sealed sealed = sealed_ordinals(scan);
	while (offset >= sizeof(struct format_file_header) && offset < source->file_bytes) {
		struct format_index_entry entry;
		size_t got = 0;
		int rc = read_header(source, offset, &entry, &got, err);
		if (rc < 0)
			return rc;
		if (got < sizeof entry.header ||
		    !block_header_valid(&entry.header, source->file_id) ||
		    !(entry.header.flags & FORMAT_JOURNAL) ||
		    (offset > source->journal_offset && entry.header.sequence != sequence))
			return 0;
		sequence = entry.header.sequence + 1;
		offset = block_end(offset, &entry.header);
		if (superseded(&sealed, &entry.header))
			continue;
		rc = source_verify(source, &entry, err);
		if (rc == -EBADMSG)
			return 0;
		if (rc == 0)
			rc = add(scan, source, &entry, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int scan_once(struct scan *scan, struct source *source, struct tm_error *err)
{
	int rc = read_index(scan, source, err);
	scan->finished = rc > 0;
	if (rc == 0)
		rc = hop(scan, source, err);
	if (rc >= 0 && source->reuse)
		sort_out(scan);
	if (rc == 0)
		rc = check_last(scan, source, err);
	if (rc == 0 && source->journal_offset > 0)
		rc = source_hold_journal(source, err);
	if (rc == 0 && source->journal_offset > 0)
		rc = read_journal(scan, source, err);
	if (rc < 0)
		scan_done(scan);
	return rc < 0 ? rc : 0;
}

/* While it was looked at its writer may have sealed what the journal had: then once more. */
int scan_file(struct scan *scan, struct source *source, struct tm_error *err)
{
	enum { TRIES = 8 };
	for (int i = 1;; i++) {
		int rc = scan_once(scan, source, err);
		if (rc < 0 || scan->finished || i == TRIES || !source_has_moved(source))
			return rc;
		scan_done(scan);
		*scan = (struct scan){0};
	}
}

void scan_done(struct scan *scan)
{
	scan->entries = tm_free(scan->entries);
	scan->count = scan->room = 0;
}
