/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes of a unit's entries, and the encoding of their attributes. */
#pragma once

#include <dwarf.h>

#include "base/error.h"
#include "symbols/cursor.h"

/* What the sizes of some encodings depend on. */
struct form_sizes {
	uint16_t version;
	uint8_t address, offset; /* bytes */
};

struct abbrev_attr {
	uint16_t name, form;
	uint32_t at;      /* bytes of the attributes before it; ABBREV_VARIES */
	uint8_t bytes;    /* ABBREV_BYTES_VARY */
	int64_t constant; /* of DW_FORM_implicit_const */
};

enum { ABBREV_VARIES = UINT32_MAX, ABBREV_BYTES_VARY = UINT8_MAX };

/* The attributes that are asked for again and again. */
enum abbrev_quick {
	QUICK_LOW_PC,
	QUICK_HIGH_PC,
	QUICK_RANGES,
	QUICK_SIBLING,
	QUICK_NAME,
	QUICK_LINKAGE_NAME,
	QUICK_ABSTRACT_ORIGIN,
	QUICK_SPECIFICATION,
	QUICK_CALL_FILE,
	QUICK_CALL_LINE,
	QUICK_CALL_COLUMN,
	QUICK_ATTRS,
};

/* Which of them it is; QUICK_ATTRS = none. Folded away where the name is a constant. */
static inline enum abbrev_quick abbrev_quick(unsigned name)
{
	switch (name) {
	case DW_AT_low_pc:
		return QUICK_LOW_PC;
	case DW_AT_high_pc:
		return QUICK_HIGH_PC;
	case DW_AT_ranges:
		return QUICK_RANGES;
	case DW_AT_sibling:
		return QUICK_SIBLING;
	case DW_AT_name:
		return QUICK_NAME;
	case DW_AT_linkage_name:
		return QUICK_LINKAGE_NAME;
	case DW_AT_abstract_origin:
		return QUICK_ABSTRACT_ORIGIN;
	case DW_AT_specification:
		return QUICK_SPECIFICATION;
	case DW_AT_call_file:
		return QUICK_CALL_FILE;
	case DW_AT_call_line:
		return QUICK_CALL_LINE;
	case DW_AT_call_column:
		return QUICK_CALL_COLUMN;
	}
	return QUICK_ATTRS;
}

struct abbrev {
	uint64_t code;
	uint32_t first_attr, attr_count;
	uint32_t bytes; /* of all attributes; ABBREV_VARIES */
	uint16_t tag;
	bool has_children;
	bool has_code;              /* its attributes say where its code is */
	uint8_t quick[QUICK_ATTRS]; /* which attribute it is, from 1 on; 0 = none */
};

struct abbrevs {
	struct abbrev *list; /* by code */
	size_t count, room;
	struct abbrev_attr *attrs;
	size_t attr_count, attr_room;
};

/* -EBADMSG, -EFBIG, -ENOMEM. */
TM_MUST_CHECK int abbrevs_load(struct abbrevs *abbrevs, struct cursor from,
			       struct form_sizes sizes);
/*
 * Only the shape of one code, for a unit's first entry; `from` is left where it begins, and finds
 * it at once the next time. The same errors; -ENOENT.
 */
TM_MUST_CHECK int abbrevs_load_one(struct abbrevs *abbrevs, struct cursor *from,
				   struct form_sizes sizes, uint64_t code);
void abbrevs_done(struct abbrevs *abbrevs);
size_t abbrevs_bytes(const struct abbrevs *abbrevs);

const struct abbrev *abbrevs_search(const struct abbrevs *abbrevs, uint64_t code);

/* NULL if there is none. */
static inline const struct abbrev *abbrevs_find(const struct abbrevs *abbrevs, uint64_t code)
{
	/* Compilers number them from 1 on. */
	if (code - 1 < abbrevs->count && abbrevs->list[code - 1].code == code)
		return &abbrevs->list[code - 1];
	return abbrevs_search(abbrevs, code);
}

/* One attribute. */
struct value {
	uint16_t form;    /* 0 = none */
	uint64_t number;  /* also offsets, indices, references; signed ones in two's complement */
	const char *text; /* of DW_FORM_string */
};

/* `attr` as abbrevs_load() or abbrev_attr_make() left it. */
struct value value_read(struct cursor *in, const struct abbrev_attr *attr, struct form_sizes sizes);
void value_skip_varying(struct cursor *in, const struct abbrev_attr *attr, struct form_sizes sizes);

static inline void value_skip(struct cursor *in, const struct abbrev_attr *attr,
			      struct form_sizes sizes)
{
	if (attr->bytes != ABBREV_BYTES_VARY)
		cursor_skip(in, attr->bytes);
	else
		value_skip_varying(in, attr, sizes);
}

static inline void value_skip_all(struct cursor *in, const struct abbrevs *abbrevs,
				  const struct abbrev *abbrev, struct form_sizes sizes)
{
	if (abbrev->bytes != ABBREV_VARIES) {
		cursor_skip(in, abbrev->bytes);
		return;
	}
	for (uint32_t i = 0; i < abbrev->attr_count; i++)
		value_skip(in, &abbrevs->attrs[abbrev->first_attr + i], sizes);
}

/* An attribute that is described elsewhere than in a table. False: its form is not known. */
bool abbrev_attr_make(struct abbrev_attr *attr, uint64_t name, uint64_t form,
		      struct form_sizes sizes);
