/* SPDX-License-Identifier: Apache-2.0 */
/* The call tree of both sides of a diff as one: by names, from the root down or the leaf up. */
#pragma once

#include "views/diff.h"
#include "views/diff_names.h"

struct change_node {
	const char *name;
	uint32_t parent;               /* a smaller number; 0 = the root */
	uint32_t first_child, sibling; /* the largest change first; 0 = none */
	uint64_t before, after;
};

struct change_tree {
	struct change_node *nodes; /* [0] is the root of all, without a name */
	size_t count, room;
	struct diff_names names;
};

/*
 * Of one figure. bottom_up: from the functions that allocate to their callers.
 * O(frames of all stacks). -ENOMEM. change_tree_done() frees it, also on failure.
 */
TM_MUST_CHECK int change_tree_init(struct change_tree *tree, const struct diff *diff,
				   const struct view_data *before, const struct view_data *after,
				   enum view_figure figure, bool bottom_up, struct tm_error *err);
void change_tree_done(struct change_tree *tree);
