/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels: names of heaps and of what a thread works for. A label is told to the
 * collector as a module whose path is its text ("[heap] pool", "[tag]
 * request=login"), and an event carries it as a node below its stack's leaf:
 *
 *	root <- ... <- leaf <- [heap] pool <- [tag] request=login
 *
 * So whatever is known per stack is known per label, and nothing else needs to
 * know of them. Texts are kept in private memory, at most LABEL_COUNT of them;
 * what comes after is not labelled.
 */
#pragma once

#include "agent/lane.h"

enum {
	LABEL_SLOTS = 1 << 15,
	LABEL_COUNT = LABEL_SLOTS / 2,
	LABEL_TEXT_BYTES = 224,
	/* Instances of labels follow those of modules. */
	LABEL_INSTANCE_FIRST = MODULE_INSTANCE_MAX + 1,
};

struct label {
	uint64_t hash;
	uint32_t instance;
	uint32_t heap_key;     /* of its blocks' addresses: never 0, the same in every process */
	_Atomic uint64_t told; /* in which session the collector was told last */
	uint32_t bytes;
	char text[LABEL_TEXT_BYTES];
};
_Static_assert(sizeof(struct label) <= 256, "a piece of the arena");

/*
 * The label "PREFIX first=second" (second NULL: without), found or made, and
 * known to the collector. NULL: no room, or no memory. The lane must be raised.
 */
struct label *label_find(struct lane *lane, const char *prefix, const char *first,
			 const char *second);

/* The node with just this heap's label below it; 0: ask label_node(). Nodes are of one session. */
static inline uint32_t label_known(const struct lane *lane, const struct label *heap, uint32_t node)
{
	if (unlikely(!lane->labelled_nodes))
		return 0;
	const struct lane_labelled *known = &lane->labelled_nodes[node % LANE_LABELLED_NODES];
	return known->node == node && known->instance == heap->instance &&
			       known->session == (uint32_t)agent.session
		       ? known->result
		       : 0;
}

/* The thread's next block is of this heap; NULL: of none. */
static inline void label_enter(struct lane *lane, struct label *heap)
{
	struct lane_label *place = &lane->labels[LANE_HEAP];
	lane->labelled -= place->label != NULL;
	place->label = heap;
	lane->labelled += place->label != NULL;
}

/* The node with the lane's labels below it. */
uint32_t label_node(struct lane *lane, uint32_t node);

/* A key of the thread has this value from now on; NULL: none. */
void label_tag(struct lane *lane, const char *key, const char *value);
