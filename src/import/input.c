/* SPDX-License-Identifier: Apache-2.0 */
#include "import/input.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/io.h"
#include "base/memory.h"

enum {
	ROOM_BYTES = 2 * INPUT_PEEK_MAX,
	PACKED_BYTES = 256 << 10,
	FILL_BYTES = 256 << 10, /* unpacked at a time, so that callers have something to chew */
	GZIP_WINDOW = 15 + 16,  /* zlib's way to ask for a gzip header */
};

enum packing { PACKED_NOT, PACKED_GZIP, PACKED_ZSTD };

struct import_input {
	int fd;
	enum packing packing;
	uint64_t file_bytes, packed_at; /* packed_at: bytes read from the file */
	uint64_t taken;
	char *room; /* unpacked: room[begin..end) */
	size_t begin, end;
	bool ended;
	bool between; /* packed: no member or frame is open */
	bool begun;   /* packed: one was */
	char problem[200];
	unsigned char *packed; /* packed[packed_begin..packed_end) */
	size_t packed_begin, packed_end;
	z_stream gzip;
	bool gzip_open;
	ZSTD_DStream *zstd;
};

/* ---- unpacking ---- */

/* The first reason counts. */
static void give_up(struct import_input *in, const char *what, const char *why)
{
	in->ended = true;
	if (!in->problem[0])
		snprintf(in->problem, sizeof in->problem, "%s%s%s", what, why ? ": " : "",
			 why ? why : "");
}

/* More packed bytes; false at the end of the file. */
static bool read_packed(struct import_input *in)
{
	size_t got = 0;
	int code = io_pread(in->fd, in->packed, PACKED_BYTES, in->packed_at, &got);
	if (code)
		give_up(in, "it cannot be read", strerror(-code));
	in->packed_at += got;
	in->packed_begin = 0;
	in->packed_end = got;
	return got > 0;
}

static bool starts(const unsigned char *data, size_t bytes, const char *magic, size_t magic_bytes)
{
	return bytes >= magic_bytes && !memcmp(data, magic, magic_bytes);
}

static enum packing packing_of(const unsigned char *data, size_t bytes)
{
	if (starts(data, bytes, "\x1f\x8b\x08", 3))
		return PACKED_GZIP;
	/* A frame, or one to be skipped before it. */
	if (starts(data, bytes, "\x28\xb5\x2f\xfd", 4) ||
	    (bytes >= 4 && (data[0] & 0xf0) == 0x50 && starts(data + 1, 3, "\x2a\x4d\x18", 3)))
		return PACKED_ZSTD;
	return PACKED_NOT;
}

static size_t unpack_plain(struct import_input *in, char *to, size_t room)
{
	size_t got = 0;
	int code = io_pread(in->fd, to, room, in->packed_at, &got);
	if (code)
		give_up(in, "it cannot be read", strerror(-code));
	in->packed_at += got;
	return got;
}

/* What follows a whole member may be another, or filling that is not ours. */
static bool next_member(struct import_input *in)
{
	size_t left = in->packed_end - in->packed_begin;
	if (left == 0 || in->packed[in->packed_begin] != 0x1f)
		return false;
	return inflateReset(&in->gzip) == Z_OK;
}

static size_t unpack_gzip(struct import_input *in, char *to, size_t room)
{
	z_stream *z = &in->gzip;
	z->next_out = (Bytef *)to;
	z->avail_out = (uInt)room;
	while (z->avail_out == room && !in->ended) {
		if (in->packed_begin == in->packed_end && !read_packed(in)) {
			if (!in->between)
				give_up(in, "the packed file ends before its end", NULL);
			in->ended = true;
			break;
		}
		if (in->between && in->begun && !next_member(in)) {
			in->ended = true;
			break;
		}
		in->between = false;
		in->begun = true;
		z->next_in = in->packed + in->packed_begin;
		z->avail_in = (uInt)(in->packed_end - in->packed_begin);
		int code = inflate(z, Z_NO_FLUSH);
		in->packed_begin = in->packed_end - z->avail_in;
		if (code == Z_STREAM_END)
			in->between = true;
		else if (code != Z_OK && code != Z_BUF_ERROR)
			give_up(in, "the packed file is damaged", z->msg);
	}
	return room - z->avail_out;
}

static size_t unpack_zstd(struct import_input *in, char *to, size_t room)
{
	ZSTD_outBuffer out = {.dst = to, .size = room};
	while (out.pos == 0 && !in->ended) {
		if (in->packed_begin == in->packed_end && !read_packed(in)) {
			if (!in->between)
				give_up(in, "the packed file ends before its end", NULL);
			in->ended = true;
			break;
		}
		ZSTD_inBuffer part = {.src = in->packed + in->packed_begin,
				      .size = in->packed_end - in->packed_begin};
		size_t code = ZSTD_decompressStream(in->zstd, &out, &part);
		in->packed_begin += part.pos;
		in->between = code == 0;
		if (ZSTD_isError(code))
			give_up(in, "the packed file is damaged", ZSTD_getErrorName(code));
	}
	return out.pos;
}

static size_t unpack(struct import_input *in, char *to, size_t room)
{
	switch (in->packing) {
	case PACKED_GZIP:
		return unpack_gzip(in, to, room);
	case PACKED_ZSTD:
		return unpack_zstd(in, to, room);
	case PACKED_NOT:
		break;
	}
	size_t got = unpack_plain(in, to, room);
	in->ended |= got == 0;
	return got;
}

/* ---- opening ---- */

static int start(struct import_input *in, struct tm_error *err)
{
	in->packed_at = in->taken = 0;
	in->begin = in->end = 0;
	in->ended = false;
	in->between = true;
	in->begun = false;
	in->problem[0] = 0;
	read_packed(in);
	if (in->problem[0])
		return tm_fail(err, -EIO, "%s", in->problem);
	in->packing = packing_of(in->packed, in->packed_end);
	if (in->packing == PACKED_NOT) {
		in->packed_at = 0;
		in->packed_begin = in->packed_end;
	}
	if (in->packing == PACKED_GZIP && !in->gzip_open)
		in->gzip_open = inflateInit2(&in->gzip, GZIP_WINDOW) == Z_OK;
	else if (in->packing == PACKED_GZIP)
		in->gzip_open = inflateReset(&in->gzip) == Z_OK;
	if (in->packing == PACKED_ZSTD && !in->zstd)
		in->zstd = ZSTD_createDStream();
	if ((in->packing == PACKED_GZIP && !in->gzip_open) ||
	    (in->packing == PACKED_ZSTD && (!in->zstd || ZSTD_isError(ZSTD_initDStream(in->zstd)))))
		return tm_fail(err, -ENOMEM, "no memory to unpack the file");
	return 0;
}

int input_open(int fd, struct import_input **ret_input, struct tm_error *err)
{
	struct stat status;
	if (fstat(fd, &status))
		return tm_fail(err, -errno, "the file cannot be read: %s", strerror(errno));
	struct import_input *in = tm_alloc(sizeof *in);
	if (!in)
		return tm_fail(err, -ENOMEM, "no memory to read the file");
	in->fd = fd;
	in->file_bytes = (uint64_t)status.st_size;
	in->room = tm_grow_array(NULL, ROOM_BYTES, 1);
	in->packed = tm_grow_array(NULL, PACKED_BYTES, 1);
	int code = in->room && in->packed ? start(in, err)
					  : tm_fail(err, -ENOMEM, "no memory to read the file");
	if (code) {
		input_close(in);
		return code;
	}
	*ret_input = in;
	return 0;
}

struct import_input *input_close(struct import_input *in)
{
	if (!in)
		return NULL;
	if (in->gzip_open)
		inflateEnd(&in->gzip);
	ZSTD_freeDStream(in->zstd);
	tm_free(in->room);
	tm_free(in->packed);
	return tm_free(in);
}

int input_rewind(struct import_input *in, struct tm_error *err)
{
	return start(in, err);
}

/* ---- reading ---- */

size_t input_peek(struct import_input *in, size_t want, const char **ret_data)
{
	if (want > INPUT_PEEK_MAX)
		want = INPUT_PEEK_MAX;
	if (in->end - in->begin < want && in->begin > 0) {
		memmove(in->room, in->room + in->begin, in->end - in->begin);
		in->end -= in->begin;
		in->begin = 0;
	}
	while (in->end - in->begin < want && !in->ended) {
		size_t room = ROOM_BYTES - in->end;
		in->end += unpack(in, in->room + in->end, room < FILL_BYTES ? room : FILL_BYTES);
	}
	*ret_data = in->room + in->begin;
	return in->end - in->begin;
}

void input_take(struct import_input *in, size_t bytes)
{
	in->begin += bytes;
	in->taken += bytes;
}

bool input_skip(struct import_input *in, uint64_t bytes)
{
	while (bytes > 0) {
		const char *data;
		size_t seen = input_peek(in, 1, &data);
		if (seen == 0)
			return false;
		if (seen > bytes)
			seen = (size_t)bytes;
		input_take(in, seen);
		bytes -= seen;
	}
	return true;
}

int input_line(struct import_input *in, const char **ret_line, size_t *ret_length)
{
	size_t searched = 0, want = 1;
	for (;;) {
		const char *data;
		size_t seen = input_peek(in, want, &data);
		const char *end =
			seen > searched ? memchr(data + searched, '\n', seen - searched) : NULL;
		if (!end && seen >= want && seen < INPUT_PEEK_MAX) {
			searched = seen;
			want = seen + 1;
			continue;
		}
		if (!end && seen >= INPUT_PEEK_MAX)
			return -E2BIG;
		if (seen == 0)
			return 0;
		*ret_line = data;
		*ret_length = end ? (size_t)(end - data) : seen;
		input_take(in, *ret_length + (end != NULL));
		return 1;
	}
}

uint64_t input_position(const struct import_input *in)
{
	return in->taken;
}

uint64_t input_packed_position(const struct import_input *in)
{
	return in->packed_at - (in->packed_end - in->packed_begin);
}

uint64_t input_packed_bytes(const struct import_input *in)
{
	return in->file_bytes;
}

const char *input_problem(const struct import_input *in)
{
	return in->problem[0] ? in->problem : NULL;
}

bool input_is_packed(const struct import_input *in)
{
	return in->packing != PACKED_NOT;
}
