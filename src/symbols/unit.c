/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/unit.h"

#include <dwarf.h>
#include <errno.h>

#include "base/memory.h"

/* Headers a damaged file may make us keep; steps from an entry to its origin. */
enum { UNITS_MAX = 1 << 19, ORIGINS_MAX = 16 };

static const struct unit_bases no_bases;

/* The size at the begin of a unit or table, and how wide its offsets are. */
static uint64_t read_length(struct cursor *in, uint8_t *ret_offset_bytes)
{
	uint64_t length = cursor_uint(in, 4);
	*ret_offset_bytes = 4;
	if (length == 0xffffffff) {
		*ret_offset_bytes = 8;
		length = cursor_uint(in, 8);
	}
	return length;
}

static int read_header(struct unit *unit, struct cursor *in, uint64_t offset)
{
	const uint8_t *section = in->at - offset;
	uint64_t length = read_length(in, &unit->sizes.offset);
	if (in->bad || length > cursor_left(in))
		return -EBADMSG;
	unit->offset = offset;
	unit->end = (uint64_t)(in->at - section) + length;
	unit->sizes.version = (uint16_t)cursor_uint(in, 2);
	unit->type = DW_UT_compile;
	if (unit->sizes.version >= 5) {
		unit->type = cursor_u8(in);
		unit->sizes.address = cursor_u8(in);
		unit->abbrev_offset = cursor_uint(in, unit->sizes.offset);
		if (unit->type == DW_UT_skeleton || unit->type == DW_UT_split_compile)
			unit->dwo_id = cursor_uint(in, 8);
		else if (unit->type == DW_UT_type || unit->type == DW_UT_split_type)
			cursor_skip(in, 8 + (uint64_t)unit->sizes.offset);
	} else {
		unit->abbrev_offset = cursor_uint(in, unit->sizes.offset);
		unit->sizes.address = cursor_u8(in);
	}
	unit->dies = (uint64_t)(in->at - section);
	if (in->bad || unit->dies > unit->end || unit->sizes.version < 2 ||
	    unit->sizes.version > 5 || (unit->sizes.address != 8 && unit->sizes.address != 4))
		return -EBADMSG;
	return 0;
}

/* What the other attributes depend on comes first. */
static void read_bases(struct unit *unit, const struct die *root)
{
	static const unsigned names[] = {DW_AT_str_offsets_base, DW_AT_addr_base,
					 DW_AT_GNU_addr_base, DW_AT_rnglists_base,
					 DW_AT_GNU_ranges_base};
	uint64_t *const places[] = {&unit->str_offsets_base, &unit->addr_base, &unit->addr_base,
				    &unit->rnglists_base, &unit->ranges_base};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		struct value value = die_value(root, names[i]);
		if (value.form)
			*places[i] = value.number;
	}
}

static void read_root(struct unit *unit, const struct die *root, const struct unit_bases *bases)
{
	read_bases(unit, root);
	struct value value = die_value(root, DW_AT_stmt_list);
	unit->line_offset = value.form ? value.number + bases->line : UINT64_MAX;
	value = die_value(root, DW_AT_comp_dir);
	unit->comp_dir = unit_text(unit, &value);
	value = die_value(root, DW_AT_dwo_name);
	if (!value.form)
		value = die_value(root, DW_AT_GNU_dwo_name);
	unit->dwo_name = unit_text(unit, &value);
	value = die_value(root, DW_AT_GNU_dwo_id);
	if (value.form)
		unit->dwo_id = value.number;
	if (value.form && unit->dwo_name && unit->type == DW_UT_compile)
		unit->type = DW_UT_skeleton; /* before DWARF 5 it says so only here */
	value = die_value(root, DW_AT_low_pc);
	uint64_t base;
	if (unit_address(unit, &value, &base))
		unit->base_address = base;
}

/* Split units find their parts at the begin of sections that are all theirs. */
static void default_bases(struct unit *unit, const struct unit_bases *bases)
{
	bool is_split = unit->dwarf->skeleton != NULL;
	uint64_t header = unit->sizes.version < 5 ? 0 : unit->sizes.offset == 8 ? 16 : 8;
	unit->str_offsets_base = bases->str_offsets + (is_split ? header : 0);
	unit->rnglists_base =
		bases->rnglists + (is_split && header ? unit->sizes.offset == 8 ? 20 : 12 : 0);
	unit->abbrev_offset += bases->abbrev;
	if (is_split) {
		unit->addr_base = unit->dwarf->skeleton->addr_base;
		unit->ranges_base = unit->dwarf->skeleton->ranges_base;
		unit->base_address = unit->dwarf->skeleton->base_address;
	}
}

int unit_root(struct unit *unit, struct die *ret_root)
{
	const struct image_part *info = image_part(unit->dwarf->image, IMAGE_INFO);
	const struct image_part *abbrev = image_part(unit->dwarf->image, IMAGE_ABBREV);
	struct cursor in = cursor_at(info->data, unit->end, unit->dies);
	struct cursor from = image_cursor(unit->dwarf->image, IMAGE_ABBREV, unit->root_abbrev);
	int code = abbrevs_load_one(&unit->abbrevs, &from, unit->sizes, cursor_uleb(&in));
	if (code)
		return code;
	unit->root_abbrev = (uint64_t)(from.at - abbrev->data);
	*ret_root = (struct die){
		.unit = unit, .offset = unit->dies, .abbrev = &unit->abbrevs.list[0], .attrs = in};
	return 0;
}

int unit_init(struct unit *unit, struct dwarf *dwarf, uint64_t offset,
	      const struct unit_bases *bases)
{
	*unit = (struct unit){.dwarf = dwarf};
	struct cursor in = image_cursor(dwarf->image, IMAGE_INFO, offset);
	int code = read_header(unit, &in, offset);
	if (code)
		return code;
	default_bases(unit, bases);
	struct die root;
	unit->root_abbrev = unit->abbrev_offset;
	code = unit_root(unit, &root);
	if (code)
		return code;
	read_root(unit, &root, bases);
	unit_unload(unit);
	return 0;
}

bool unit_load(struct unit *unit)
{
	if (!unit->abbrevs.count && !unit->is_bad)
		unit->is_bad = abbrevs_load(&unit->abbrevs,
					    image_cursor(unit->dwarf->image, IMAGE_ABBREV,
							 unit->abbrev_offset),
					    unit->sizes) != 0;
	return !unit->is_bad;
}

void unit_unload(struct unit *unit)
{
	abbrevs_done(&unit->abbrevs);
}

static int add_unit(struct dwarf *dwarf, const struct unit *unit)
{
	if (dwarf->unit_count == dwarf->unit_room) {
		size_t room = dwarf->unit_room * 2 + 64;
		void *grown = tm_grow_array(dwarf->units, room, sizeof *dwarf->units);
		if (!grown)
			return -ENOMEM;
		dwarf->units = grown;
		dwarf->unit_room = room;
	}
	dwarf->units[dwarf->unit_count++] = *unit;
	return 0;
}

int dwarf_init_one(struct dwarf *dwarf, struct image *image, const struct unit *skeleton,
		   uint64_t offset, const struct unit_bases *bases)
{
	struct unit unit;
	*dwarf = (struct dwarf){.image = image, .skeleton = skeleton};
	int code = unit_init(&unit, dwarf, offset, bases);
	return code ? code : add_unit(dwarf, &unit);
}

int dwarf_init(struct dwarf *dwarf, struct image *image, struct dwarf *alt,
	       const struct unit *skeleton)
{
	*dwarf = (struct dwarf){.image = image, .alt = alt, .skeleton = skeleton};
	const struct image_part *info = image_part(dwarf->image, IMAGE_INFO);
	uint64_t offset = 0;
	while (offset < info->bytes && dwarf->unit_count < UNITS_MAX) {
		struct unit unit;
		uint8_t offset_bytes;
		struct cursor in = image_cursor(dwarf->image, IMAGE_INFO, offset);
		uint64_t length = read_length(&in, &offset_bytes);
		if (in.bad || length > cursor_left(&in))
			break;
		int code = unit_init(&unit, dwarf, offset, &no_bases);
		if (!code)
			code = add_unit(dwarf, &unit);
		if (code == -ENOMEM)
			return code;
		offset = (uint64_t)(in.at - info->data) + length;
	}
	return 0;
}

void dwarf_done(struct dwarf *dwarf)
{
	for (size_t i = 0; i < dwarf->unit_count; i++)
		unit_unload(&dwarf->units[i]);
	tm_free(dwarf->units);
	*dwarf = (struct dwarf){0};
}

struct unit *dwarf_unit_at(struct dwarf *dwarf, uint64_t offset)
{
	size_t low = 0, high = dwarf->unit_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (dwarf->units[middle].offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || offset >= dwarf->units[low - 1].end)
		return NULL;
	return &dwarf->units[low - 1];
}

bool die_at(struct unit *unit, uint64_t offset, struct die *ret_die)
{
	if (offset < unit->dies || offset >= unit->end || !unit_load(unit))
		return false;
	const struct image_part *info = image_part(unit->dwarf->image, IMAGE_INFO);
	struct cursor in = cursor_at(info->data, unit->end, offset);
	const struct abbrev *abbrev = abbrevs_find(&unit->abbrevs, cursor_uleb(&in));
	if (!abbrev || in.bad)
		return false;
	*ret_die = (struct die){.unit = unit, .offset = offset, .abbrev = abbrev, .attrs = in};
	return true;
}

struct value die_value_search(const struct die *die, unsigned name)
{
	const struct abbrev_attr *attrs = &die->unit->abbrevs.attrs[die->abbrev->first_attr];
	for (uint32_t i = 0; i < die->abbrev->attr_count; i++)
		if (attrs[i].name == name)
			return die_value_at(die, i);
	return (struct value){0};
}

struct value die_value_at(const struct die *die, uint32_t wanted)
{
	struct cursor in = die->attrs;
	const struct abbrev_attr *attrs = &die->unit->abbrevs.attrs[die->abbrev->first_attr];
	/* From the last place that is the same in all entries of this shape. */
	uint32_t from = wanted;
	while (attrs[from].at == ABBREV_VARIES)
		from--;
	cursor_skip(&in, attrs[from].at);
	for (; from < wanted; from++)
		value_skip(&in, &attrs[from], die->unit->sizes);
	struct value value = value_read(&in, &attrs[wanted], die->unit->sizes);
	return in.bad ? (struct value){0} : value;
}

bool die_follow(const struct unit *unit, const struct value *value, struct die *ret_die)
{
	struct dwarf *dwarf = unit->dwarf;
	struct unit *target = NULL;
	uint64_t offset = value->number;
	switch (value->form) {
	case DW_FORM_ref1:
	case DW_FORM_ref2:
	case DW_FORM_ref4:
	case DW_FORM_ref8:
	case DW_FORM_ref_udata:
		/* Entries are read with their unit, which is never shared between threads. */
		target = (struct unit *)(uintptr_t)unit;
		if (__builtin_add_overflow(offset, unit->offset, &offset))
			return false;
		break;
	case DW_FORM_ref_addr:
		target = dwarf_unit_at(dwarf, offset);
		break;
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_ref_sup4:
	case DW_FORM_ref_sup8:
		target = dwarf->alt ? dwarf_unit_at(dwarf->alt, offset) : NULL;
		break;
	}
	return target && die_at(target, offset, ret_die);
}

static const char *indexed_text(const struct unit *unit, uint64_t index)
{
	uint64_t offset;
	if (__builtin_mul_overflow(index, unit->sizes.offset, &offset) ||
	    __builtin_add_overflow(offset, unit->str_offsets_base, &offset))
		return NULL;
	struct cursor in = image_cursor(unit->dwarf->image, IMAGE_STR_OFFSETS, offset);
	offset = cursor_uint(&in, unit->sizes.offset);
	return in.bad ? NULL : image_text(unit->dwarf->image, IMAGE_STR, offset);
}

const char *unit_text(const struct unit *unit, const struct value *value)
{
	struct dwarf *dwarf = unit->dwarf;
	switch (value->form) {
	case DW_FORM_string:
		return value->text;
	case DW_FORM_strp:
		return image_text(dwarf->image, IMAGE_STR, value->number);
	case DW_FORM_line_strp:
		return image_text(dwarf->image, IMAGE_LINE_STR, value->number);
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_strp_alt:
		return dwarf->alt ? image_text(dwarf->alt->image, IMAGE_STR, value->number) : NULL;
	case DW_FORM_strx:
	case DW_FORM_strx1:
	case DW_FORM_strx2:
	case DW_FORM_strx3:
	case DW_FORM_strx4:
	case DW_FORM_GNU_str_index:
		return indexed_text(unit, value->number);
	}
	return NULL;
}

static bool indexed_address(const struct unit *unit, uint64_t index, uint64_t *ret_address)
{
	const struct unit *owner = unit->dwarf->skeleton ? unit->dwarf->skeleton : unit;
	uint64_t offset;
	if (__builtin_mul_overflow(index, unit->sizes.address, &offset) ||
	    __builtin_add_overflow(offset, unit->addr_base, &offset))
		return false;
	struct cursor in = image_cursor(owner->dwarf->image, IMAGE_ADDR, offset);
	*ret_address = cursor_uint(&in, unit->sizes.address);
	return !in.bad;
}

bool unit_address(const struct unit *unit, const struct value *value, uint64_t *ret_address)
{
	switch (value->form) {
	case DW_FORM_addr:
		*ret_address = value->number;
		return true;
	case DW_FORM_addrx:
	case DW_FORM_addrx1:
	case DW_FORM_addrx2:
	case DW_FORM_addrx3:
	case DW_FORM_addrx4:
	case DW_FORM_GNU_addr_index:
		return indexed_address(unit, value->number, ret_address);
	}
	return false;
}

const char *die_function_name(const struct die *die, bool *ret_plain)
{
	struct die at = *die;
	const char *plain = NULL;
	for (unsigned step = 0; step < ORIGINS_MAX; step++) {
		struct value value = die_value(&at, DW_AT_linkage_name);
		if (!value.form && at.unit->sizes.version < 4)
			value = die_value(&at, DW_AT_MIPS_linkage_name);
		const char *text = unit_text(at.unit, &value);
		/* Names of C are not mangled; the linker's (__GI___libc_malloc) says less. */
		if (text && text[0] == '_' && strchr("ZRD", text[1])) {
			*ret_plain = false;
			return text;
		}
		value = die_value(&at, DW_AT_name);
		plain = plain ? plain : unit_text(at.unit, &value);
		value = die_value(&at, DW_AT_abstract_origin);
		if (!value.form)
			value = die_value(&at, DW_AT_specification);
		if (!value.form || !die_follow(at.unit, &value, &at))
			break;
	}
	*ret_plain = true;
	return plain && plain[0] ? plain : NULL;
}
