/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing with linear probing; what is taken out is closed up by shifting back. */
#include "sql/open_blocks.h"

#include <errno.h>

#include "base/hash.h"
#include "base/memory.h"

/* Always allowed, so that every scan gets on. */
enum { SLOTS_MIN = 1024 };

int open_blocks_init(struct open_blocks *open, struct sql *sql)
{
	*open = (struct open_blocks){.sql = sql, .slot_count = SLOTS_MIN};
	open->slots = tm_alloc_array(SLOTS_MIN, sizeof *open->slots);
	return open->slots ? 0 : -ENOMEM;
}

void open_blocks_done(struct open_blocks *open)
{
	if (open->sql)
		open->sql->memory_left += open->own_bytes;
	tm_free(open->slots);
	*open = (struct open_blocks){0};
}

static size_t home(const struct open_blocks *open, uint64_t key)
{
	return (size_t)hash_u64(key) & (open->slot_count - 1);
}

static struct open_block *find(const struct open_blocks *open, uint64_t key)
{
	size_t slot = home(open, key);
	while (open->slots[slot].key != 0 && open->slots[slot].key != key)
		slot = (slot + 1) & (open->slot_count - 1);
	return &open->slots[slot];
}

static bool grow(struct open_blocks *open, bool beyond_limit)
{
	struct open_blocks larger = *open;
	larger.slot_count = open->slot_count * 2;
	uint64_t more_bytes = larger.slot_count * sizeof *open->slots;
	if (more_bytes > open->sql->memory_left + open->own_bytes && !beyond_limit)
		return false;
	larger.slots = tm_alloc_array(larger.slot_count, sizeof *larger.slots);
	if (!larger.slots)
		return false;
	for (size_t i = 0; i < open->slot_count; i++)
		if (open->slots[i].key != 0)
			*find(&larger, open->slots[i].key) = open->slots[i];
	uint64_t taken_bytes = more_bytes - open->own_bytes;
	if (taken_bytes > open->sql->memory_left)
		taken_bytes = open->sql->memory_left;
	open->sql->memory_left -= taken_bytes;
	larger.own_bytes += taken_bytes;
	tm_free(open->slots);
	*open = larger;
	return true;
}

static void put(struct open_blocks *open, const struct open_block *block)
{
	struct open_block *slot = find(open, block->key);
	open->used += slot->key == 0;
	*slot = *block;
}

bool open_blocks_add(struct open_blocks *open, const struct open_block *block)
{
	if (open->used >= open->slot_count / 4 * 3 && !grow(open, false))
		return false;
	put(open, block);
	return true;
}

int open_blocks_put_back(struct open_blocks *open, const struct open_block *block)
{
	if (open->used >= open->slot_count / 8 * 7 && !grow(open, true))
		return -ENOMEM;
	put(open, block);
	return 0;
}

static void close_up(struct open_blocks *open, size_t hole)
{
	size_t mask = open->slot_count - 1;
	for (size_t next = (hole + 1) & mask; open->slots[next].key != 0;
	     next = (next + 1) & mask) {
		size_t wanted = home(open, open->slots[next].key);
		/* It may move back unless its home lies after the hole. */
		if (((next - wanted) & mask) >= ((next - hole) & mask)) {
			open->slots[hole] = open->slots[next];
			hole = next;
		}
	}
	open->slots[hole].key = 0;
	open->used--;
}

bool open_blocks_take(struct open_blocks *open, uint64_t block_id, struct open_block *ret)
{
	struct open_block *slot = find(open, block_id + 1);
	if (block_id == TRACE_NO_BLOCK || slot->key == 0)
		return false;
	*ret = *slot;
	close_up(open, (size_t)(slot - open->slots));
	return true;
}

bool open_blocks_take_any(struct open_blocks *open, size_t *cursor, struct open_block *ret)
{
	for (; open->used > 0 && *cursor < open->slot_count; ++*cursor) {
		struct open_block *slot = &open->slots[*cursor];
		if (slot->key == 0)
			continue;
		*ret = *slot;
		slot->key = 0; /* no look-up follows: nothing is closed up */
		open->used--;
		return true;
	}
	return false;
}
