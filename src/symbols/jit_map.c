/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf's map of symbols: lines "START SIZE NAME", numbers in hexadecimal. The
 * file is read once in pieces; only where a name lies is remembered, and the
 * names that are wanted are read at the end.
 */
#include <errno.h>
#include <string.h>

#include "base/io.h"
#include "base/memory.h"
#include "symbols/jit_paint.h"

/* Beyond this a map is read no further: fifteen million functions. */
#define MAP_BYTES_MAX (1ull << 30)

enum { PIECE_BYTES = 256 * 1024, HEAD_BYTES = 64 };

struct reader {
	int fd;
	uint64_t offset; /* of the piece in the file */
	char *piece;
	size_t bytes;
	struct paint paint;
};

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A hexadecimal number and the blank after it; false if there is none of 64 bits. */
static bool take_number(const char **at, const char *end, uint64_t *ret)
{
	const char *from = *at;
	if (end - from > 2 && from[0] == '0' && (from[1] | 0x20) == 'x')
		from += 2;
	uint64_t number = 0;
	const char *to = from;
	for (; to < end && digit_of(*to) >= 0; to++) {
		if (to - from >= 16)
			return false;
		number = number << 4 | (uint64_t)digit_of(*to);
	}
	if (to == from || to == end || *to != ' ')
		return false;
	*at = to + 1;
	*ret = number;
	return true;
}

static void take_line(struct reader *reader, const char *line, const char *end)
{
	uint64_t start, bytes;
	const char *at = line;
	if (!take_number(&at, end, &start) || !take_number(&at, end, &bytes) || at == end)
		return;
	struct paint_note note = {.name = reader->offset + (uint64_t)(at - reader->piece)};
	paint_range(&reader->paint, start, bytes, &note);
}

/* The whole lines of the piece. What follows the last line's end is read again. */
static int take_piece(struct reader *reader, bool *ret_more)
{
	size_t got = 0;
	int code = io_pread(reader->fd, reader->piece, PIECE_BYTES, reader->offset, &got);
	if (code || !got) {
		*ret_more = false;
		return code;
	}
	reader->bytes = got;
	const char *at = reader->piece, *end = reader->piece + got, *stop;
	while ((stop = memchr(at, '\n', (size_t)(end - at)))) {
		take_line(reader, at, stop);
		at = stop + 1;
	}
	*ret_more = got == PIECE_BYTES && reader->offset < MAP_BYTES_MAX;
	/* A line longer than a piece, or the last one without an end: its begin will do. */
	if (at == reader->piece || !*ret_more) {
		if (at < end)
			take_line(reader, at, end);
		at = end;
	}
	reader->offset += (uint64_t)(at - reader->piece);
	return 0;
}

static int tell(struct reader *reader, size_t request, struct jit_name *name, jit_found_fn found,
		void *ctx)
{
	const struct paint_note *note = paint_find(&reader->paint, request);
	size_t got = 0;
	if (!note)
		return 0;
	char raw[2 * JIT_NAME_MAX];
	int code = io_pread(reader->fd, raw, sizeof raw, note->name, &got);
	if (code)
		return code;
	const char *end = memchr(raw, '\n', got);
	jit_readable(raw, end ? (size_t)(end - raw) : got, name);
	return found(ctx, request, name);
}

int jit_read_map(int fd, const struct jit_request *requests, size_t count, jit_found_fn found,
		 void *ctx)
{
	struct reader reader = {.fd = fd, .piece = tm_alloc(PIECE_BYTES)};
	struct jit_name *name = tm_alloc(sizeof *name);
	int code = paint_init(&reader.paint, requests, count);
	bool more = true;
	if (!reader.piece || !name)
		code = -ENOMEM;
	while (!code && more)
		code = take_piece(&reader, &more);
	for (size_t i = 0; i < count && !code; i++)
		code = tell(&reader, i, name, found, ctx);
	paint_done(&reader.paint);
	tm_free(reader.piece);
	tm_free(name);
	return code;
}
