/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/ages.h"

#include "base/memory.h"
#include "trace/container.h"
#include "trace/slices.h"
#include "trace/slices_merge.h"

#include <errno.h>
#include <string.h>

enum {
	SLICES_MAX = 4096,        /* kept in any case; more are merged */
	SLICES_MIN = 8,           /* no fewer are left */
	MERGE_RAW_MAX = 32 << 20, /* unpacked bytes of two: what merging may take */
	STALE_SHARE = 8,          /* of the slices, one in so many is in no curve */
};

void ages_done(struct ages *ages)
{
	ages->slices = tm_free(ages->slices);
	ages->blocks = tm_free(ages->blocks);
	ages->count = ages->block_count = 0;
}

/* ---- remembering ---- */

static bool grow(void **array, size_t count, size_t *room, size_t size)
{
	if (count < *room)
		return true;
	size_t more = *room ? *room * 2 : 64;
	void *grown = tm_grow_array(*array, more, size);
	if (!grown)
		return false;
	*array = grown;
	*room = more;
	return true;
}

static bool get_facts(const struct bytes *raw, struct trace_slice *ret)
{
	struct span facts;
	*ret = (struct trace_slice){0};
	if (!container_get(span_of(raw->data, raw->used), &facts, 1))
		return false;
	slices_get_facts(&facts, ret);
	return !facts.bad;
}

static bool note_slice(struct ages *ages, const struct format_block_header *header,
		       const struct bytes *raw, uint64_t offset, uint64_t bytes)
{
	struct ages_slice slice = {.offset = offset,
				   .bytes = bytes,
				   .raw_bytes = raw->used,
				   .number = ages->written++,
				   .section = header->section,
				   .first = (uint32_t)header->first_ordinal};
	void *slices = ages->slices;
	if (!get_facts(raw, &slice.facts) ||
	    !grow(&slices, ages->count, &ages->room, sizeof *ages->slices))
		return false;
	ages->slices = slices;
	ages->slices[ages->count++] = slice;
	ages->slice_bytes += bytes;
	return true;
}

static bool note_block(struct ages *ages, const struct format_block_header *header, uint64_t offset,
		       uint64_t bytes)
{
	void *blocks = ages->blocks;
	if (!grow(&blocks, ages->block_count, &ages->block_room, sizeof *ages->blocks))
		return false;
	ages->blocks = blocks;
	ages->blocks[ages->block_count++] = (struct ages_block){.offset = offset,
								.bytes = bytes,
								.ordinal = header->first_ordinal,
								.section = header->section,
								.type = header->type};
	return true;
}

void ages_note(struct ages *ages, const struct format_block_header *header, const struct bytes *raw,
	       uint64_t offset, uint64_t bytes)
{
	if (ages->off)
		return;
	if (header->type == FORMAT_SLICE)
		ages->off = !note_slice(ages, header, raw, offset, bytes);
	else if (header->type == FORMAT_SUMS || header->type == FORMAT_CURVE)
		ages->off = !note_block(ages, header, offset, bytes);
}

/* ---- choosing ---- */

/* Slices take more than their share of the room, beside all that is not single events. */
static bool too_large(const struct ages *ages, const struct room *room, uint64_t sealed_end)
{
	uint64_t usable = room_usable(room);
	return room->limit_bytes && sealed_end - room->gap_bytes - room->event_bytes > usable / 2 &&
	       ages->slice_bytes > usable / 8;
}

static bool may_merge(const struct room *room, const struct ages_slice *a,
		      const struct ages_slice *b)
{
	return a->section == b->section && !a->stuck && !b->stuck &&
	       a->raw_bytes + b->raw_bytes <= MERGE_RAW_MAX &&
	       b->facts.first_event + b->facts.event_count <= room_first_event(room, b->section);
}

/* The pair whose span is the shortest beside its age; false: none may be merged. */
static bool choose(const struct ages *ages, const struct room *room, size_t *ret_index)
{
	double least = 0;
	bool found = false;
	for (size_t i = 0; i + 1 < ages->count; i++) {
		const struct ages_slice *a = &ages->slices[i], *b = a + 1;
		if (!may_merge(room, a, b))
			continue;
		double span = (double)b->facts.slice_id - a->first + 1;
		double share = span / (double)(ages->written - b->number);
		if (found && share >= least)
			continue;
		found = true;
		least = share;
		*ret_index = i;
	}
	return found;
}

/* ---- merging ---- */

/* A slice of the file, as it was written; false if it is not. */
static bool load(const struct ages_slice *slice, const struct room *room, struct bytes *raw,
		 struct slices_reader *ret)
{
	struct format_block_header header;
	return room_read(room, slice->offset, slice->bytes, &header, raw) &&
	       !slices_get(span_of(raw->data, raw->used), UINT32_MAX, ret);
}

/* Numbers of one section, up to the slice that is being made. */
struct numbers {
	const struct ages *ages;
	uint32_t section;
};

static uint32_t last_of(const void *ctx, uint32_t number)
{
	const struct numbers *numbers = ctx;
	size_t low = 0, high = numbers->ages->chosen + 1;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct ages_slice *slice = &numbers->ages->slices[middle];
		if (slice->section < numbers->section || slice->facts.slice_id < number)
			low = middle + 1;
		else
			high = middle;
	}
	/* Births in either of the two that become one are in the second, whose number it has. */
	return low >= numbers->ages->chosen ? UINT32_MAX
					    : numbers->ages->slices[low].facts.slice_id;
}

static bool merge_pair(struct ages *ages, const struct room *room, struct bytes *out)
{
	struct ages_slice *a = &ages->slices[ages->chosen], *b = a + 1;
	struct slices_reader first = {0}, second = {0};
	struct bytes first_raw = {0}, second_raw = {0};
	const struct numbers numbers = {.ages = ages, .section = a->section};
	a->stuck = !load(a, room, &first_raw, &first);
	b->stuck = !load(b, room, &second_raw, &second);
	bool good = !a->stuck && !b->stuck &&
		    !slices_merge(&first.slice, &second.slice, last_of, &numbers, out) &&
		    out->used <= FORMAT_RAW_MAX;
	slices_done(&first);
	slices_done(&second);
	bytes_done(&first_raw);
	bytes_done(&second_raw);
	return good;
}

enum ages_step ages_merge(struct ages *ages, struct room *room, uint64_t sealed_end,
			  struct format_block_header *ret_header, struct bytes *ret_raw)
{
	bool large = too_large(ages, room, sealed_end);
	if (ages->off || ages->count <= SLICES_MIN || (!large && ages->count <= SLICES_MAX))
		return AGES_NOTHING;
	if (!choose(ages, room, &ages->chosen))
		return large ? AGES_FOLD : AGES_NOTHING;
	if (!merge_pair(ages, room, ret_raw) || !get_facts(ret_raw, &ages->merged)) {
		bytes_done(ret_raw);
		return AGES_NOTHING;
	}
	const struct ages_slice *a = &ages->slices[ages->chosen], *b = a + 1;
	*ret_header = (struct format_block_header){
		.type = FORMAT_SLICE,
		.section = a->section,
		.first_ordinal = a->first,
		.count = b->facts.slice_id - a->first + 1,
		.start_ns = a->facts.start_ns,
		.end_ns = b->facts.end_ns,
	};
	return AGES_MERGED;
}

/* ---- curves ---- */

bool ages_curve(struct ages *ages, bool all, struct format_block_header *ret_header,
		struct bytes *ret_raw)
{
	struct bytes facts = {0};
	if (ages->off || ages->stale == 0 ||
	    (!all && ages->stale < SLICES_MIN + ages->count / STALE_SHARE))
		return false;
	*ret_header = (struct format_block_header){
		.type = FORMAT_CURVE, .flags = FORMAT_MERGED, .section = ages->stale_section};
	for (size_t i = 0; i < ages->count; i++) {
		const struct ages_slice *slice = &ages->slices[i];
		if (slice->section != ages->stale_section)
			continue;
		bytes_put_varint(&facts, slice->facts.slice_id - slice->first + 1u);
		slices_put_facts(&facts, &slice->facts);
		ret_header->count++;
	}
	struct span column = span_of(facts.data, facts.used);
	container_put(ret_raw, &column, 1);
	ret_raw->failed |= facts.failed;
	bytes_done(&facts);
	ages->stale = 0;
	if (!ret_raw->failed)
		return true;
	bytes_done(ret_raw);
	return false;
}

/* ---- giving back ---- */

/* Sums that end at this number, or curves before the newest one. */
static int give_blocks(struct ages *ages, struct room *room, uint8_t type, uint32_t section,
		       uint64_t ordinal)
{
	size_t kept = 0;
	int rc = 0;
	for (size_t i = 0; i < ages->block_count; i++) {
		struct ages_block block = ages->blocks[i];
		if (rc == 0 && block.type == type && block.section == section &&
		    (type == FORMAT_CURVE || block.ordinal == ordinal))
			rc = room_give(room, block.offset, block.bytes);
		else
			ages->blocks[kept++] = block;
	}
	ages->block_count = kept;
	return rc;
}

static int replace_pair(struct ages *ages, struct room *room,
			const struct format_block_header *header, uint64_t offset, uint64_t bytes)
{
	struct ages_slice *a = &ages->slices[ages->chosen], *b = a + 1;
	const struct ages_slice old_a = *a, old_b = *b;
	a->facts = ages->merged;
	a->number = old_b.number;
	a->offset = offset;
	a->bytes = bytes;
	a->raw_bytes = header->raw_bytes;
	ages->count--;
	memmove(b, b + 1, (ages->count - ages->chosen - 1) * sizeof *b);
	ages->slice_bytes += bytes - old_a.bytes - old_b.bytes;
	if (ages->stale_section != header->section)
		ages->stale = 0;
	ages->stale_section = header->section;
	ages->stale++;
	int rc = room_give(room, old_a.offset, old_a.bytes);
	if (rc == 0)
		rc = room_give(room, old_b.offset, old_b.bytes);
	if (rc == 0)
		rc = give_blocks(ages, room, FORMAT_SUMS, header->section, old_b.first);
	return rc;
}

int ages_replaced(struct ages *ages, struct room *room, const struct format_block_header *header,
		  uint64_t offset, uint64_t bytes)
{
	if (header->type == FORMAT_SLICE)
		return replace_pair(ages, room, header, offset, bytes);
	int rc = give_blocks(ages, room, FORMAT_CURVE, header->section, 0);
	ages->off |= !note_block(ages, header, offset, bytes);
	return rc;
}
