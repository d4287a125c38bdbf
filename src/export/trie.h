/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of an export as one tree, in which stacks share what is outside:
 *
 *   TRIE_FUNCTIONS  an item is a function below its callers; lines do not count
 *   TRIE_FRAMES     an item is a frame: function, file and line
 *   TRIE_PLACES     an item is an address: all frames that were inlined there
 *
 * Items are numbered from 1 as they are asked for; 0 is the empty stack. A
 * parent's number is smaller than its children's.
 */
#pragma once

#include "base/error.h"
#include "base/idmap.h"
#include "views/views.h"

#include <stddef.h>
#include <stdint.h>

enum trie_kind { TRIE_FUNCTIONS, TRIE_FRAMES, TRIE_PLACES };

struct trie_item {
	uint32_t parent;
	uint32_t frame; /* a number of view_frame_at(): the innermost of a place */
	uint32_t place; /* of TRIE_PLACES: its number, from 1 */
};

struct trie_place { /* frames: place_frames[first, first + count), innermost first */
	uint32_t first, count;
};

struct trie {
	const struct view_data *data;
	enum trie_kind kind;
	struct trie_item *items; /* [0] is the empty stack */
	size_t count, room;
	struct trie_place *places; /* [0] is unused */
	size_t place_count, place_room;
	uint32_t *place_frames;
	size_t frame_count, frame_room;
	/* the trie's own */
	uint32_t *item_of; /* by node; 0 = not yet */
	uint32_t *path;
	size_t path_room;
	struct idmap item_map, place_map;
};

TM_MUST_CHECK int trie_init(struct trie *trie, const struct view_data *data, enum trie_kind kind);
void trie_done(struct trie *trie);
/* The item of a stack, which is a view_stack_row's. New ones are made. -ENOMEM. */
TM_MUST_CHECK int trie_item(struct trie *trie, uint32_t stack, uint32_t *ret_item);
/* trie->path[0, *ret_depth): an item and its callers, innermost first. -ENOMEM. */
TM_MUST_CHECK int trie_path(struct trie *trie, uint32_t item, size_t *ret_depth);
