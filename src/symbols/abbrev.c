/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/abbrev.h"

#include <errno.h>
#include <stdlib.h>

#include "base/memory.h"

/* The most that one unit's table may hold: a real one has a few hundred. */
enum { ABBREVS_MAX = 1 << 16, ATTRS_MAX = 1 << 20 };
enum { VARIES = -1, UNKNOWN = -2 };

/* The bytes that a form takes; VARIES; UNKNOWN. */
static int form_bytes(unsigned form, struct form_sizes sizes)
{
	switch (form) {
	case DW_FORM_flag_present:
	case DW_FORM_implicit_const:
		return 0;
	case DW_FORM_data1:
	case DW_FORM_ref1:
	case DW_FORM_flag:
	case DW_FORM_strx1:
	case DW_FORM_addrx1:
		return 1;
	case DW_FORM_data2:
	case DW_FORM_ref2:
	case DW_FORM_strx2:
	case DW_FORM_addrx2:
		return 2;
	case DW_FORM_strx3:
	case DW_FORM_addrx3:
		return 3;
	case DW_FORM_data4:
	case DW_FORM_ref4:
	case DW_FORM_strx4:
	case DW_FORM_addrx4:
	case DW_FORM_ref_sup4:
		return 4;
	case DW_FORM_data8:
	case DW_FORM_ref8:
	case DW_FORM_ref_sig8:
	case DW_FORM_ref_sup8:
		return 8;
	case DW_FORM_data16:
		return 16;
	case DW_FORM_addr:
		return sizes.address;
	case DW_FORM_ref_addr:
		return sizes.version < 3 ? sizes.address : sizes.offset;
	case DW_FORM_strp:
	case DW_FORM_line_strp:
	case DW_FORM_sec_offset:
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_GNU_strp_alt:
		return sizes.offset;
	case DW_FORM_string:
	case DW_FORM_block:
	case DW_FORM_block1:
	case DW_FORM_block2:
	case DW_FORM_block4:
	case DW_FORM_exprloc:
	case DW_FORM_sdata:
	case DW_FORM_udata:
	case DW_FORM_ref_udata:
	case DW_FORM_strx:
	case DW_FORM_addrx:
	case DW_FORM_loclistx:
	case DW_FORM_rnglistx:
	case DW_FORM_GNU_addr_index:
	case DW_FORM_GNU_str_index:
	case DW_FORM_indirect:
		return VARIES;
	}
	return UNKNOWN;
}

static struct value read_varying(struct cursor *in, unsigned form)
{
	struct value value = {.form = (uint16_t)form};
	switch (form) {
	case DW_FORM_string:
		value.text = cursor_text(in);
		break;
	case DW_FORM_sdata:
		value.number = (uint64_t)cursor_sleb(in);
		break;
	case DW_FORM_block:
	case DW_FORM_exprloc:
		cursor_skip(in, cursor_uleb(in));
		break;
	case DW_FORM_block1:
		cursor_skip(in, cursor_uint(in, 1));
		break;
	case DW_FORM_block2:
		cursor_skip(in, cursor_uint(in, 2));
		break;
	case DW_FORM_block4:
		cursor_skip(in, cursor_uint(in, 4));
		break;
	default:
		value.number = cursor_uleb(in);
		break;
	}
	return value;
}

bool abbrev_attr_make(struct abbrev_attr *attr, uint64_t name, uint64_t form,
		      struct form_sizes sizes)
{
	int bytes = form > UINT16_MAX ? UNKNOWN : form_bytes((unsigned)form, sizes);
	if (name > UINT16_MAX || bytes == UNKNOWN)
		return false;
	*attr = (struct abbrev_attr){
		.name = (uint16_t)name,
		.form = (uint16_t)form,
		.bytes = bytes == VARIES ? ABBREV_BYTES_VARY : (uint8_t)bytes,
	};
	return true;
}

static struct value read_indirect(struct cursor *in, struct form_sizes sizes)
{
	struct abbrev_attr attr;
	uint64_t form = cursor_uleb(in);
	if (form == DW_FORM_indirect || !abbrev_attr_make(&attr, 0, form, sizes)) {
		cursor_fail(in);
		return (struct value){0};
	}
	return value_read(in, &attr, sizes);
}

struct value value_read(struct cursor *in, const struct abbrev_attr *attr, struct form_sizes sizes)
{
	struct value value = {.form = attr->form};
	if (attr->form == DW_FORM_indirect)
		return read_indirect(in, sizes);
	if (attr->bytes == ABBREV_BYTES_VARY)
		return read_varying(in, attr->form);
	if (attr->form == DW_FORM_implicit_const)
		value.number = (uint64_t)attr->constant;
	else if (attr->form == DW_FORM_flag_present)
		value.number = 1;
	else if (attr->bytes <= 8)
		value.number = cursor_uint(in, attr->bytes);
	else
		cursor_skip(in, attr->bytes);
	return value;
}

void value_skip_varying(struct cursor *in, const struct abbrev_attr *attr, struct form_sizes sizes)
{
	if (attr->form == DW_FORM_exprloc)
		cursor_skip(in, cursor_uleb(in));
	else
		value_read(in, attr, sizes);
}

static int add_attr(struct abbrevs *abbrevs, struct abbrev_attr attr)
{
	if (abbrevs->attr_count == abbrevs->attr_room) {
		size_t room = abbrevs->attr_room * 2 + 64;
		if (room > ATTRS_MAX)
			return -EFBIG;
		void *grown = tm_grow_array(abbrevs->attrs, room, sizeof *abbrevs->attrs);
		if (!grown)
			return -ENOMEM;
		abbrevs->attrs = grown;
		abbrevs->attr_room = room;
	}
	abbrevs->attrs[abbrevs->attr_count++] = attr;
	return 0;
}

static int add_abbrev(struct abbrevs *abbrevs, const struct abbrev *abbrev)
{
	if (abbrevs->count == abbrevs->room) {
		size_t room = abbrevs->room * 2 + 32;
		if (room > ABBREVS_MAX)
			return -EFBIG;
		void *grown = tm_grow_array(abbrevs->list, room, sizeof *abbrevs->list);
		if (!grown)
			return -ENOMEM;
		abbrevs->list = grown;
		abbrevs->room = room;
	}
	abbrevs->list[abbrevs->count++] = *abbrev;
	return 0;
}

static void note_attr(struct abbrev *abbrev, const struct abbrev_attr *attr)
{
	if (attr->bytes == ABBREV_BYTES_VARY)
		abbrev->bytes = ABBREV_VARIES;
	else if (abbrev->bytes != ABBREV_VARIES)
		abbrev->bytes += attr->bytes;
	enum abbrev_quick quick = abbrev_quick(attr->name);
	abbrev->attr_count++;
	if (quick < QUICK_ATTRS && !abbrev->quick[quick] && abbrev->attr_count <= UINT8_MAX)
		abbrev->quick[quick] = (uint8_t)abbrev->attr_count;
	abbrev->has_code |= quick == QUICK_LOW_PC || quick == QUICK_RANGES;
}

static int load_attrs(struct abbrevs *abbrevs, struct cursor *in, struct abbrev *abbrev,
		      struct form_sizes sizes)
{
	for (;;) {
		uint64_t name = cursor_uleb(in), form = cursor_uleb(in);
		if (!name && !form)
			return in->bad ? -EBADMSG : 0;
		struct abbrev_attr attr;
		/* What cannot be skipped makes all that follows it unreadable. */
		if (in->bad || !abbrev_attr_make(&attr, name, form, sizes))
			return -EBADMSG;
		if (form == DW_FORM_implicit_const)
			attr.constant = cursor_sleb(in);
		attr.at = abbrev->bytes;
		int code = add_attr(abbrevs, attr);
		if (code)
			return code;
		note_attr(abbrev, &attr);
	}
}

/* Code 0 in *ret_abbrev: the table's end. */
static int load_next(struct abbrevs *abbrevs, struct cursor *in, struct form_sizes sizes,
		     struct abbrev *ret_abbrev)
{
	struct abbrev abbrev = {.code = cursor_uleb(in),
				.first_attr = (uint32_t)abbrevs->attr_count};
	if (abbrev.code) {
		abbrev.tag = (uint16_t)cursor_uleb(in);
		abbrev.has_children = cursor_u8(in) == DW_CHILDREN_yes;
		int code = load_attrs(abbrevs, in, &abbrev, sizes);
		if (code)
			return code;
	}
	*ret_abbrev = abbrev;
	return in->bad ? -EBADMSG : 0;
}

static int by_code(const void *left, const void *right)
{
	const struct abbrev *a = left, *b = right;
	return (a->code > b->code) - (a->code < b->code);
}

static int finish(struct abbrevs *abbrevs, int code)
{
	if (code)
		abbrevs_done(abbrevs);
	return code;
}

int abbrevs_load(struct abbrevs *abbrevs, struct cursor from, struct form_sizes sizes)
{
	*abbrevs = (struct abbrevs){0};
	bool sorted = true;
	for (uint64_t last = 0;;) {
		struct abbrev abbrev;
		int code = load_next(abbrevs, &from, sizes, &abbrev);
		if (!code && abbrev.code)
			code = add_abbrev(abbrevs, &abbrev);
		if (code)
			return finish(abbrevs, code);
		if (!abbrev.code)
			break;
		sorted &= abbrev.code > last;
		last = abbrev.code;
	}
	if (!sorted)
		qsort(abbrevs->list, abbrevs->count, sizeof *abbrevs->list, by_code);
	return 0;
}

/* What follows the code of a shape that nobody asked for. */
static bool skip_shape(struct cursor *in)
{
	cursor_uleb(in); /* tag */
	cursor_u8(in);   /* has it children? */
	for (uint64_t name, form; !in->bad;) {
		name = cursor_uleb(in);
		form = cursor_uleb(in);
		if (form == DW_FORM_implicit_const)
			cursor_sleb(in);
		else if (!name && !form)
			break;
	}
	return !in->bad;
}

int abbrevs_load_one(struct abbrevs *abbrevs, struct cursor *from, struct form_sizes sizes,
		     uint64_t wanted)
{
	*abbrevs = (struct abbrevs){0};
	for (unsigned i = 0; i < ABBREVS_MAX; i++) {
		struct cursor in = *from;
		uint64_t found = cursor_uleb(&in);
		if (found == wanted || !found) {
			struct abbrev abbrev;
			in = *from;
			int code = load_next(abbrevs, &in, sizes, &abbrev);
			if (!code)
				code = found ? add_abbrev(abbrevs, &abbrev) : -ENOENT;
			return finish(abbrevs, code);
		}
		if (!skip_shape(&in))
			return -EBADMSG;
		*from = in;
	}
	return -EFBIG;
}

void abbrevs_done(struct abbrevs *abbrevs)
{
	tm_free(abbrevs->list);
	tm_free(abbrevs->attrs);
	*abbrevs = (struct abbrevs){0};
}

size_t abbrevs_bytes(const struct abbrevs *abbrevs)
{
	return abbrevs->room * sizeof *abbrevs->list + abbrevs->attr_room * sizeof *abbrevs->attrs;
}

const struct abbrev *abbrevs_search(const struct abbrevs *abbrevs, uint64_t code)
{
	const struct abbrev key = {.code = code};
	if (!abbrevs->count)
		return NULL;
	return bsearch(&key, abbrevs->list, abbrevs->count, sizeof key, by_code);
}
