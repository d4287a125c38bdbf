/* SPDX-License-Identifier: Apache-2.0 */
/* From chunks to a stream of bytes. */
#include <string.h>

#include "base/memory.h"
#include "import/bytehound.h"
#include "import/lz4.h"

enum { CHUNK_LZ4 = 1, CHUNK_STORED = 2, CHUNK_HEAD = 5, FIRST_ROOM = 2 << 20 };

static bool make_room(struct bytehound_stream *s, size_t bytes)
{
	size_t left = (size_t)(s->end - s->at);
	if (s->room && s->at > s->room)
		memmove(s->room, s->at, left);
	if (bytes > s->room_bytes) {
		uint8_t *grown = tm_grow_array(s->room, bytes, 1);
		if (!grown)
			return false;
		s->room = grown;
		s->room_bytes = bytes;
	}
	s->at = s->room;
	s->end = s->room + left;
	return true;
}

static bool end_here(struct bytehound_stream *s, bool damaged)
{
	s->ended = true;
	s->damaged |= damaged;
	return false;
}

/* Unpacks behind what is left; the room grows as far as one chunk may need. */
static bool unpack(struct bytehound_stream *s, const uint8_t *data, size_t bytes)
{
	size_t left = (size_t)(s->end - s->at);
	size_t room = s->room_bytes > FIRST_ROOM ? s->room_bytes : FIRST_ROOM;
	for (; room <= BYTEHOUND_CHUNK_MAX + BYTEHOUND_NEED_MAX; room *= 2) {
		size_t got;
		if (!make_room(s, room))
			return end_here(s, true);
		uint8_t *to = s->room + left;
		enum lz4_end how = lz4_unpack(data, bytes, to, s->room_bytes - left, &got);
		if (how == LZ4_FULL)
			continue;
		s->end = to + got;
		s->unpacked += got;
		/* What came before the damage is as good as the rest. */
		return how == LZ4_WHOLE ? true : (end_here(s, true), got > 0);
	}
	return end_here(s, true);
}

static bool next_chunk(struct bytehound_stream *s)
{
	const char *data;
	if (s->ended)
		return false;
	size_t seen = input_peek(s->in, CHUNK_HEAD, &data);
	if (seen < CHUNK_HEAD)
		return end_here(s, seen > 0);
	uint8_t kind = (uint8_t)data[0];
	uint32_t bytes = 0;
	for (unsigned i = 0; i < 4; i++)
		bytes |= (uint32_t)(uint8_t)data[1 + i] << (8 * i);
	if ((kind != CHUNK_LZ4 && kind != CHUNK_STORED) || bytes > INPUT_PEEK_MAX - CHUNK_HEAD)
		return end_here(s, true);
	seen = input_peek(s->in, CHUNK_HEAD + bytes, &data);
	bool whole = seen >= CHUNK_HEAD + bytes;
	if (!whole)
		bytes = (uint32_t)(seen - CHUNK_HEAD);
	const uint8_t *payload = (const uint8_t *)data + CHUNK_HEAD;
	bool good = false;
	if (kind == CHUNK_LZ4) {
		good = unpack(s, payload, bytes);
	} else {
		size_t left = (size_t)(s->end - s->at), room = left + bytes;
		good = make_room(s, room > FIRST_ROOM ? room : FIRST_ROOM);
		if (good) {
			memcpy(s->room + left, payload, bytes);
			s->end = s->room + left + bytes;
			s->unpacked += bytes;
		}
	}
	input_take(s->in, CHUNK_HEAD + bytes);
	if (!whole)
		end_here(s, true);
	return good;
}

bool bytehound_fill(struct bytehound_stream *s, size_t bytes)
{
	while ((size_t)(s->end - s->at) < bytes)
		if (!next_chunk(s))
			return false;
	return true;
}

bool bytehound_skip(struct bytehound_stream *s, uint64_t bytes)
{
	while (bytes > 0) {
		size_t left = (size_t)(s->end - s->at);
		if (left == 0 && !bytehound_fill(s, 1))
			return false;
		left = (size_t)(s->end - s->at);
		if (left > bytes)
			left = (size_t)bytes;
		s->at += left;
		bytes -= left;
	}
	return true;
}

bool bytehound_varint(struct bytehound_stream *s, uint64_t *ret)
{
	if (!bytehound_need(s, 1))
		return false;
	uint8_t first = *s->at;
	unsigned more = 0;
	while (more < 8 && first & 0x80 >> more)
		more++;
	if (!bytehound_need(s, 1 + more))
		return false;
	uint64_t low = 0;
	for (unsigned i = 0; i < more; i++)
		low |= (uint64_t)s->at[1 + i] << (8 * i);
	/* What the first byte has left are the upper bits. */
	uint64_t high = more < 7 ? first & (0x7fu >> more) : 0;
	*ret = more < 8 ? high << (8 * more) | low : low;
	s->at += 1 + more;
	return true;
}

bool bytehound_bytes(struct bytehound_stream *s, uint64_t length, size_t most, const char **ret,
		     size_t *ret_kept)
{
	size_t kept = length < most ? (size_t)length : most;
	if (!bytehound_need(s, kept))
		return false;
	*ret = (const char *)s->at;
	*ret_kept = kept;
	s->at += kept;
	/* Skipping may move the bytes: only what nobody looks at any more is long. */
	return length == kept || bytehound_skip(s, length - kept);
}
