/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was where in the address space: /proc/self/maps as bytehound copied it, or
 * regions that come and go; and the files that it embedded, from which names are
 * looked up.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/memory.h"
#include "import/bytehound.h"
#include "symbols/symbols.h"
#include "trace/texts.h"

enum {
	MAPS_MAX = 16 << 20, /* of one copy of /proc/self/maps */
	PATH_BYTES = 4096,
	COPY_BYTES = 64 << 10,
	REGIONS_MAX = 1 << 22,
	EXECUTABLE = 4, /* flag of a region */
};
#define FILES_BYTES_MAX (4ull << 30) /* of all embedded files: they go to TMPDIR */
#define ET_EXEC_CODE    2

static int end_here(struct bytehound *b)
{
	b->ended = true;
	return 0;
}

/* ---- regions ---- */

static const struct bytehound_file *file_of(const struct bytehound *b, const char *path)
{
	for (size_t i = 0; i < b->file_count; i++)
		if (!strcmp(b->files[i].path, path))
			return &b->files[i];
	return NULL;
}

/* Where the file's first byte would be, which is where its addresses count from. */
static uint64_t bias_of(const struct bytehound *b, const char *path, uint64_t start,
			uint64_t file_offset)
{
	const struct bytehound_file *file = file_of(b, path);
	if (file && file->fixed)
		return 0;
	return start - file_offset;
}

void bytehound_drop_range(struct bytehound *b, uint64_t start, uint64_t end)
{
	size_t kept = 0;
	for (size_t i = 0; i < b->region_count; i++)
		if (b->regions[i].end <= start || b->regions[i].start >= end)
			b->regions[kept++] = b->regions[i];
	b->region_count = kept;
}

static size_t place_of(const struct bytehound *b, uint64_t address)
{
	size_t low = 0, high = b->region_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (b->regions[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int add_region(struct bytehound *b, uint64_t start, uint64_t end, uint64_t file_offset,
		      const char *path, size_t length)
{
	uint32_t module_id;
	char name[PATH_BYTES];
	if (length >= sizeof name || !length || end <= start || b->region_count >= REGIONS_MAX)
		return 0;
	memcpy(name, path, length);
	name[length] = 0;
	if (*name != '/' && strcmp(name, "[vdso]") != 0)
		return 0;
	struct frames_module module = {.path = frames_text(name, length),
				       .bias = bias_of(b, name, start, file_offset)};
	int code = frames_module(b->frames, &module, &module_id, b->err);
	if (code)
		return code;
	bytehound_drop_range(b, start, end);
	if (b->region_count == b->region_room) {
		size_t room = b->region_room * 2 + 64;
		void *grown = tm_grow_array(b->regions, room, sizeof *b->regions);
		if (!grown)
			return bytehound_no_memory(b);
		b->regions = grown;
		b->region_room = room;
	}
	size_t at = place_of(b, start);
	memmove(&b->regions[at + 1], &b->regions[at], (b->region_count - at) * sizeof *b->regions);
	b->regions[at] = (struct bytehound_region){start, end, module_id};
	b->region_count++;
	return 0;
}

int64_t bytehound_module_at(struct bytehound *b, uint64_t address)
{
	size_t at = place_of(b, address);
	if (at == 0 || address >= b->regions[at - 1].end)
		return 0;
	return b->regions[at - 1].module_id;
}

/* A line of /proc/self/maps: only what is executed matters for stacks. */
static int add_map_line(struct bytehound *b, const char *line, size_t length)
{
	char text[PATH_BYTES + 128], rights[8];
	uint64_t start, end, offset;
	int used = 0;
	if (length >= sizeof text)
		return 0;
	memcpy(text, line, length);
	text[length] = 0;
	if (sscanf(text, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %n", &start, &end, rights,
		   &offset, &used) < 4 ||
	    !used || !strchr(rights, 'x'))
		return 0;
	return add_region(b, start, end, offset, text + used, length - (size_t)used);
}

static int read_maps(struct bytehound *b, uint64_t length)
{
	struct text text = {0};
	int code = 0;
	if (length > MAPS_MAX) {
		b->odd++;
		return bytehound_skip(&b->stream, length) ? 0 : end_here(b);
	}
	while (length > 0 && !b->ended) {
		const char *part;
		size_t kept;
		if (!bytehound_bytes(&b->stream, length < COPY_BYTES ? length : COPY_BYTES,
				     COPY_BYTES, &part, &kept)) {
			b->ended = true;
			break;
		}
		text_put_bytes(&text, part, kept);
		length -= kept;
	}
	if (text_error(&text))
		code = bytehound_no_memory(b);
	b->region_count = 0;
	const char *line = text_string(&text);
	while (!code && *line) {
		size_t bytes = strcspn(line, "\n");
		code = add_map_line(b, line, bytes);
		line += bytes + (line[bytes] != 0);
	}
	text_done(&text);
	return code;
}

/* ---- embedded files ---- */

static int open_nameless(void)
{
	char path[PATH_BYTES];
	const char *folder = getenv("TMPDIR");
	if (snprintf(path, sizeof path, "%s/tidemark.XXXXXX",
		     folder && *folder ? folder : "/tmp") >= (int)sizeof path)
		return -1;
	int fd = mkstemp(path);
	if (fd >= 0)
		unlink(path);
	return fd;
}

/* The rest of the contents into a file without a name, if it is a program or library. */
static int keep_file(struct bytehound *b, const char *path, uint64_t length)
{
	struct bytehound_stream *s = &b->stream;
	bool wanted = length > 64 && length <= FILES_BYTES_MAX - b->file_bytes &&
		      b->file_count < BYTEHOUND_FILES_MAX && !file_of(b, path) &&
		      bytehound_need(s, 20) &&
		      !memcmp(s->at,
			      "\x7f"
			      "ELF",
			      4);
	int fd = wanted ? open_nameless() : -1;
	if (fd < 0)
		return bytehound_skip(s, length) ? 0 : end_here(b);
	struct bytehound_file *file = &b->files[b->file_count];
	*file = (struct bytehound_file){.path = texts_add(&b->texts, path, strlen(path)),
					.fd = fd,
					.fixed = s->at[16] == ET_EXEC_CODE && !s->at[17]};
	b->file_count++;
	b->file_bytes += length;
	int code = file->path ? 0 : bytehound_no_memory(b);
	while (length > 0 && !code) {
		if (s->at == s->end && !bytehound_need(s, 1))
			return end_here(b);
		size_t part = (size_t)(s->end - s->at);
		if (part > length)
			part = (size_t)length;
		code = io_write(fd, s->at, part);
		if (code)
			tm_fail(b->err, code, "an embedded file cannot be kept in TMPDIR: %s",
				strerror(-code));
		s->at += part;
		length -= part;
	}
	return code;
}

int bytehound_file(struct bytehound *b, bool wide)
{
	struct bytehound_stream *s = &b->stream;
	const char *text;
	size_t kept;
	char path[PATH_BYTES];
	if (!bytehound_need(s, 12))
		return end_here(b);
	s->at += 8;
	uint32_t path_bytes = bytehound_u32(s);
	if (!bytehound_bytes(s, path_bytes, sizeof path - 1, &text, &kept))
		return end_here(b);
	memcpy(path, text, kept);
	path[kept] = 0;
	if (!bytehound_need(s, wide ? 8 : 4))
		return end_here(b);
	uint64_t length = wide ? bytehound_u64(s) : bytehound_u32(s);
	if (!strcmp(path, "/proc/self/maps"))
		return read_maps(b, length);
	return keep_file(b, path, length);
}

/* ---- regions that come and go ---- */

int bytehound_add_region(struct bytehound *b)
{
	struct bytehound_stream *s = &b->stream;
	uint64_t map_id, bytes, offset, inode, name_bytes;
	const char *name;
	size_t kept;
	if (!bytehound_need(s, 8))
		return end_here(b);
	s->at += 8;
	if (!bytehound_varint(s, &map_id) || !bytehound_need(s, 8))
		return end_here(b);
	uint64_t address = bytehound_u64(s);
	if (!bytehound_varint(s, &bytes) || !bytehound_varint(s, &offset) ||
	    !bytehound_varint(s, &inode) || !bytehound_need(s, 12))
		return end_here(b);
	s->at += 8;
	uint32_t flags = bytehound_u32(s);
	if (!bytehound_varint(s, &name_bytes) ||
	    !bytehound_bytes(s, name_bytes, PATH_BYTES, &name, &kept))
		return end_here(b);
	if (!(flags & EXECUTABLE) || address + bytes < address)
		return 0;
	return add_region(b, address, address + bytes, offset, name, kept);
}

/* ---- names ---- */

static int held(void *ctx, const char *path, const uint8_t *build_id, uint32_t build_id_bytes)
{
	const struct bytehound_file *file = file_of(ctx, path);
	(void)build_id;
	(void)build_id_bytes;
	return file ? file->fd : -1;
}

static void warn(void *ctx, const char *sentence)
{
	struct bytehound *b = ctx;
	import_fact(b->job, "%s.", sentence);
}

int bytehound_resolve(struct bytehound *b)
{
	struct symbols_options options = import_symbols(b->job);
	options.warn = warn;
	options.warn_ctx = b;
	options.held = held;
	options.held_ctx = b;
	uint64_t asked = 0, unnamed = 0;
	int code = frames_resolve(b->frames, &options, &asked, &unnamed, b->err);
	if (!code && unnamed)
		import_fact(b->job,
			    "%" PRIu64 " of %" PRIu64
			    " addresses have no name: their files are neither embedded nor "
			    "here, or are stripped; --sysroot says where they are.",
			    unnamed, asked);
	return code;
}

void bytehound_space_done(struct bytehound *b)
{
	for (size_t i = 0; i < b->file_count; i++)
		close(b->files[i].fd);
	tm_free(b->regions);
}
