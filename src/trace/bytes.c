/* SPDX-License-Identifier: Apache-2.0 */
/* Growable bytes and bounded spans: see the header. */
#include "trace/bytes.h"

const uint8_t span_nothing[1];

bool bytes_reserve(struct bytes *b, size_t more)
{
	if (b->failed)
		return false;
	if (b->room - b->used >= more)
		return true;
	size_t room = b->room < 128 ? 256 : b->room * 2;
	while (room - b->used < more)
		room *= 2;
	uint8_t *data = tm_grow_array(b->data, room, 1);
	if (!data) {
		b->failed = true;
		return false;
	}
	b->data = data;
	b->room = room;
	return true;
}

void bytes_put(struct bytes *b, const void *data, size_t length)
{
	if (length == 0 || !bytes_reserve(b, length))
		return;
	memcpy(b->data + b->used, data, length);
	b->used += length;
}

void bytes_put_text(struct bytes *b, const char *text)
{
	if (!text) {
		bytes_put_varint(b, 0);
		return;
	}
	size_t length = strlen(text);
	bytes_put_varint(b, length + 1);
	bytes_put(b, text, length);
}

void bytes_done(struct bytes *b)
{
	tm_free(b->data);
	*b = (struct bytes){0};
}

const uint8_t *span_take(struct span *s, size_t length)
{
	if (span_left(s) < length) {
		s->bad = true;
		s->next = s->end;
		return NULL;
	}
	const uint8_t *taken = s->next;
	s->next += length;
	return taken;
}

struct span span_cut(struct span *s, size_t length)
{
	const uint8_t *taken = span_take(s, length);
	struct span part = span_of(taken, taken ? length : 0);
	part.bad = !taken;
	return part;
}

bool span_text(struct span *s, const char **ret_text, size_t *ret_length)
{
	uint64_t length = span_varint(s);
	if (length == 0)
		return false;
	const uint8_t *text = span_take(s, length - 1 < SIZE_MAX ? (size_t)(length - 1) : SIZE_MAX);
	if (!text)
		return false;
	*ret_text = (const char *)text;
	*ret_length = (size_t)(length - 1);
	return true;
}
