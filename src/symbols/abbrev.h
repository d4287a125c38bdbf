/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes of a unit's entries, and the encoding of their attributes. */
#pragma once

#include "base/error.h"
#include "symbols/cursor.h"

/* What the sizes of some encodings depend on. */
struct form_sizes {
	uint16_t version;
	uint8_t address, offset; /* bytes */
};

struct abbrev_attr {
	uint16_t name, form;
	int64_t constant; /* of DW_FORM_implicit_const */
};

enum { ABBREV_VARIES = UINT32_MAX };

struct abbrev {
	uint64_t code;
	uint32_t first_attr, attr_count;
	uint32_t bytes; /* of all attributes; ABBREV_VARIES */
	uint16_t tag;
	bool has_children;
	bool has_code; /* its attributes say where its code is */
	bool has_sibling;
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
/* Only the shape of one code, for a unit's first entry. The same errors; -ENOENT. */
TM_MUST_CHECK int abbrevs_load_one(struct abbrevs *abbrevs, struct cursor from,
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

struct value value_read(struct cursor *in, const struct abbrev_attr *attr, struct form_sizes sizes);
void value_skip(struct cursor *in, unsigned form, struct form_sizes sizes);
void value_skip_all(struct cursor *in, const struct abbrevs *abbrevs, const struct abbrev *abbrev,
		    struct form_sizes sizes);
