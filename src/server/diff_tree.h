/* SPDX-License-Identifier: Apache-2.0 */
/* The call trees of two sides as one, joined by names: for a flame graph of differences. */
#pragma once

#include "base/error.h"
#include "views/diff.h"

struct diff_node {
	const char *name; /* borrowed from the data of one side */
	const char *kind; /* of the frame */
	uint32_t parent;  /* smaller than its own number; of the root 0 */
	uint64_t before, after;
};

struct diff_tree {
	struct diff_node *nodes; /* [0] is the root; parents before children, the largest first */
	size_t count;
	uint64_t left_out; /* nodes that are not here: beyond max_nodes, or 0 on both sides */
};

struct diff_tree_side {
	const struct view_data *data;
	bool is_after;
};

/* Top-down, in one figure, at most max_nodes beside the root. -ENOMEM. O(frames). */
TM_MUST_CHECK int diff_tree_new(const struct view_data *before, const struct view_data *after,
				enum view_figure figure, size_t max_nodes,
				struct diff_tree *ret_tree, struct tm_error *err);
void diff_tree_done(struct diff_tree *tree);
