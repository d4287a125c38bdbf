/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds whom, after Lengauer and Tarjan ("A Fast Algorithm for Finding
 * Dominators in a Flowgraph", the version with path compression alone): lists of
 * a million objects are common, and simpler ways are quadratic on them. Nodes are
 * numbered from the root on in the order in which a walk first comes to them; all
 * arrays below are by that number.
 */
#include <errno.h>

#include "base/memory.h"
#include "import/heapsnapshot.h"

struct walk {
	struct snapshot *s;
	uint32_t *number;    /* by node; SNAPSHOT_NONE: not reached */
	uint32_t *pred_ends; /* by node: where its predecessors end */
	uint32_t *preds;     /* nodes */
	uint32_t *order;     /* node of a number */
	uint32_t *parent;    /* in the tree of the walk, as below: numbers */
	uint32_t *semi, *label, *ancestor, *holder;
	uint32_t *bucket, *bucket_next; /* nodes whose semidominator it is; number + 1 */
	uint32_t *stack, *next_edge;
	size_t count;
};

enum { ARRAYS = 12 };

static bool make(struct walk *w, struct snapshot *s)
{
	*w = (struct walk){.s = s};
	uint32_t **const lists[ARRAYS] = {&w->number, &w->pred_ends,   &w->order,    &w->parent,
					  &w->semi,   &w->label,       &w->ancestor, &w->holder,
					  &w->bucket, &w->bucket_next, &w->stack,    &w->next_edge};
	bool made = true;
	for (size_t i = 0; i < ARRAYS; i++) {
		*lists[i] = tm_alloc_array(s->node_count + 2, sizeof(uint32_t));
		made &= *lists[i] != NULL;
	}
	w->preds = tm_alloc_array(s->edge_count + 1, sizeof *w->preds);
	return made && w->preds;
}

static void done(struct walk *w)
{
	uint32_t *const lists[ARRAYS] = {w->number, w->pred_ends,   w->order,    w->parent,
					 w->semi,   w->label,       w->ancestor, w->holder,
					 w->bucket, w->bucket_next, w->stack,    w->next_edge};
	for (size_t i = 0; i < ARRAYS; i++)
		tm_free(lists[i]);
	tm_free(w->preds);
}

static void come_to(struct walk *w, uint32_t node, uint32_t parent, size_t *depth)
{
	uint32_t number = (uint32_t)w->count++;
	w->number[node] = number;
	w->order[number] = node;
	w->parent[number] = parent;
	w->semi[number] = w->label[number] = number;
	w->ancestor[number] = SNAPSHOT_NONE;
	w->stack[(*depth)++] = node;
}

/* Without recursion. */
static void number_nodes(struct walk *w)
{
	const struct snapshot_node *nodes = w->s->nodes;
	size_t depth = 0;
	for (size_t i = 0; i < w->s->node_count; i++) {
		w->number[i] = SNAPSHOT_NONE;
		w->next_edge[i] = nodes[i].first_edge;
	}
	if (w->s->node_count)
		come_to(w, 0, 0, &depth);
	while (depth > 0) {
		uint32_t node = w->stack[depth - 1];
		if (w->next_edge[node] == nodes[node + 1].first_edge) {
			depth--;
			continue;
		}
		uint32_t to = w->s->edges[w->next_edge[node]++];
		if (to != SNAPSHOT_NONE && w->number[to] == SNAPSHOT_NONE)
			come_to(w, to, w->number[node], &depth);
	}
}

static void turn_edges(struct walk *w)
{
	const struct snapshot *s = w->s;
	for (size_t i = 0; i < s->edge_count; i++)
		if (s->edges[i] != SNAPSHOT_NONE)
			w->pred_ends[s->edges[i] + 1]++;
	for (size_t i = 1; i <= s->node_count; i++)
		w->pred_ends[i] += w->pred_ends[i - 1];
	/* pred_ends[n] is now where n's begin; filling moves it to where they end. */
	for (size_t node = 0; node < s->node_count; node++)
		for (uint32_t e = s->nodes[node].first_edge; e < s->nodes[node + 1].first_edge; e++)
			if (s->edges[e] != SNAPSHOT_NONE)
				w->preds[w->pred_ends[s->edges[e]]++] = (uint32_t)node;
}

/* The node with the least semidominator on the way up to the top of v's tree. */
static uint32_t evaluate(struct walk *w, uint32_t v)
{
	size_t depth = 0;
	if (w->ancestor[v] == SNAPSHOT_NONE)
		return v;
	for (uint32_t at = v; w->ancestor[w->ancestor[at]] != SNAPSHOT_NONE; at = w->ancestor[at])
		w->stack[depth++] = at;
	while (depth > 0) {
		uint32_t at = w->stack[--depth], above = w->ancestor[at];
		if (w->semi[w->label[above]] < w->semi[w->label[at]])
			w->label[at] = w->label[above];
		w->ancestor[at] = w->ancestor[above];
	}
	return w->label[v];
}

static void find_semi(struct walk *w, uint32_t v)
{
	uint32_t node = w->order[v], begin = node ? w->pred_ends[node - 1] : 0;
	for (uint32_t p = begin; p < w->pred_ends[node]; p++) {
		uint32_t from = w->number[w->preds[p]];
		if (from == SNAPSHOT_NONE)
			continue;
		uint32_t least = w->semi[evaluate(w, from)];
		if (least < w->semi[v])
			w->semi[v] = least;
	}
}

static void find_holders(struct walk *w)
{
	for (uint32_t v = (uint32_t)w->count; v-- > 1;) {
		uint32_t parent = w->parent[v];
		find_semi(w, v);
		w->bucket_next[v] = w->bucket[w->semi[v]];
		w->bucket[w->semi[v]] = v + 1;
		w->ancestor[v] = parent;
		for (uint32_t at = w->bucket[parent]; at; at = w->bucket_next[at - 1]) {
			uint32_t least = evaluate(w, at - 1);
			w->holder[at - 1] = w->semi[least] < w->semi[at - 1] ? least : parent;
		}
		w->bucket[parent] = 0;
	}
	for (uint32_t v = 1; v < w->count; v++)
		if (w->holder[v] != w->semi[v])
			w->holder[v] = w->holder[w->holder[v]];
}

int snapshot_dominate(struct snapshot *s, uint32_t **ret_order, size_t *ret_count)
{
	struct walk w;
	if (!make(&w, s)) {
		done(&w);
		return -ENOMEM;
	}
	number_nodes(&w);
	turn_edges(&w);
	find_holders(&w);
	for (size_t i = 0; i < s->node_count; i++)
		s->nodes[i].holder = SNAPSHOT_NONE;
	for (size_t v = 0; v < w.count; v++)
		s->nodes[w.order[v]].holder = w.order[w.holder[v]];
	*ret_order = w.order;
	*ret_count = w.count;
	w.order = NULL;
	done(&w);
	return 0;
}
