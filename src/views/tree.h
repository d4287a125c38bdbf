/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call trees: the stacks of a section joined where they agree, from the root
 * down (who calls whom) or from the allocating functions up (who is to blame).
 * Terminal, flame graph and exports draw the same nodes.
 *
 *   nodes[]: preorder, children after their parent, the largest first
 *
 *   0 everything
 *   1 ├─ main                 parent 0, depth 1, next 4
 *   2 │  ├─ load              parent 1, depth 2, next 3
 *   3 │  └─ parse             parent 1, depth 2, next 4
 *   4 └─ start_thread         parent 0, depth 1, next 5 = count
 *
 * `next` is where the subtree ends, so the first child is at index + 1 if
 * next > index + 1, and the sibling after it at its next.
 *
 * Level of detail: nodes are made from the largest downwards, so a small tree of
 * a huge trace costs little: O(stacks) once, then the nodes that are kept. What
 * is left out is counted in its parent: `left_out`, and in `inclusive`. The sum
 * of what is left out is inclusive - self - the inclusive of all children.
 */
#pragma once

#include "views/views.h"

enum view_tree_direction { VIEW_TREE_TOP_DOWN, VIEW_TREE_BOTTOM_UP };

struct view_tree_options {
	enum view_tree_direction direction;
	enum view_figure order; /* what decides about size; stacks with 0 of it are left out */
	bool by_line;           /* a function's lines are nodes apart; else functions are, and
				   where they have no name, their addresses */
	uint32_t min_share_ppm; /* leave out what has less, in millionths of the whole */
	uint32_t max_nodes;     /* beside the root; the largest stay; 0 = VIEW_TREE_NODES_MAX */
	uint32_t max_depth;     /* 0 = any */
	/* Only what is below this path (keys of nodes, from the root): to look into a tree that
	 * was cut. Borrowed during the call; {NULL, 0} is the whole. */
	const uint32_t *path;
	size_t path_length;
	/* Only stacks through this function (its name), and of these only what is inside of its
	 * outermost frame (top-down) or outside of it (bottom-up); the root is the function. NULL:
	 * all. Keys of a path then begin there. */
	const char *pivot;
};
enum { VIEW_TREE_NODES_MAX = 1 << 22 };

struct view_tree_node {
	const struct view_frame *frame; /* one of those that were joined; NULL of the root */
	uint32_t key;                   /* for options.path: told apart by it */
	uint32_t parent;                /* of the root: 0 */
	uint32_t depth;                 /* of the root: 0 */
	uint32_t next;                  /* where the subtree ends */
	uint32_t left_out;              /* children that were left out */
	struct view_figures inclusive;  /* of all stacks through this path */
	/* Top-down: of the stacks that end here, where the allocator was called. Bottom-up: of
	 * those that have no further caller. */
	struct view_figures self;
};

struct view_tree {
	struct view_tree_node *nodes; /* [0] is the root */
	size_t count;
	enum view_tree_direction direction;
	enum view_figure order;
};

/*
 * The tree is the caller's (view_tree_done()); its frames belong to the data. A
 * bottom-up tree begins at the sites: entry points of allocators are left out. A
 * path that does not exist gives the root alone. -ENOMEM.
 */
TM_MUST_CHECK int view_tree_new(const struct view_data *data,
				const struct view_tree_options *options, struct view_tree *ret_tree,
				struct tm_error *err);
void view_tree_done(struct view_tree *tree);
