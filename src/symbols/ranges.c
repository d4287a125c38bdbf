/* SPDX-License-Identifier: Apache-2.0 */
/* Where an entry's code is: low and high, or a list (.debug_ranges, .debug_rnglists). */
#include <dwarf.h>
#include <errno.h>

#include "symbols/unit.h"

enum { RANGES_MAX = 1 << 16 };

/*
 * A function that the linker dropped keeps its entry, at address 0 or (lld) at
 * the largest ones.
 */
static int tell(const struct unit *unit, range_fn visit, void *ctx, uint64_t low, uint64_t high)
{
	uint64_t top = unit->sizes.address == 4 ? UINT32_MAX : UINT64_MAX;
	if (low == 0 || low >= high || low >= top - 1)
		return 0;
	return visit(ctx, low, high);
}

static int visit_old_list(const struct unit *unit, uint64_t offset, range_fn visit, void *ctx)
{
	const struct unit *owner = unit->dwarf->skeleton ? unit->dwarf->skeleton : unit;
	struct cursor in = image_cursor(owner->dwarf->image, IMAGE_RANGES, offset);
	uint64_t base = unit->base_address;
	uint64_t top = unit->sizes.address == 4 ? UINT32_MAX : UINT64_MAX;
	for (int i = 0; i < RANGES_MAX; i++) {
		uint64_t low = cursor_uint(&in, unit->sizes.address);
		uint64_t high = cursor_uint(&in, unit->sizes.address);
		if (in.bad || (!low && !high))
			return 0;
		if (low == top) {
			base = high;
			continue;
		}
		/* An empty stretch at 1: what binutils leaves of a dropped function. */
		int code = low == high ? 0 : tell(unit, visit, ctx, base + low, base + high);
		if (code)
			return code;
	}
	return 0;
}

struct entry {
	uint64_t low, high;
	bool is_range, is_end;
};

static bool address_at(const struct unit *unit, struct cursor *in, uint64_t *ret_address)
{
	const struct value index = {.form = DW_FORM_addrx, .number = cursor_uleb(in)};
	return unit_address(unit, &index, ret_address);
}

/* One entry of a .debug_rnglists list; *base changes where it says so. */
static bool next_entry(const struct unit *unit, struct cursor *in, uint64_t *base,
		       struct entry *ret_entry)
{
	struct entry entry = {.is_range = true};
	bool ok = true;
	switch (cursor_u8(in)) {
	case DW_RLE_end_of_list:
		entry = (struct entry){.is_end = true};
		break;
	case DW_RLE_base_addressx:
		entry.is_range = false;
		ok = address_at(unit, in, base);
		break;
	case DW_RLE_base_address:
		entry.is_range = false;
		*base = cursor_uint(in, unit->sizes.address);
		break;
	case DW_RLE_startx_endx:
		ok = address_at(unit, in, &entry.low) && address_at(unit, in, &entry.high);
		break;
	case DW_RLE_startx_length:
		ok = address_at(unit, in, &entry.low);
		entry.high = entry.low + cursor_uleb(in);
		break;
	case DW_RLE_start_end:
		entry.low = cursor_uint(in, unit->sizes.address);
		entry.high = cursor_uint(in, unit->sizes.address);
		break;
	case DW_RLE_start_length:
		entry.low = cursor_uint(in, unit->sizes.address);
		entry.high = entry.low + cursor_uleb(in);
		break;
	case DW_RLE_offset_pair: {
		uint64_t low = cursor_uleb(in), high = cursor_uleb(in);
		/* Below a dropped base nothing is left. */
		entry.low = *base ? *base + low : low;
		entry.high = *base + high;
		break;
	}
	default:
		return false;
	}
	*ret_entry = entry;
	return ok && !in->bad;
}

static int visit_list(const struct unit *unit, uint64_t offset, range_fn visit, void *ctx)
{
	struct cursor in = image_cursor(unit->dwarf->image, IMAGE_RNGLISTS, offset);
	/* The lists of a split unit's skeleton lie in the main file. */
	uint64_t base = unit->base_address;
	struct entry entry;
	for (int i = 0; i < RANGES_MAX && next_entry(unit, &in, &base, &entry); i++) {
		if (entry.is_end)
			break;
		int code = entry.is_range ? tell(unit, visit, ctx, entry.low, entry.high) : 0;
		if (code)
			return code;
	}
	return 0;
}

/* An index into the offsets that follow the header of the unit's lists. */
static bool list_at(const struct unit *unit, uint64_t index, uint64_t *ret_offset)
{
	uint64_t place;
	if (__builtin_mul_overflow(index, unit->sizes.offset, &place) ||
	    __builtin_add_overflow(place, unit->rnglists_base, &place))
		return false;
	struct cursor in = image_cursor(unit->dwarf->image, IMAGE_RNGLISTS, place);
	*ret_offset = cursor_uint(&in, unit->sizes.offset) + unit->rnglists_base;
	return !in.bad;
}

static int visit_value(const struct unit *unit, const struct value *ranges, range_fn visit,
		       void *ctx)
{
	uint64_t offset = ranges->number;
	if (ranges->form == DW_FORM_rnglistx && !list_at(unit, ranges->number, &offset))
		return 0;
	if (unit->sizes.version >= 5)
		return visit_list(unit, offset, visit, ctx);
	/* A split unit counts from where its skeleton's lists begin. */
	if (unit->dwarf->skeleton)
		offset += unit->ranges_base;
	return visit_old_list(unit, offset, visit, ctx);
}

int die_ranges(const struct die *die, range_fn visit, void *ctx)
{
	struct value high_value = die_value(die, DW_AT_high_pc);
	if (!high_value.form) {
		struct value ranges = die_value(die, DW_AT_ranges);
		return ranges.form ? visit_value(die->unit, &ranges, visit, ctx) : 0;
	}
	uint64_t low, high;
	struct value low_value = die_value(die, DW_AT_low_pc);
	if (!unit_address(die->unit, &low_value, &low))
		return 0;
	/* An address, or since DWARF 4 more often how many bytes. */
	if (!unit_address(die->unit, &high_value, &high))
		high = low + high_value.number;
	return tell(die->unit, visit, ctx, low, high);
}
