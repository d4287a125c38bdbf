/* SPDX-License-Identifier: Apache-2.0 */
/* A flat walk over a unit's entries in the order of the file: no recursion, whatever the file says.
 */
#pragma once

#include "symbols/unit.h"

struct walk {
	struct unit *unit;
	const uint8_t *section;
	struct cursor in;
	int depth;                    /* of the entry to come, from where the walk began */
	const struct abbrev *pending; /* the attributes of the last entry are still ahead */
};

/* Begins at an entry, which is the first one told; ends with its last descendant. */
static inline bool walk_begin(struct walk *walk, struct unit *unit, uint64_t offset)
{
	if (offset < unit->dies || offset >= unit->end || !unit_load(unit))
		return false;
	const struct image_part *info = image_part(unit->dwarf->image, IMAGE_INFO);
	*walk = (struct walk){
		.unit = unit,
		.section = info->data,
		.in = cursor_at(info->data, unit->end, offset),
	};
	return true;
}

/* The next entry and its depth; false at the end, or where the file is damaged. */
static inline bool walk_next(struct walk *walk, struct die *ret_die, int *ret_depth)
{
	struct unit *unit = walk->unit;
	if (walk->pending) {
		value_skip_all(&walk->in, &unit->abbrevs, walk->pending, unit->sizes);
		walk->depth += walk->pending->has_children;
		walk->pending = NULL;
		if (walk->depth == 0)
			return false;
	}
	const uint8_t *at = walk->in.at;
	uint64_t code = cursor_uleb(&walk->in);
	while (code == 0 && !walk->in.bad) {
		if (--walk->depth <= 0)
			return false;
		at = walk->in.at;
		code = cursor_uleb(&walk->in);
	}
	const struct abbrev *abbrev = abbrevs_find(&unit->abbrevs, code);
	if (walk->in.bad || !abbrev)
		return false;
	*ret_die = (struct die){.unit = unit,
				.offset = (uint64_t)(at - walk->section),
				.abbrev = abbrev,
				.attrs = walk->in};
	*ret_depth = walk->depth;
	walk->pending = abbrev;
	return true;
}

/* Leaves out what is below the entry just told, if the file says where it ends. */
bool walk_over(struct walk *walk, const struct die *die);
