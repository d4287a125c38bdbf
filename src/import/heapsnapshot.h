/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A V8 heap snapshot in memory: objects, what they are called, and which object
 * keeps which alive.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SNAPSHOT_NONE UINT32_MAX

struct snapshot_node {
	uint64_t self_bytes;
	uint32_t name;       /* number of its string */
	uint32_t first_edge; /* its edges end where the next node's begin */
	uint32_t holder;     /* its dominator; SNAPSHOT_NONE: not held by the root */
	uint8_t type;
};

struct snapshot {
	struct snapshot_node *nodes; /* [0] is the root; one more than node_count at the end */
	size_t node_count, node_room;
	uint32_t *edges; /* node that it leads to; SNAPSHOT_NONE: it keeps nothing alive */
	size_t edge_count, edge_room;
};

/*
 * Sets `holder` of all nodes: the one object without which it would be freed, so that an object's
 * retained size is the sum over what it holds. *ret_order lists the nodes that the root holds, each
 * after its holder; the caller frees it. -ENOMEM. O(edges) in practice.
 */
TM_MUST_CHECK int snapshot_dominate(struct snapshot *snapshot, uint32_t **ret_order,
				    size_t *ret_count);
