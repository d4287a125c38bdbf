/* SPDX-License-Identifier: Apache-2.0 */
#include "export/trie.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

/* Room for one more entry; the array may move. */
#define WITH_ROOM(array, count, room) with_room((void **)&(array), count, &(room), sizeof *(array))

static int with_room(void **array, size_t count, size_t *room, size_t bytes)
{
	if (count < *room)
		return 0;
	void *grown = tm_grow_array(*array, *room * 2 + 64, bytes);
	if (!grown)
		return -ENOMEM;
	*array = grown;
	*room = *room * 2 + 64;
	return 0;
}

int trie_init(struct trie *trie, const struct view_data *data, enum trie_kind kind)
{
	*trie = (struct trie){.data = data, .kind = kind, .count = 1, .place_count = 1};
	trie->item_of = tm_alloc_array(view_node_count(data) + 1, sizeof *trie->item_of);
	if (!trie->item_of || WITH_ROOM(trie->items, 1, trie->room) ||
	    WITH_ROOM(trie->places, 1, trie->place_room)) {
		trie_done(trie);
		return -ENOMEM;
	}
	trie->items[0] = (struct trie_item){0};
	trie->places[0] = (struct trie_place){0};
	return 0;
}

void trie_done(struct trie *trie)
{
	tm_free(trie->items);
	tm_free(trie->places);
	tm_free(trie->place_frames);
	tm_free(trie->item_of);
	tm_free(trie->path);
	idmap_done(&trie->item_map);
	idmap_done(&trie->place_map);
	*trie = (struct trie){0};
}

/* ---- places ---- */

static bool same_place(const void *ctx, uint32_t id, const void *key)
{
	const struct trie *trie = ctx;
	const struct trie_place *have = &trie->places[id], *wanted = key;
	return have->count == wanted->count &&
	       !memcmp(&trie->place_frames[have->first], &trie->place_frames[wanted->first],
		       have->count * sizeof *trie->place_frames);
}

/* The place that begins at a node; *node goes on to its caller. */
static int make_place(struct trie *trie, uint32_t *node, uint32_t *ret_place)
{
	struct trie_place place = {.first = (uint32_t)trie->frame_count};
	const struct view_frame *frame;
	do {
		frame = view_next_frame(trie->data, node);
		if (WITH_ROOM(trie->place_frames, trie->frame_count, trie->frame_room))
			return -ENOMEM;
		trie->place_frames[trie->frame_count++] = view_frame_number(trie->data, frame);
		place.count++;
	} while (frame->inlined && *node);
	uint64_t hash = hash_bytes(&trie->place_frames[place.first],
				   place.count * sizeof *trie->place_frames);
	uint32_t id = idmap_find(&trie->place_map, hash, same_place, trie, &place);
	if (id == IDMAP_NONE) {
		id = (uint32_t)trie->place_count;
		if (WITH_ROOM(trie->places, trie->place_count, trie->place_room) ||
		    idmap_add(&trie->place_map, hash, id))
			return -ENOMEM;
		trie->places[trie->place_count++] = place;
	} else {
		trie->frame_count = place.first;
	}
	*ret_place = id;
	return 0;
}

/* ---- items ---- */

/* What tells an item apart from its siblings. */
static uint64_t key_of(const struct trie *trie, const struct trie_item *item)
{
	const struct view_frame *frame = view_frame_at(trie->data, item->frame);
	switch (trie->kind) {
	case TRIE_FUNCTIONS:
		return frame->function ? frame->function_id : (1ull << 32 | item->frame);
	case TRIE_FRAMES:
		return item->frame;
	case TRIE_PLACES:
		return item->place;
	}
	return 0;
}

static bool same_item(const void *ctx, uint32_t id, const void *key)
{
	const struct trie *trie = ctx;
	const struct trie_item *wanted = key;
	return trie->items[id].parent == wanted->parent &&
	       key_of(trie, &trie->items[id]) == key_of(trie, wanted);
}

static int intern(struct trie *trie, const struct trie_item *item, uint32_t *ret_id)
{
	uint64_t hash = hash_pair(item->parent, key_of(trie, item));
	uint32_t id = idmap_find(&trie->item_map, hash, same_item, trie, item);
	if (id == IDMAP_NONE) {
		id = (uint32_t)trie->count;
		if (WITH_ROOM(trie->items, trie->count, trie->room) ||
		    idmap_add(&trie->item_map, hash, id))
			return -ENOMEM;
		trie->items[trie->count++] = *item;
	}
	*ret_id = id;
	return 0;
}

/* The item of a node below its caller's item, which is known. */
static int make_item(struct trie *trie, uint32_t node, uint32_t *ret_id)
{
	struct trie_item item = {0};
	uint32_t caller = node;
	int code = 0;
	if (trie->kind == TRIE_PLACES) {
		code = make_place(trie, &caller, &item.place);
		item.frame = code ? 0 : trie->place_frames[trie->places[item.place].first];
	} else {
		item.frame = view_frame_number(trie->data, view_next_frame(trie->data, &caller));
	}
	item.parent = caller ? trie->item_of[caller] : 0;
	return code ? code : intern(trie, &item, ret_id);
}

static uint32_t caller_of(const struct trie *trie, uint32_t node)
{
	const struct view_frame *frame;
	do {
		frame = view_next_frame(trie->data, &node);
	} while (trie->kind == TRIE_PLACES && frame && frame->inlined && node);
	return node;
}

int trie_item(struct trie *trie, uint32_t stack, uint32_t *ret_item)
{
	size_t depth = 0;
	int code = 0;
	for (uint32_t at = stack; at && !trie->item_of[at]; at = caller_of(trie, at)) {
		if (WITH_ROOM(trie->path, depth, trie->path_room))
			return -ENOMEM;
		trie->path[depth++] = at;
	}
	while (!code && depth-- > 0)
		code = make_item(trie, trie->path[depth], &trie->item_of[trie->path[depth]]);
	if (!code)
		*ret_item = stack ? trie->item_of[stack] : 0;
	return code;
}

int trie_path(struct trie *trie, uint32_t item, size_t *ret_depth)
{
	size_t depth = 0;
	for (uint32_t at = item; at; at = trie->items[at].parent) {
		if (WITH_ROOM(trie->path, depth, trie->path_room))
			return -ENOMEM;
		trie->path[depth++] = at;
	}
	*ret_depth = depth;
	return 0;
}
