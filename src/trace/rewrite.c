/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of a trace with other names. Blocks are copied as they are but for
 * their numbers, which close the gaps that the old names leave (and no others:
 * lost blocks stay visible); the names follow behind, then the index. A trace without an end keeps
 * its journal, behind a hole as before:
 *
 *   file header | kept blocks | new names | index, trailer        finished
 *   file header | kept blocks | new names | hole | journal        unfinished
 */
#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/io.h"
#include "base/memory.h"
#include "trace/block.h"
#include "trace/index.h"
#include "trace/rows.h"
#include "trace/scan.h"

enum { REWRITE_BLOCK_BYTES = 4 << 20, REWRITE_COPY_BYTES = 1 << 20 };

struct trace_rewrite {
	struct source source;
	struct scan scan;
	char *path, *temporary;
	int fd;
	uint64_t end; /* of what was written */
	uint32_t sequence;
	ZSTD_CCtx *zstd;
	struct stream symbols, sources;
};

static int fail_writing(struct trace_rewrite *w, int code, struct tm_error *err)
{
	return tm_fail(err, code, "'%s' cannot be written: %s. The trace is as it was",
		       w->temporary, strerror(-code));
}

/* Bytes of the trace to the end of the copy. */
static int copy(struct trace_rewrite *w, uint64_t from, uint64_t bytes, struct tm_error *err)
{
	char *data = tm_grow_array(NULL, REWRITE_COPY_BYTES, 1);
	if (!data)
		return tm_fail(err, -ENOMEM, "There is no memory to copy '%s'", w->path);
	int rc = 0;
	while (bytes > 0 && rc == 0) {
		size_t part = bytes < REWRITE_COPY_BYTES ? (size_t)bytes : REWRITE_COPY_BYTES;
		rc = source_read(&w->source, data, part, from, err);
		if (rc == 0) {
			rc = io_pwrite(w->fd, data, part, w->end);
			if (rc)
				fail_writing(w, rc, err);
		}
		from += part;
		bytes -= part;
		w->end += part;
	}
	tm_free(data);
	return rc;
}

/* One block under another number. */
static int copy_block(struct trace_rewrite *w, const struct format_index_entry *entry,
		      uint32_t sequence, struct tm_error *err)
{
	struct format_block_header header = entry->header;
	block_renumber(&header, w->source.file_id, sequence);
	int rc = io_pwrite(w->fd, &header, sizeof header, w->end);
	if (rc < 0)
		return fail_writing(w, rc, err);
	w->end += sizeof header;
	rc = copy(w, entry->offset + sizeof header, header.stored_bytes, err);
	w->end = block_align(w->end);
	w->sequence = sequence + 1;
	return rc;
}

/* All that is sealed but the names and the index. */
static int copy_blocks(struct trace_rewrite *w, struct tm_error *err)
{
	uint32_t left_out = 0;
	int rc = copy(w, 0, sizeof(struct format_file_header), err);
	for (size_t i = 0; i < w->scan.count && rc == 0; i++) {
		const struct format_index_entry *entry = &w->scan.entries[i];
		unsigned type = entry->header.type;
		if (entry->header.flags & FORMAT_JOURNAL)
			break;
		if (type == FORMAT_SYMBOLS || type == FORMAT_SOURCES || type == FORMAT_INDEX)
			left_out++;
		else
			rc = copy_block(w, entry, entry->header.sequence - left_out, err);
	}
	return rc;
}

static int open_copy(struct trace_rewrite *w, struct tm_error *err)
{
	struct stat facts;
	size_t room = strlen(w->path) + 16;
	w->temporary = tm_alloc(room);
	w->zstd = block_packer();
	if (!w->temporary || !w->zstd)
		return tm_fail(err, -ENOMEM, "There is no memory to copy '%s'", w->path);
	snprintf(w->temporary, room, "%s.XXXXXX", w->path);
	w->fd = mkstemp(w->temporary); /* mode 0600 */
	if (w->fd < 0)
		return tm_fail(err, -errno, "No file can be made beside '%s': %s", w->path,
			       strerror(errno));
	/* The copy belongs to whom the trace belongs, as far as we may. */
	if (stat(w->path, &facts) == 0 && fchown(w->fd, facts.st_uid, facts.st_gid) == 0 &&
	    fchmod(w->fd, facts.st_mode & 0777))
		return fail_writing(w, -errno, err);
	return copy_blocks(w, err);
}

int trace_rewrite_open(const char *path, struct trace_rewrite **ret_rewrite, struct tm_error *err)
{
	struct trace_rewrite *w = tm_alloc(sizeof *w);
	if (!w)
		return tm_fail(err, -ENOMEM, "There is no memory to copy '%s'", path);
	w->fd = w->source.fd = -1;
	stream_init(&w->symbols, FORMAT_SYMBOLS, 1);
	stream_init(&w->sources, FORMAT_SOURCES, 1);
	w->path = tm_strdup(path);
	int rc = w->path ? source_open(&w->source, w->path, err)
			 : tm_fail(err, -ENOMEM, "There is no memory to copy '%s'", path);
	if (rc == 0)
		rc = scan_file(&w->scan, &w->source, err);
	if (rc == 0)
		rc = open_copy(w, err);
	if (rc < 0)
		trace_rewrite_cancel(w);
	else
		*ret_rewrite = w;
	return rc;
}

static int put_block(struct trace_rewrite *w, struct stream *s, uint32_t section,
		     struct tm_error *err)
{
	struct bytes raw = {0}, packed = {0};
	uint32_t from[STREAM_COLUMNS] = {0};
	struct format_block_header header = {
		.type = (uint8_t)s->type, .section = section, .sequence = w->sequence++};
	stream_summary(s, &header);
	stream_piece(s, from, &raw);
	stream_restart(s);
	if (!raw.failed)
		block_pack(w->zstd, w->source.file_id, &header, raw.data, raw.used, &packed);
	int rc = raw.failed || packed.failed ? -ENOMEM
					     : io_pwrite(w->fd, packed.data, packed.used, w->end);
	w->end += packed.used;
	bytes_done(&raw);
	bytes_done(&packed);
	return rc < 0 ? fail_writing(w, rc, err) : 0;
}

int trace_rewrite_symbols(struct trace_rewrite *w, uint32_t section,
			  const struct trace_symbol *symbols, size_t count, struct tm_error *err)
{
	int rc = 0;
	for (size_t i = 0; i < count && rc == 0; i++) {
		rows_put_symbol(&w->symbols, &symbols[i]);
		if (i + 1 == count || stream_bytes(&w->symbols) > REWRITE_BLOCK_BYTES)
			rc = put_block(w, &w->symbols, section, err);
	}
	return rc;
}

int trace_rewrite_sources(struct trace_rewrite *w, uint32_t section,
			  const struct trace_source_line *lines, size_t count, struct tm_error *err)
{
	int rc = 0;
	for (size_t i = 0; i < count && rc == 0; i++) {
		rows_put_source(&w->sources, &lines[i]);
		if (i + 1 == count || stream_bytes(&w->sources) > REWRITE_BLOCK_BYTES)
			rc = put_block(w, &w->sources, section, err);
	}
	return rc;
}

static int put_index(struct trace_rewrite *w, struct tm_error *err)
{
	struct bytes out = {0};
	int rc = index_build(w->fd, w->source.file_id, w->end, w->zstd, &out);
	if (rc == 0)
		rc = io_pwrite(w->fd, out.data, out.used, w->end);
	bytes_done(&out);
	return rc < 0 ? fail_writing(w, rc, err) : 0;
}

/* The journal moves to a place behind the names; the header says where. */
static int put_journal(struct trace_rewrite *w, struct tm_error *err)
{
	uint64_t from = w->source.journal_offset;
	uint64_t offset = block_align(w->end + FORMAT_JOURNAL_GAP);
	if (!from || from >= w->source.file_bytes)
		offset = 0;
	int rc = io_pwrite(w->fd, &offset, sizeof offset,
			   offsetof(struct format_file_header, journal_offset));
	if (rc < 0)
		return fail_writing(w, rc, err);
	w->end = offset;
	return offset ? copy(w, from, w->source.file_bytes - from, err) : 0;
}

int trace_rewrite_close(struct trace_rewrite *w, struct tm_error *err)
{
	int rc = w->scan.finished ? put_index(w, err) : put_journal(w, err);
	if (rc == 0 && fsync(w->fd))
		rc = fail_writing(w, -errno, err);
	if (rc == 0 && rename(w->temporary, w->path))
		rc = fail_writing(w, -errno, err);
	if (rc == 0)
		w->temporary = tm_free(w->temporary);
	trace_rewrite_cancel(w);
	return rc;
}

struct trace_rewrite *trace_rewrite_cancel(struct trace_rewrite *w)
{
	if (!w)
		return NULL;
	if (w->fd >= 0)
		close(w->fd);
	if (w->temporary && w->fd >= 0)
		unlink(w->temporary);
	stream_done(&w->symbols);
	stream_done(&w->sources);
	ZSTD_freeCCtx(w->zstd);
	scan_done(&w->scan);
	source_close(&w->source);
	tm_free(w->temporary);
	tm_free(w->path);
	return tm_free(w);
}
