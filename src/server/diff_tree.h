/* SPDX-License-Identifier: Apache-2.0 */
/* The largest nodes of the call trees of two sides: what a flame graph can show. */
#pragma once

#include "base/error.h"
#include "views/change_tree.h"

struct diff_node {
	const char *name; /* borrowed from the change_tree */
	uint32_t parent;  /* smaller than its own number; of the root 0 */
	uint64_t before, after;
};

struct diff_tree {
	struct diff_node *nodes; /* [0] is the root; parents before children, the largest first */
	size_t count;
	uint64_t left_out; /* nodes that are not here */
};

/* At most max_nodes beside the root. -ENOMEM. O(nodes). */
TM_MUST_CHECK int diff_tree_new(const struct change_tree *tree, size_t max_nodes,
				struct diff_tree *ret_tree, struct tm_error *err);
void diff_tree_done(struct diff_tree *tree);
