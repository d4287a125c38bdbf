/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/walk.h"

#include <dwarf.h>

bool walk_over(struct walk *walk, const struct die *die)
{
	if (!die->abbrev->has_children)
		return true;
	struct value sibling = die_value(die, DW_AT_sibling);
	uint64_t offset = sibling.number;
	if (!sibling.form || (sibling.form != DW_FORM_ref_addr &&
			      __builtin_add_overflow(offset, walk->unit->offset, &offset)))
		return false;
	/* Forward only, or a damaged file would be walked for ever. */
	if (offset <= die->offset || offset > walk->unit->end)
		return false;
	walk->in.at = walk->section + offset;
	walk->pending = NULL;
	return true;
}
