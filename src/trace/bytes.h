/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes being put together, and bytes being taken apart. Both keep a sticky
 * failure that is tested once at the end: a writer without memory drops what
 * comes, a reader past its end yields zeros.
 */
#pragma once

#include "base/memory.h"
#include "base/varint.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
	uint8_t *data;
	size_t used, room;
	bool failed; /* no memory */
};

/* Room for `more` bytes beyond what is used; false without memory. */
bool bytes_reserve(struct bytes *b, size_t more);
void bytes_put(struct bytes *b, const void *data, size_t length);
/* Length, then the text; NULL is stored as 0, a text as its length + 1. */
void bytes_put_text(struct bytes *b, const char *text);
void bytes_done(struct bytes *b);

static inline void bytes_put_varint(struct bytes *b, uint64_t value)
{
	if (b->room - b->used < VARINT_BYTES_MAX && !bytes_reserve(b, VARINT_BYTES_MAX))
		return;
	b->used += varint_put(b->data + b->used, value);
}

static inline void bytes_put_signed(struct bytes *b, int64_t value)
{
	bytes_put_varint(b, varint_zigzag(value));
}

struct span {
	const uint8_t *next, *end;
	bool bad; /* something was cut off or out of range */
};

/* Where spans without bytes point to. */
extern const uint8_t span_nothing[1];

static inline struct span span_of(const void *data, size_t bytes)
{
	const uint8_t *first = bytes > 0 ? data : span_nothing;
	return (struct span){.next = first, .end = first + bytes};
}

static inline size_t span_left(const struct span *s)
{
	return (size_t)(s->end - s->next);
}

static inline uint64_t span_varint(struct span *s)
{
	uint64_t value = 0;
	if (s->next < s->end && *s->next < 0x80)
		return *s->next++;
	if (span_left(s) > 1 && s->next[1] < 0x80) {
		value = (uint64_t)(s->next[0] & 0x7f) | (uint64_t)s->next[1] << 7;
		s->next += 2;
		return value;
	}
	size_t taken = varint_get(s->next, span_left(s), &value);
	if (taken == 0) {
		s->bad = true;
		s->next = s->end;
		return 0;
	}
	s->next += taken;
	return value;
}

static inline int64_t span_signed(struct span *s)
{
	return varint_unzigzag(span_varint(s));
}

/* A number that must not exceed limit; else the span is bad and the answer 0. */
static inline uint64_t span_limited(struct span *s, uint64_t limit)
{
	uint64_t value = span_varint(s);
	if (value <= limit)
		return value;
	s->bad = true;
	return 0;
}

static inline uint32_t span_u32(struct span *s)
{
	return (uint32_t)span_limited(s, UINT32_MAX);
}

/* The next `length` bytes, or NULL and bad. */
const uint8_t *span_take(struct span *s, size_t length);
/* A part of its own. */
struct span span_cut(struct span *s, size_t length);
/* Whatever bytes_put_text() wrote: true and a text that is not terminated, or false for NULL. */
bool span_text(struct span *s, const char **ret_text, size_t *ret_length);
