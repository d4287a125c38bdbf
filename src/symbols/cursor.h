/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading bytes of unknown origin, little-endian: beyond the end everything is
 * 0 and `bad` is set, so a reader tests once where it must.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cursor {
	const uint8_t *at, *end;
	bool bad;
};

static inline struct cursor cursor_at(const uint8_t *data, size_t bytes, uint64_t offset)
{
	struct cursor cursor = {.at = data, .end = data + bytes};
	if (!data || offset > bytes)
		cursor = (struct cursor){.bad = true};
	else
		cursor.at += offset;
	return cursor;
}

static inline size_t cursor_left(const struct cursor *cursor)
{
	return (size_t)(cursor->end - cursor->at);
}

static inline void cursor_fail(struct cursor *cursor)
{
	cursor->at = cursor->end;
	cursor->bad = true;
}

static inline void cursor_skip(struct cursor *cursor, uint64_t bytes)
{
	if (bytes > cursor_left(cursor))
		cursor_fail(cursor);
	else
		cursor->at += bytes;
}

/* A number of 1 to 8 bytes. */
static inline uint64_t cursor_uint(struct cursor *cursor, unsigned bytes)
{
	uint64_t value = 0;
	if (cursor_left(cursor) >= sizeof value) { /* one load */
		memcpy(&value, cursor->at, sizeof value);
		value = bytes == 8 ? value : value & ((1ull << 8 * bytes) - 1);
	} else if (cursor->at && bytes <= cursor_left(cursor)) {
		memcpy(&value, cursor->at, bytes);
	} else {
		cursor_fail(cursor);
		return 0;
	}
	cursor->at += bytes;
	return value;
}

static inline uint8_t cursor_u8(struct cursor *cursor)
{
	if (cursor->at == cursor->end) {
		cursor->bad = true;
		return 0;
	}
	return *cursor->at++;
}

static inline uint64_t cursor_uleb(struct cursor *cursor)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte;
	do {
		byte = cursor_u8(cursor);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	return value;
}

static inline int64_t cursor_sleb(struct cursor *cursor)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte;
	do {
		byte = cursor_u8(cursor);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (shift < 64 && byte & 0x40)
		value |= ~(uint64_t)0 << shift;
	return (int64_t)value;
}

/* A terminated string, "" if it is not. */
static inline const char *cursor_text(struct cursor *cursor)
{
	const char *text = (const char *)cursor->at;
	const uint8_t *end = cursor_left(cursor) ? memchr(text, 0, cursor_left(cursor)) : NULL;
	if (!end) {
		cursor_fail(cursor);
		return "";
	}
	cursor->at = end + 1;
	return text;
}
