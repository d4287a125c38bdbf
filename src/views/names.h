/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of a trace with names instead of addresses.
 *
 *   trace stack ──> chain (the frames of one address, inlined ones first)
 *        │            └─> frame ──> function (name + module)
 *        └──> node: parent node + frame; stacks that read alike are one node
 */
#pragma once

#include "base/idmap.h"
#include "views/views.h"

struct names_function {
	const char *function; /* NULL = those without a name */
	const char *module;
	bool is_root;
};

struct names_node {
	uint32_t parent; /* 0 = outermost; a parent's number is smaller */
	uint32_t frame;
	uint32_t site; /* function_id of the innermost frame that is no allocator's */
	bool has_site; /* else all frames are an allocator's, and site is the leaf's function */
};

struct names {
	struct view_frame *frames;
	size_t frame_count;
	struct names_function *functions;
	size_t function_count;
	struct names_node *nodes; /* [0] is the empty stack */
	size_t node_count;
	uint32_t *node_of; /* by stack_id */

	/* what building needs, and the owner of names that were looked up here */
	size_t frame_room, function_room, node_room;
	struct idmap frame_map, function_map, node_map;
	struct symbols *symbols;
	struct trace_symbol *found;
	struct kinds *kinds;     /* of the input, or its own */
	struct kinds *own_kinds; /* NULL: the input has them */
};

/* O(stacks). -ENOMEM; -EBADMSG for a stack that is its own ancestor; -EFBIG. */
TM_MUST_CHECK int names_init(struct names *names, const struct view_input *input,
			     struct tm_error *err);
/* The node of a frame below a node, made if need be. -ENOMEM, -EFBIG. */
TM_MUST_CHECK int names_intern_node(struct names *names, uint32_t parent, uint32_t frame,
				    uint32_t *ret_id);
void names_done(struct names *names);
/* Frees the stacks, which are its own, and forgets the rest, which is not. */
void names_done_nodes(struct names *names);
