/* SPDX-License-Identifier: Apache-2.0 */
#include "bytehound_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void dat_done(struct dat *dat)
{
	tm_free(dat->bytes);
	*dat = (struct dat){0};
}

void dat_bytes(struct dat *dat, const void *bytes, size_t count)
{
	if (dat->used + count > dat->room) {
		size_t room = (dat->used + count) * 2;
		void *grown = tm_grow_array(dat->bytes, room, 1);
		if (!grown)
			abort();
		dat->bytes = grown;
		dat->room = room;
	}
	if (count)
		memcpy(dat->bytes + dat->used, bytes, count);
	dat->used += count;
}

void dat_u8(struct dat *dat, uint8_t value)
{
	dat_bytes(dat, &value, 1);
}

void dat_u32(struct dat *dat, uint32_t value)
{
	for (unsigned i = 0; i < 4; i++)
		dat_u8(dat, (uint8_t)(value >> (8 * i)));
}

void dat_u64(struct dat *dat, uint64_t value)
{
	dat_u32(dat, (uint32_t)value);
	dat_u32(dat, (uint32_t)(value >> 32));
}

void dat_varint(struct dat *dat, uint64_t value)
{
	unsigned more = 0;
	while (more < 8 && (more == 8 ? 0 : value >> (7 + 7 * more)) != 0)
		more++;
	uint8_t ones = (uint8_t)(0xff00u >> more);
	uint64_t high = more < 8 ? value >> (8 * more) : 0;
	dat_u8(dat, (uint8_t)(ones | high));
	for (unsigned i = 0; i < more; i++)
		dat_u8(dat, (uint8_t)(value >> (8 * i)));
}

void dat_text(struct dat *dat, const char *text)
{
	dat_u32(dat, (uint32_t)strlen(text));
	dat_bytes(dat, text, strlen(text));
}

/* ---- events ---- */

void dat_header(struct dat *dat, const char *command)
{
	dat_u32(dat, 0);
	dat_u64(dat, 11);
	dat_u64(dat, 22);
	dat_u64(dat, DAT_START_US);
	dat_u64(dat, DAT_START_US + 500);
	dat_u64(dat, 1600000000);
	dat_u64(dat, 500000);
	dat_u32(dat, 4711);
	dat_text(dat, command);
	dat_text(dat, "/bin/demo");
	dat_text(dat, "x86_64");
	dat_u64(dat, 1);
	dat_u8(dat, 8);
}

void dat_backtrace(struct dat *dat, uint64_t id, const uint64_t *addresses, uint32_t count)
{
	dat_u32(dat, 5);
	dat_u64(dat, id);
	dat_u32(dat, count);
	for (uint32_t i = 0; i < count; i++)
		dat_u64(dat, addresses[i]);
}

static bool is_old(const struct dat_block *block)
{
	return block->owner == UINT64_MAX;
}

static void put_id(struct dat *dat, const struct dat_block *block)
{
	if (is_old(block))
		return;
	dat_u64(dat, block->owner);
	dat_u64(dat, block->counter);
}

static void put_body(struct dat *dat, const struct dat_block *block)
{
	dat_u64(dat, block->pointer);
	dat_u64(dat, block->size);
	dat_u64(dat, block->backtrace);
	dat_u32(dat, block->thread);
	dat_u32(dat, block->flags);
	dat_u32(dat, 24);
	dat_u64(dat, 0);
}

void dat_alloc(struct dat *dat, const struct dat_block *block)
{
	dat_u32(dat, is_old(block) ? 1 : 20);
	put_id(dat, block);
	dat_u64(dat, DAT_START_US + block->time_us);
	put_body(dat, block);
}

void dat_realloc(struct dat *dat, const struct dat_block *block, uint64_t old_pointer)
{
	dat_u32(dat, is_old(block) ? 2 : 21);
	put_id(dat, block);
	dat_u64(dat, DAT_START_US + block->time_us);
	dat_u64(dat, old_pointer);
	put_body(dat, block);
}

void dat_free(struct dat *dat, const struct dat_block *block)
{
	dat_u32(dat, is_old(block) ? 3 : 22);
	put_id(dat, block);
	dat_u64(dat, DAT_START_US + block->time_us);
	dat_u64(dat, block->pointer);
	dat_u64(dat, block->backtrace);
	dat_u32(dat, block->thread);
}

/* ---- packing ---- */

enum { TABLE = 4096, WINDOW = 65535, MATCH_MIN = 4 };

static void put_length(struct dat *out, size_t length)
{
	if (length < 15)
		return;
	for (length -= 15; length >= 255; length -= 255)
		dat_u8(out, 255);
	dat_u8(out, (uint8_t)length);
}

static void put_sequence(struct dat *out, const uint8_t *literals, size_t count, size_t distance,
			 size_t match)
{
	size_t more = match - MATCH_MIN;
	dat_u8(out, (uint8_t)((count < 15 ? count : 15) << 4 | (more < 15 ? more : 15)));
	put_length(out, count);
	dat_bytes(out, literals, count);
	dat_u8(out, (uint8_t)distance);
	dat_u8(out, (uint8_t)(distance >> 8));
	put_length(out, more);
}

static void put_last(struct dat *out, const uint8_t *literals, size_t count)
{
	dat_u8(out, (uint8_t)((count < 15 ? count : 15) << 4));
	put_length(out, count);
	dat_bytes(out, literals, count);
}

/* A greedy match runs to the very end of the input, as bytehound's does. */
static void pack(struct dat *out, const uint8_t *in, size_t bytes)
{
	static uint32_t table[TABLE];
	memset(table, 0xff, sizeof table);
	size_t at = 0, literals = 0;
	while (at + MATCH_MIN <= bytes) {
		uint32_t word;
		memcpy(&word, in + at, sizeof word);
		uint32_t slot = word * 2654435761u >> 20, from = table[slot];
		table[slot] = (uint32_t)at;
		if (from == UINT32_MAX || at - from > WINDOW ||
		    memcmp(in + from, in + at, 4) != 0) {
			at++;
			continue;
		}
		size_t match = MATCH_MIN;
		while (at + match < bytes && in[from + match] == in[at + match])
			match++;
		put_sequence(out, in + literals, at - literals, at - from, match);
		at += match;
		literals = at;
	}
	put_last(out, in + literals, bytes - literals);
}

size_t dat_file(const struct dat *dat, size_t chunk, bool packed, uint8_t **ret)
{
	struct dat file = {0};
	for (size_t at = 0; at < dat->used; at += chunk) {
		size_t part = dat->used - at < chunk ? dat->used - at : chunk;
		struct dat body = {0};
		if (packed)
			pack(&body, dat->bytes + at, part);
		else
			dat_bytes(&body, dat->bytes + at, part);
		dat_u8(&file, packed ? 1 : 2);
		dat_u32(&file, (uint32_t)body.used);
		dat_bytes(&file, body.bytes, body.used);
		dat_done(&body);
	}
	*ret = file.bytes;
	return file.used;
}
