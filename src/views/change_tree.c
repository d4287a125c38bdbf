/* SPDX-License-Identifier: Apache-2.0 */
#include "views/change_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/sort.h"

struct work {
	struct change_tree *tree;
	struct idmap map;  /* (parent, name) -> node */
	uint32_t *name_of; /* by node */
	size_t name_room;
	uint32_t *path; /* names of one stack, the innermost first */
	size_t path_count, path_room;
	bool bottom_up;
};

struct wanted {
	uint32_t parent, name;
};

static bool same(const void *ctx, uint32_t id, const void *key)
{
	const struct work *k = ctx;
	const struct wanted *wanted = key;
	return k->tree->nodes[id].parent == wanted->parent && k->name_of[id] == wanted->name;
}

/* Room for one more in an array of `bytes`-sized things; NULL: no memory. */
static void *grown(void *array, size_t count, size_t *room, size_t bytes)
{
	if (count < *room)
		return array;
	size_t wanted = *room * 2 + 256;
	void *larger = tm_grow_array(array, wanted, bytes);
	if (larger)
		*room = wanted;
	return larger;
}

static int find_node(struct work *k, uint32_t parent, uint32_t name, uint32_t *ret)
{
	struct change_tree *tree = k->tree;
	const struct wanted wanted = {parent, name};
	uint64_t hash = hash_pair(parent, name);
	*ret = idmap_find(&k->map, hash, same, k, &wanted);
	if (*ret != IDMAP_NONE)
		return 0;
	void *nodes = grown(tree->nodes, tree->count, &tree->room, sizeof *tree->nodes);
	if (!nodes)
		return -ENOMEM;
	tree->nodes = nodes;
	void *names = grown(k->name_of, tree->count, &k->name_room, sizeof *k->name_of);
	if (!names)
		return -ENOMEM;
	k->name_of = names;
	if (idmap_add(&k->map, hash, (uint32_t)tree->count))
		return -ENOMEM;
	k->name_of[tree->count] = name;
	tree->nodes[tree->count] = (struct change_node){.parent = parent};
	*ret = (uint32_t)tree->count++;
	return 0;
}

/* The names of a stack, from its site (or the allocation) to main. */
static int read_path(struct work *k, const struct view_data *data, uint32_t stack)
{
	const struct view_frame *frame;
	bool at_root = false;
	k->path_count = 0;
	while (!at_root && (frame = view_next_frame(data, &stack))) {
		void *path = grown(k->path, k->path_count, &k->path_room, sizeof *k->path);
		if (!path)
			return -ENOMEM;
		k->path = path;
		at_root = frame->is_root;
		int rc = diff_names_frame(&k->tree->names, frame->function, frame->module,
					  &k->path[k->path_count]);
		if (rc)
			return rc;
		k->path_count++;
	}
	return 0;
}

static int add_stack(struct work *k, const struct view_data *data, uint32_t stack, uint64_t before,
		     uint64_t after)
{
	uint32_t node = 0;
	int rc = read_path(k, data, stack);
	k->tree->nodes[0].before += before;
	k->tree->nodes[0].after += after;
	for (size_t i = 0; i < k->path_count && !rc; i++) {
		size_t at = k->bottom_up ? i : k->path_count - 1 - i;
		rc = find_node(k, node, k->path[at], &node);
		if (rc)
			break;
		k->tree->nodes[node].before += before;
		k->tree->nodes[node].after += after;
	}
	return rc;
}

static uint64_t change(const struct change_node *node)
{
	return node->after > node->before ? node->after - node->before : node->before - node->after;
}

static int by_change(const void *left, const void *right, void *ctx)
{
	const struct change_tree *tree = ctx;
	uint32_t x = *(const uint32_t *)left, y = *(const uint32_t *)right;
	const struct change_node *a = &tree->nodes[x], *b = &tree->nodes[y];
	if (change(a) != change(b))
		return change(a) < change(b) ? -1 : 1;
	int names = strcmp(b->name, a->name);
	return names ? names : (x > y) - (x < y);
}

/* Linked in rising order of change, each before the last: the largest stands first. */
static int link_children(struct work *k)
{
	struct change_tree *tree = k->tree;
	uint32_t *order = tm_alloc_array(tree->count + 1, sizeof *order);
	if (!order)
		return -ENOMEM;
	for (size_t i = 1; i < tree->count; i++) {
		tree->nodes[i].name = tree->names.texts[k->name_of[i]];
		order[i - 1] = (uint32_t)i;
	}
	sort_array(order, tree->count - 1, sizeof *order, by_change, tree);
	for (size_t i = 0; i + 1 < tree->count; i++) {
		struct change_node *node = &tree->nodes[order[i]];
		node->sibling = tree->nodes[node->parent].first_child;
		tree->nodes[node->parent].first_child = order[i];
	}
	tm_free(order);
	return 0;
}

int change_tree_init(struct change_tree *tree, const struct diff *diff,
		     const struct view_data *before, const struct view_data *after,
		     enum view_figure figure, bool bottom_up, struct tm_error *err)
{
	struct work k = {.tree = tree, .bottom_up = bottom_up};
	uint32_t root;
	*tree = (struct change_tree){0};
	int rc = find_node(&k, 0, UINT32_MAX, &root); /* no name has that number */
	for (size_t i = 0; i < diff->stacks.count && !rc; i++) {
		const struct diff_row *row = &diff->stacks.rows[i];
		const struct view_data *data = row->after_stack ? after : before;
		rc = add_stack(&k, data, row->after_stack ? row->after_stack : row->before_stack,
			       row->before.of[figure], row->after.of[figure]);
	}
	if (!rc)
		rc = link_children(&k);
	idmap_done(&k.map);
	tm_free(k.name_of);
	tm_free(k.path);
	return rc ? tm_fail(err, rc, "out of memory") : 0;
}

void change_tree_done(struct change_tree *tree)
{
	tm_free(tree->nodes);
	diff_names_done(&tree->names);
	*tree = (struct change_tree){0};
}
