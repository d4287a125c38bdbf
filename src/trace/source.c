/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes, blocks and warnings of a trace file being read: see the header. */
#include "trace/source.h"

#include "base/io.h"
#include "base/memory.h"
#include "trace/block.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { JOURNAL_HELD_MOST = 64 << 20 };

static int open_file(struct source *s, struct tm_error *err)
{
	struct stat status;
	s->fd = open(s->path, O_RDONLY | O_CLOEXEC);
	if (s->fd < 0)
		return tm_fail(err, -errno, "'%s' cannot be opened: %s", s->path, strerror(errno));
	if (fstat(s->fd, &status) < 0)
		return tm_fail(err, -errno, "'%s' cannot be read: %s", s->path, strerror(errno));
	if (!S_ISREG(status.st_mode))
		return tm_fail(err, -EINVAL, "'%s' is not a file", s->path);
	s->file_bytes = (uint64_t)status.st_size;
	s->held_bytes = io_held_bytes(&status);
	struct format_file_header header;
	if (s->file_bytes < sizeof header)
		return tm_fail(err, -EBADMSG, "'%s' is too short for a Tidemark trace", s->path);
	int rc = source_read(s, &header, sizeof header, 0, err);
	if (rc == 0)
		rc = block_file_header_check(&header, s->path, err);
	s->file_id = header.file_id;
	s->journal_offset = header.journal_offset;
	s->reuse = header.reuse == 1;
	return rc;
}

int source_open(struct source *s, const char *path, struct tm_error *err)
{
	s->fd = -1;
	s->journal = NULL;
	s->journal_bytes = 0;
	s->path = tm_strdup(path);
	if (!s->path)
		return tm_fail(err, -ENOMEM, "There is no memory to open '%s'", path);
	int rc = open_file(s, err);
	if (rc < 0)
		source_close(s);
	return rc;
}

bool source_is_written(const struct source *s)
{
	struct flock whole = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	return fcntl(s->fd, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
}

void source_close(struct source *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	s->path = tm_free(s->path);
	s->journal = tm_free(s->journal);
}

int source_hold_journal(struct source *s, struct tm_error *err)
{
	size_t got = 0;
	s->journal = tm_free(s->journal);
	s->journal_bytes = 0;
	if (s->journal_offset >= s->file_bytes ||
	    s->file_bytes - s->journal_offset > JOURNAL_HELD_MOST)
		return 0;
	size_t bytes = (size_t)(s->file_bytes - s->journal_offset);
	uint8_t *held = tm_grow_array(NULL, bytes, 1);
	int rc = held ? source_read_some(s, held, bytes, s->journal_offset, &got, err) : 0;
	if (rc < 0) {
		tm_free(held);
		return rc;
	}
	s->journal = held;
	s->journal_bytes = got;
	return 0;
}

bool source_has_moved(struct source *s)
{
	struct stat status;
	struct format_file_header header;
	if (fstat(s->fd, &status) < 0 || source_read(s, &header, sizeof header, 0, NULL) ||
	    header.file_id != s->file_id || header.journal_offset == s->journal_offset)
		return false;
	s->journal_offset = header.journal_offset;
	s->file_bytes = (uint64_t)status.st_size;
	s->held_bytes = io_held_bytes(&status);
	s->warning[0] = '\0';
	s->warnings = 0;
	s->warnings_cut = false;
	return true;
}

/* From the journal that is held, if it is there. */
static bool read_held(const struct source *s, void *data, size_t bytes, uint64_t offset)
{
	if (!s->journal_bytes || offset < s->journal_offset || bytes > s->journal_bytes ||
	    offset - s->journal_offset > s->journal_bytes - bytes)
		return false;
	memcpy(data, s->journal + (offset - s->journal_offset), bytes);
	return true;
}

int source_read_some(struct source *s, void *data, size_t bytes, uint64_t offset, size_t *ret_bytes,
		     struct tm_error *err)
{
	size_t got = 0;
	if (read_held(s, data, bytes, offset)) {
		*ret_bytes = bytes;
		return 0;
	}
	int rc = io_pread(s->fd, data, bytes, offset, &got);
	if (rc < 0)
		return tm_fail(err, rc, "'%s' cannot be read at offset %" PRIu64 ": %s", s->path,
			       offset, strerror(-rc));
	atomic_fetch_add_explicit(&s->bytes_read, got, memory_order_relaxed);
	*ret_bytes = got;
	return 0;
}

int source_read(struct source *s, void *data, size_t bytes, uint64_t offset, struct tm_error *err)
{
	size_t got = 0;
	int rc = source_read_some(s, data, bytes, offset, &got, err);
	if (rc == 0 && got < bytes)
		rc = tm_fail(err, -EBADMSG, "'%s' ends within a block at offset %" PRIu64, s->path,
			     offset + got);
	return rc;
}

static int bad_block(struct source *s, const struct format_index_entry *entry, const char *what,
		     struct tm_error *err)
{
	return tm_fail(err, -EBADMSG, "'%s': the block of %s at offset %" PRIu64 " %s", s->path,
		       source_type_name(entry->header.type), entry->offset, what);
}

/* The payload as it is stored, checked. */
static int load_stored(struct source *s, const struct format_index_entry *entry,
		       struct bytes *stored, struct tm_error *err)
{
	uint32_t bytes = entry->header.stored_bytes;
	stored->used = 0;
	if (entry->offset + sizeof entry->header > s->file_bytes ||
	    bytes > s->file_bytes - entry->offset - sizeof entry->header)
		return bad_block(s, entry, "is cut off", err);
	if (!bytes_reserve(stored, bytes + 1))
		return tm_fail(err, -ENOMEM, "There is no memory to read '%s'", s->path);
	int rc = source_read(s, stored->data, bytes, entry->offset + sizeof entry->header, err);
	if (rc == 0 && !block_payload_valid(&entry->header, s->file_id, stored->data))
		rc = bad_block(s, entry, "is damaged: its checksum does not match", err);
	stored->used = bytes;
	return rc;
}

int source_verify(struct source *s, const struct format_index_entry *entry, struct tm_error *err)
{
	struct bytes stored = {0};
	int rc = load_stored(s, entry, &stored, err);
	bytes_done(&stored);
	return rc;
}

int source_load(struct source *s, const struct format_index_entry *entry, struct bytes *raw,
		struct tm_error *err)
{
	struct bytes stored = {0};
	raw->used = 0;
	int rc = load_stored(s, entry, &stored, err);
	if (rc == 0 && !bytes_reserve(raw, (size_t)entry->header.raw_bytes + 1))
		rc = tm_fail(err, -ENOMEM, "There is no memory to read '%s'", s->path);
	if (rc == 0 && !block_unpack(&entry->header, stored.data, raw->data))
		rc = bad_block(s, entry, "cannot be unpacked", err);
	if (rc == 0)
		raw->used = entry->header.raw_bytes;
	bytes_done(&stored);
	return rc;
}

void source_warn(struct source *s, const char *format, ...)
{
	size_t used = strlen(s->warning), room = sizeof s->warning - used;
	char text[sizeof s->warning];
	va_list arguments;
	va_start(arguments, format);
	int length = vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	s->warnings++;
	if (s->warnings_cut)
		return;
	s->warnings_cut = length < 0 || (size_t)length + sizeof "; ; and more" > room;
	snprintf(s->warning + used, room, "%s%s", used > 0 ? "; " : "",
		 s->warnings_cut ? "and more" : text);
}

uint64_t source_limit(const struct source *s)
{
	uint64_t most = 1u << 28, fits = s->file_bytes * 32 + 1024;
	return fits < most ? fits : most;
}

const char *source_type_name(unsigned type)
{
	static const char *const names[FORMAT_TYPE_COUNT] = {
		[FORMAT_BEGIN] = "meta data",
		[FORMAT_STACKS] = "stacks",
		[FORMAT_MODULES] = "modules",
		[FORMAT_THREADS] = "threads",
		[FORMAT_EVENTS] = "events",
		[FORMAT_ADDRESSES] = "addresses",
		[FORMAT_MAPS] = "mapped memory",
		[FORMAT_SAMPLES] = "samples",
		[FORMAT_MOMENTS] = "marks and pauses",
		[FORMAT_SLICE] = "aggregates",
		[FORMAT_SYMBOLS] = "symbols",
		[FORMAT_END] = "the section's end",
		[FORMAT_REFS] = "references",
		[FORMAT_INDEX] = "the index",
		[FORMAT_ENDS] = "ends of blocks",
		[FORMAT_SUMS] = "sums",
		[FORMAT_CURVE] = "curves",
		[FORMAT_SOURCES] = "source lines",
		[FORMAT_GAP] = "room that is free",
	};
	return type < FORMAT_TYPE_COUNT && names[type] ? names[type] : "an unknown kind";
}
