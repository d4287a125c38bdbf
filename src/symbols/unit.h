/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The units of one file's DWARF (versions 2 to 5) and their entries. Only a
 * unit's header and first entry are read until something in it is asked for.
 *
 *   struct dwarf   one file: its sections and units; what dwz took out is in `alt`
 *   struct unit    one compilation unit; a skeleton has its entries in `split`
 *   struct die     one entry, borrowed from its unit until unit_unload()
 */
#pragma once

#include "symbols/abbrev.h"
#include "symbols/image.h"

struct dwarf {
	struct image *image; /* borrowed */
	struct unit *units;  /* by offset */
	size_t unit_count, unit_room;
	struct dwarf *alt;           /* borrowed; NULL = none */
	const struct unit *skeleton; /* of a .dwo: the unit that named it */
};

/* Where a unit's parts begin within the sections of a .dwp; all 0 elsewhere. */
struct unit_bases {
	uint64_t abbrev, line, str_offsets, rnglists;
};

struct unit {
	struct dwarf *dwarf;
	uint64_t offset, dies, end; /* in .debug_info: header, first entry, end */
	struct form_sizes sizes;
	uint8_t type;                        /* DW_UT_* */
	uint64_t abbrev_offset, root_abbrev; /* in .debug_abbrev: all, that of the first entry */
	uint64_t dwo_id;
	/* of the first entry: */
	uint64_t base_address;
	uint64_t line_offset; /* UINT64_MAX = no line table */
	uint64_t str_offsets_base, addr_base, rnglists_base;
	uint64_t ranges_base; /* of split units before DWARF 5 */
	const char *comp_dir, *dwo_name;
	/* while loaded: */
	struct abbrevs abbrevs;
	bool is_bad; /* cannot be loaded */
};

struct die {
	struct unit *unit;
	uint64_t offset; /* in .debug_info */
	const struct abbrev *abbrev;
	struct cursor attrs;
};

/*
 * Reads the headers and first entries of all units. alt: what dwz took out;
 * skeleton: of a .dwo; else NULL. Damaged units are left out. -ENOMEM. dwarf_done() also after a
 * failure.
 */
TM_MUST_CHECK int dwarf_init(struct dwarf *dwarf, struct image *image, struct dwarf *alt,
			     const struct unit *skeleton);
/* The same for one unit of a .dwp. -EBADMSG, -EFBIG, -ENOMEM. */
TM_MUST_CHECK int dwarf_init_one(struct dwarf *dwarf, struct image *image,
				 const struct unit *skeleton, uint64_t offset,
				 const struct unit_bases *bases);
void dwarf_done(struct dwarf *dwarf);

/* Reads one unit's header and first entry. -EBADMSG, -EFBIG, -ENOMEM. */
TM_MUST_CHECK int unit_init(struct unit *unit, struct dwarf *dwarf, uint64_t offset,
			    const struct unit_bases *bases);
/*
 * The first entry, without the shapes of the others: unit_unload() before any of those is asked
 * for. The errors of abbrevs_load_one(); then there is nothing to unload.
 */
TM_MUST_CHECK int unit_root(struct unit *unit, struct die *ret_root);
/* Loads what entries need; again and again if need be. */
bool unit_load(struct unit *unit);
void unit_unload(struct unit *unit);

/* The unit that an offset into .debug_info is in, or NULL. */
struct unit *dwarf_unit_at(struct dwarf *dwarf, uint64_t offset);

/* The entry at an offset, which loads its unit. False if there is none. */
bool die_at(struct unit *unit, uint64_t offset, struct die *ret_die);
/* The attribute of this number; form 0 if it cannot be read. */
struct value die_value_at(const struct die *die, uint32_t index);
/* One that is not asked for often. */
struct value die_value_search(const struct die *die, unsigned name);

/* An attribute; form 0 if it has none. */
static inline struct value die_value(const struct die *die, unsigned name)
{
	enum abbrev_quick quick = abbrev_quick(name);
	if (quick == QUICK_ATTRS)
		return die_value_search(die, name);
	uint8_t number = die->abbrev->quick[quick];
	return number ? die_value_at(die, number - 1u) : (struct value){0};
}

/* The entry that a reference leads to. */
bool die_follow(const struct unit *unit, const struct value *value, struct die *ret_die);

/* NULL, or a string of the file, which lives as long as its dwarf. */
const char *unit_text(const struct unit *unit, const struct value *value);
/* False if it is no address. */
bool unit_address(const struct unit *unit, const struct value *value, uint64_t *ret_address);

/*
 * The function's name as the linker knows it, else its plain one (*ret_plain =
 * true), through its declaration and abstract instance. NULL = it has none.
 */
const char *die_function_name(const struct die *die, bool *ret_plain);

/* Told of each stretch of code; 0 to go on. */
typedef int (*range_fn)(void *ctx, uint64_t low, uint64_t high);
/* The code of an entry. What the linker dropped is left out. 0, or what visit returned. */
TM_MUST_CHECK int die_ranges(const struct die *die, range_fn visit, void *ctx);
