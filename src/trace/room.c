/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/room.h"

#include "base/io.h"
#include "base/memory.h"
#include "trace/block.h"
#include "trace/hole.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum {
	HEADER = sizeof(struct format_block_header),
	GAP_MAX = FORMAT_RAW_MAX,  /* with its header; larger ones stay two */
	INDEX_RESERVE = 64 * 1024, /* of the limit, for the end of the file */
	INDEX_SHARE = 64,          /* or one in so many of its bytes */
	PUNCH_BYTES = 1 << 20,     /* gaps from this on give their pages back */
	PUNCH_SLACK = 64 << 20,    /* while there is more room than this */
};

void room_done(struct room *room)
{
	room->gaps = tm_free(room->gaps);
	room->blocks = tm_free(room->blocks);
	room->gap_count = room->count = 0;
}

/* ---- gaps ---- */

static int write_gap(const struct room *room, uint64_t offset, uint64_t bytes)
{
	struct format_block_header header = {.magic = FORMAT_BLOCK_MAGIC,
					     .type = FORMAT_GAP,
					     .stored_bytes = (uint32_t)(bytes - HEADER),
					     .raw_bytes = (uint32_t)(bytes - HEADER)};
	block_renumber(&header, room->file_id, 0);
	return io_pwrite(room->fd, &header, sizeof header, offset);
}

/* What lies there is no block any more, should anybody look for one. */
static int erase(const struct room *room, uint64_t offset)
{
	static const uint8_t none[8];
	return io_pwrite(room->fd, none, sizeof none, offset);
}

/* The first gap at or after the offset. */
static size_t gap_at(const struct room *room, uint64_t offset)
{
	size_t low = 0, high = room->gap_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (room->gaps[middle].offset < offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void remove_gap(struct room *room, size_t index)
{
	room->gap_count--;
	memmove(&room->gaps[index], &room->gaps[index + 1],
		(room->gap_count - index) * sizeof *room->gaps);
}

static int insert_gap(struct room *room, size_t index, uint64_t offset, uint64_t bytes)
{
	if (room->gap_count == room->gap_room) {
		size_t more = room->gap_room ? room->gap_room * 2 : 64;
		void *grown = tm_grow_array(room->gaps, more, sizeof *room->gaps);
		if (!grown)
			return -ENOMEM;
		room->gaps = grown;
		room->gap_room = more;
	}
	assert(room->gaps); /* there is room */
	memmove(&room->gaps[index + 1], &room->gaps[index],
		(room->gap_count - index) * sizeof *room->gaps);
	room->gaps[index] = (struct room_gap){.offset = offset, .bytes = bytes};
	room->gap_count++;
	return 0;
}

/* A large gap in a file that has much room gives its pages back to the disk. */
static void punch(const struct room *room, const struct room_gap *gap)
{
	const uint64_t page = 4096;
	uint64_t start = (gap->offset + HEADER + page - 1) / page * page;
	uint64_t end = (gap->offset + gap->bytes) / page * page;
	if (gap->bytes >= PUNCH_BYTES && room->gap_bytes > PUNCH_SLACK && end > start)
		hole_make(room->fd, start, end - start);
}

int room_give(struct room *room, uint64_t offset, uint64_t bytes)
{
	size_t next = gap_at(room, offset);
	struct room_gap *before = next > 0 ? &room->gaps[next - 1] : NULL;
	bool join = before && before->offset + before->bytes == offset &&
		    before->bytes + bytes <= GAP_MAX;
	int rc = 0;
	room->gap_bytes += bytes;
	room->block_total--;
	if (join) {
		before->bytes += bytes;
		next--;
	} else {
		rc = insert_gap(room, next, offset, bytes);
	}
	if (rc)
		return rc;
	struct room_gap *gap = &room->gaps[next], *after = gap + 1;
	uint64_t swallowed = 0;
	if (next + 1 < room->gap_count && gap->offset + gap->bytes == after->offset &&
	    gap->bytes + after->bytes <= GAP_MAX) {
		swallowed = after->offset;
		gap->bytes += after->bytes;
		remove_gap(room, next + 1);
	}
	rc = write_gap(room, gap->offset, gap->bytes);
	if (rc == 0 && join)
		rc = erase(room, offset);
	if (rc == 0 && swallowed)
		rc = erase(room, swallowed);
	punch(room, gap);
	return rc;
}

/* A gap for the block: filled to its end, or with room for a header after it. */
static size_t find_gap(const struct room *room, uint64_t bytes)
{
	for (size_t i = 0; i < room->gap_count; i++)
		if (room->gaps[i].bytes == bytes || room->gaps[i].bytes >= bytes + HEADER)
			return i;
	return SIZE_MAX;
}

/* ---- blocks ---- */

/* Events of sections that have ended are all in slices. */
static bool may_fold(const struct room *room, const struct room_block *block)
{
	return block->section != room->section || block->end_event <= room->covered;
}

bool room_fold_one(struct room *room, int *ret_error)
{
	if (room->count == 0 || !may_fold(room, &room->blocks[room->first]))
		return false;
	struct room_block block = room->blocks[room->first++];
	room->count--;
	room->event_bytes -= block.bytes;
	if (block.section == room->section)
		room->folded += block.events;
	*ret_error = room_give(room, block.offset, block.bytes);
	return true;
}

int room_fold(struct room *room)
{
	int rc = 0;
	while (rc == 0 && room->keep_ns && room->count > 0 &&
	       room->blocks[room->first].time_ns + room->keep_ns < room->now_ns &&
	       room_fold_one(room, &rc))
		;
	return rc;
}

/* Never much less than before: blocks that lie further on stay there. */
uint64_t room_usable(const struct room *room)
{
	uint64_t entries = room->block_total + room->gap_count;
	uint64_t reserve = INDEX_RESERVE + entries * sizeof(struct format_index_entry) / 2;
	if (reserve < room->limit_bytes / INDEX_SHARE)
		reserve = room->limit_bytes / INDEX_SHARE;
	return room->limit_bytes > reserve ? room->limit_bytes - reserve : 0;
}

bool room_place(struct room *room, uint64_t bytes, bool must_keep, uint64_t sealed_end,
		uint64_t *ret_offset)
{
	uint64_t usable = room_usable(room);
	for (int rc = 0;;) {
		size_t gap = find_gap(room, bytes);
		bool fits =
			!room->no_growth && (!room->limit_bytes || sealed_end + bytes <= usable);
		if (gap != SIZE_MAX || fits) {
			*ret_offset = gap != SIZE_MAX ? room->gaps[gap].offset : sealed_end;
			return true;
		}
		if (!room_fold_one(room, &rc) || rc)
			break;
	}
	*ret_offset = sealed_end;
	return must_keep;
}

int room_write(struct room *room, uint64_t offset, const uint8_t *block, uint64_t bytes,
	       bool at_end)
{
	if (at_end)
		return io_pwrite(room->fd, block, bytes, offset);
	size_t index = gap_at(room, offset);
	struct room_gap *gap = &room->gaps[index];
	int rc = 0;
	if (gap->bytes > bytes)
		rc = write_gap(room, offset + bytes, gap->bytes - bytes);
	if (rc == 0)
		rc = io_pwrite(room->fd, block + HEADER, bytes - HEADER, offset + HEADER);
	/* Until here the gap is one: now it ends where the rest of it begins. */
	if (rc == 0)
		rc = io_pwrite(room->fd, block, HEADER, offset);
	if (rc)
		return rc;
	room->gap_bytes -= bytes;
	gap->offset += bytes;
	gap->bytes -= bytes;
	if (gap->bytes == 0)
		remove_gap(room, index);
	return 0;
}

bool room_read(const struct room *room, uint64_t offset, uint64_t bytes,
	       struct format_block_header *ret_header, struct bytes *raw)
{
	struct bytes stored = {0};
	size_t got = 0;
	bool good = bytes >= HEADER && bytes_reserve(&stored, bytes) &&
		    !io_pread(room->fd, stored.data, bytes, offset, &got) && got == bytes;
	if (good) {
		memcpy(ret_header, stored.data, HEADER);
		const uint8_t *payload = stored.data + HEADER;
		good = block_header_valid(ret_header, room->file_id) &&
		       ret_header->stored_bytes <= got - HEADER &&
		       block_payload_valid(ret_header, room->file_id, payload) &&
		       bytes_reserve(raw, ret_header->raw_bytes) &&
		       block_unpack(ret_header, payload, raw->data);
	}
	raw->used = good ? ret_header->raw_bytes : 0;
	bytes_done(&stored);
	return good;
}

static void begin_section(struct room *room, uint32_t section)
{
	room->section = section;
	room->base_ns += room->last_ns;
	room->last_ns = 0;
	room->stored = room->covered = room->folded = 0;
	room->uncovered_bytes = 0;
}

static int push(struct room *room, const struct room_block *block)
{
	if (room->first > 0 && room->first >= room->block_room / 2) {
		assert(room->blocks); /* first is one of them */
		memmove(room->blocks, room->blocks + room->first,
			room->count * sizeof *room->blocks);
		room->first = 0;
	}
	if (room->first + room->count == room->block_room) {
		size_t more = room->block_room ? room->block_room * 2 : 256;
		void *grown = tm_grow_array(room->blocks, more, sizeof *room->blocks);
		if (!grown)
			return -ENOMEM;
		room->blocks = grown;
		room->block_room = more;
	}
	assert(room->blocks);
	room->blocks[room->first + room->count++] = *block;
	return 0;
}

int room_note(struct room *room, const struct format_block_header *header, uint64_t offset,
	      uint64_t bytes)
{
	bool of_events = header->type == FORMAT_EVENTS || header->type == FORMAT_ADDRESSES ||
			 header->type == FORMAT_ENDS;
	room->block_total++;
	if (header->type == FORMAT_BEGIN)
		begin_section(room, header->section);
	if (header->end_ns > room->last_ns && header->section == room->section)
		room->last_ns = header->end_ns;
	room->now_ns = room->base_ns + room->last_ns;
	if (!of_events)
		return 0;
	/* The count of ENDS is of its own rows: the events it belongs to came just before. */
	const struct room_block *last =
		room->count ? &room->blocks[room->first + room->count - 1] : NULL;
	struct room_block block = {
		.offset = offset,
		.bytes = bytes,
		.section = header->section,
		.events = header->type == FORMAT_EVENTS ? header->count : 0,
		.start_ns = header->start_ns,
		.first_event = header->first_ordinal,
		.time_ns = room->base_ns + header->end_ns,
		.end_event = header->type == FORMAT_EVENTS || !last
				     ? header->first_ordinal + header->count
				     : last->end_event,
	};
	room->uncovered_bytes += bytes;
	room->event_bytes += bytes;
	room->stored = block.end_event;
	return push(room, &block);
}

void room_cover(struct room *room, uint64_t end_event)
{
	room->covered = end_event;
	room->uncovered_bytes = 0;
	for (size_t i = room->count; i-- > 0;) {
		const struct room_block *block = &room->blocks[room->first + i];
		if (may_fold(room, block))
			break;
		room->uncovered_bytes += block->bytes;
	}
}

bool room_wants_slice(const struct room *room)
{
	if (room->no_growth)
		return room->uncovered_bytes > 0;
	return room->limit_bytes && room->uncovered_bytes > room->limit_bytes / 4;
}

uint64_t room_first_event(const struct room *room, uint32_t section)
{
	const struct room_block *oldest = room->count ? &room->blocks[room->first] : NULL;
	if (oldest && oldest->section == section)
		return oldest->first_event;
	if (oldest && oldest->section < section)
		return 0;
	return section == room->section ? room->stored : UINT64_MAX;
}

uint64_t room_since(const struct room *room)
{
	for (size_t i = 0; i < room->count; i++) {
		const struct room_block *block = &room->blocks[room->first + i];
		if (block->section == room->section)
			return block->start_ns;
	}
	return UINT64_MAX;
}
