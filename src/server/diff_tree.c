/* SPDX-License-Identifier: Apache-2.0 */
#include "server/diff_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "symbols/kinds.h"

enum { DEPTH_MAX = 1100 }; /* frames of a stack, inlined ones included; the rest is cut */

struct builder {
	struct diff_node *nodes;
	size_t count, room;
	uint32_t *slots; /* node number, 0 = empty; open addressing by (parent, name) */
	size_t slot_count;
};

static uint64_t hash_of(uint32_t parent, const char *name)
{
	return hash_pair(parent, hash_bytes(name, strlen(name)));
}

static int grow(struct builder *b)
{
	size_t room = b->room ? b->room * 2 : 1024, slot_count = room * 2;
	struct diff_node *nodes = tm_grow_array(b->nodes, room, sizeof *nodes);
	if (nodes)
		b->nodes = nodes;
	uint32_t *slots = nodes ? tm_alloc_array(slot_count, sizeof *slots) : NULL;
	if (!slots)
		return -ENOMEM;
	for (uint32_t i = 1; i < b->count; i++) {
		size_t at = hash_of(nodes[i].parent, nodes[i].name) % slot_count;
		while (slots[at])
			at = (at + 1) % slot_count;
		slots[at] = i;
	}
	tm_free(b->slots);
	b->slots = slots;
	b->slot_count = slot_count;
	b->room = room;
	return 0;
}

static int find_child(struct builder *b, uint32_t parent, const char *name, uint8_t kind,
		      uint32_t *ret_node)
{
	if (b->count == b->room && grow(b))
		return -ENOMEM;
	size_t at = hash_of(parent, name) % b->slot_count;
	for (; b->slots[at]; at = (at + 1) % b->slot_count) {
		const struct diff_node *node = &b->nodes[b->slots[at]];
		if (node->parent == parent && !strcmp(node->name, name)) {
			*ret_node = b->slots[at];
			return 0;
		}
	}
	b->slots[at] = (uint32_t)b->count;
	*ret_node = (uint32_t)b->count;
	b->nodes[b->count++] = (struct diff_node){
		.name = name, .kind = kinds_name((enum frame_kind)kind), .parent = parent};
	return 0;
}

static void count(struct diff_node *node, uint64_t value, bool is_after)
{
	if (is_after)
		node->after += value;
	else
		node->before += value;
}

static int add_stack(struct builder *b, const struct diff_tree_side *side, uint32_t stack,
		     uint64_t value)
{
	const struct view_frame *frames[DEPTH_MAX], *frame;
	size_t depth = 0;
	uint32_t node = 0;
	while (depth < DEPTH_MAX && (frame = view_next_frame(side->data, &stack)))
		frames[depth++] = frame;
	count(&b->nodes[0], value, side->is_after);
	while (depth-- > 0) {
		const char *name = frames[depth]->function;
		if (!name)
			name = view_module_name(frames[depth]->module);
		if (find_child(b, node, name, frames[depth]->kind, &node))
			return -ENOMEM;
		count(&b->nodes[node], value, side->is_after);
	}
	return 0;
}

static int add_side(struct builder *b, const struct diff_tree_side *side, enum view_figure figure)
{
	size_t row_count;
	const struct view_stack_row *rows = view_stacks(side->data, &row_count);
	int code = 0;
	for (size_t i = 0; !code && i < row_count; i++)
		if (rows[i].figures.of[figure])
			code = add_stack(b, side, rows[i].stack, rows[i].figures.of[figure]);
	return code;
}

/* ---- the largest, parents first ---- */

static uint64_t weight(const struct diff_node *node)
{
	return node->before > node->after ? node->before : node->after;
}

struct ranked {
	uint64_t weight;
	uint32_t node;
};

/* A parent weighs at least as much as its child and has the smaller number. */
static int by_weight(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	if (x->weight != y->weight)
		return x->weight < y->weight ? 1 : -1;
	return x->node < y->node ? -1 : x->node > y->node;
}

static int choose(struct builder *b, size_t max_nodes, struct diff_tree *ret_tree)
{
	struct ranked *ranked = tm_alloc_array(b->count, sizeof *ranked);
	uint32_t *new_of = tm_alloc_array(b->count, sizeof *new_of);
	size_t kept = b->count < max_nodes + 1 ? b->count : max_nodes + 1;
	struct diff_node *nodes = tm_alloc_array(kept, sizeof *nodes);
	if (ranked && new_of && nodes) {
		for (uint32_t i = 0; i < b->count; i++)
			ranked[i] = (struct ranked){weight(&b->nodes[i]), i};
		qsort(ranked + 1, b->count - 1, sizeof *ranked, by_weight);
		for (uint32_t i = 0; i < kept; i++) {
			nodes[i] = b->nodes[ranked[i].node];
			new_of[ranked[i].node] = i;
			nodes[i].parent = new_of[nodes[i].parent];
		}
		*ret_tree = (struct diff_tree){
			.nodes = nodes, .count = kept, .left_out = b->count - kept};
		nodes = NULL;
	}
	int code = ret_tree->nodes ? 0 : -ENOMEM;
	tm_free(nodes);
	tm_free(ranked);
	tm_free(new_of);
	return code;
}

int diff_tree_new(const struct view_data *before, const struct view_data *after,
		  enum view_figure figure, size_t max_nodes, struct diff_tree *ret_tree,
		  struct tm_error *err)
{
	const struct diff_tree_side sides[] = {{before, false}, {after, true}};
	struct builder b = {0};
	*ret_tree = (struct diff_tree){0};
	int code = grow(&b);
	if (!code) {
		b.nodes[0] = (struct diff_node){.name = "", .kind = ""};
		b.count = 1;
	}
	for (size_t i = 0; !code && i < 2; i++)
		code = add_side(&b, &sides[i], figure);
	if (!code)
		code = choose(&b, max_nodes, ret_tree);
	tm_free(b.nodes);
	tm_free(b.slots);
	return code ? tm_fail(err, code, "no memory for the tree of differences") : 0;
}

void diff_tree_done(struct diff_tree *tree)
{
	tree->nodes = tm_free(tree->nodes);
	tree->count = 0;
}
