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
#include "wire/site.h"

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
 * A heap as stacks are remembered by it. The label of a patched allocator is
 * looked up only when its stack is new: the number of the allocator will do. Two
 * words, which are passed in registers.
 */
struct heap_name {
	uint64_t key;   /* above all bits of an address; 0: no heap */
	uintptr_t name; /* its struct label; HEAP_PATCHED added: the struct wire_site that has it */
};
enum { HEAP_KEY_SHIFT = 47, HEAP_PATCHED = 1 };
_Static_assert(_Alignof(struct label) > HEAP_PATCHED && _Alignof(struct wire_site) > HEAP_PATCHED,
	       "the lowest bit of their addresses is free");

static inline struct heap_name heap_labelled(struct label *label)
{
	if (!label)
		return (struct heap_name){0, 0};
	return (struct heap_name){(uint64_t)label->instance << HEAP_KEY_SHIFT, (uintptr_t)label};
}

static inline struct heap_name heap_patched(const struct wire_site *site)
{
	return (struct heap_name){(uint64_t)site->source << HEAP_KEY_SHIFT,
				  (uintptr_t)site + HEAP_PATCHED};
}

/*
 * The label "PREFIX first=second" (second NULL: without), found or made, and
 * known to the collector. NULL: no room, or no memory. The lane must be raised.
 */
struct label *label_find(struct lane *lane, const char *prefix, const char *first,
			 const char *second);

/* The label of a patched allocator; NULL: it has none, or there is no room. The lane must be
 * raised. */
struct label *label_of_source(struct lane *lane, const struct wire_site *site);

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

/* The same, of a block of this heap, if it is one. */
uint32_t label_below(struct lane *lane, struct heap_name heap, uint32_t node);

/* A key of the thread has this value from now on; NULL: none. */
void label_tag(struct lane *lane, const char *key, const char *value);
