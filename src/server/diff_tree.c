/* SPDX-License-Identifier: Apache-2.0 */
#include "server/diff_tree.h"

#include <errno.h>
#include <stdlib.h>

#include "base/memory.h"

struct ranked {
	uint64_t weight;
	uint32_t node;
};

static uint64_t weight(const struct change_node *node)
{
	return node->before > node->after ? node->before : node->after;
}

/* A parent weighs at least as much as its child and has the smaller number. */
static int by_weight(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	if (x->weight != y->weight)
		return x->weight < y->weight ? 1 : -1;
	return x->node < y->node ? -1 : x->node > y->node;
}

static void fill(const struct change_tree *tree, struct ranked *ranked, uint32_t *new_of,
		 struct diff_tree *out)
{
	for (uint32_t i = 0; i < tree->count; i++)
		ranked[i] = (struct ranked){weight(&tree->nodes[i]), i};
	qsort(ranked + 1, tree->count - 1, sizeof *ranked, by_weight);
	for (uint32_t i = 0; i < out->count; i++) {
		const struct change_node *node = &tree->nodes[ranked[i].node];
		new_of[ranked[i].node] = i;
		out->nodes[i] = (struct diff_node){
			.name = node->name ? node->name : "",
			.parent = new_of[node->parent],
			.before = node->before,
			.after = node->after,
		};
	}
}

int diff_tree_new(const struct change_tree *tree, size_t max_nodes, struct diff_tree *ret_tree,
		  struct tm_error *err)
{
	size_t kept = tree->count < max_nodes + 1 ? tree->count : max_nodes + 1;
	struct diff_tree out = {.count = kept, .left_out = tree->count - kept};
	struct ranked *ranked = tm_alloc_array(tree->count, sizeof *ranked);
	uint32_t *new_of = tm_alloc_array(tree->count, sizeof *new_of);
	out.nodes = tm_alloc_array(kept, sizeof *out.nodes);
	bool ok = ranked && new_of && out.nodes;
	if (ok)
		fill(tree, ranked, new_of, &out);
	else
		tm_free(out.nodes);
	tm_free(ranked);
	tm_free(new_of);
	if (!ok)
		return tm_fail(err, -ENOMEM, "no memory for the tree of differences");
	*ret_tree = out;
	return 0;
}

void diff_tree_done(struct diff_tree *tree)
{
	tree->nodes = tm_free(tree->nodes);
	tree->count = 0;
}
