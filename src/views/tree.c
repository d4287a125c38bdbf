/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a tree, best node first.
 *
 * A branch (a node in the making) has members: top-down the nodes of the names'
 * trie that it joins, bottom-up the stacks that pass through it. Opening a
 * branch deals its members out to its children by their key. A heap holds the
 * branches that may still become nodes, so the largest is opened next until
 * there are enough. At the end every stack adds its figures to the last open
 * branch on its way, and sums travel from the leaves to the root.
 */
#include "views/tree.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "views/data.h"

#define NONE        UINT32_MAX
#define KEY_UNNAMED (1u << 31)

struct branch {
	uint64_t total; /* of the order */
	uint32_t parent, key, frame, depth;
	uint32_t members; /* list through builder.next_member, or NONE */
	uint32_t first_child, last_child, next_sibling, left_out;
	bool open;
};

struct builder {
	const struct view_data *data;
	const struct view_tree_options *options;
	struct branch *branches; /* [0] is the root */
	size_t branch_count, branch_room;
	uint32_t *heap; /* branches, the largest total first */
	size_t heap_count, heap_room;
	struct idmap children;  /* (branch, key) -> branch */
	uint32_t *next_member;  /* by member */
	uint32_t *branch_of;    /* by member: the branch it was dealt to; NONE = none yet */
	uint32_t *first_child;  /* top-down, by trie node; 0 = none */
	uint32_t *next_sibling; /* top-down, by trie node; 0 = none */
	uint64_t *totals;       /* top-down, by trie node: of the order, with all below */
	uint32_t *cursor;       /* bottom-up, by stack: its next frame outwards */
	uint64_t min_total;
	size_t open_count;
};

/* ---- the heap ---- */

/* Ties go to the older branch, so that two runs give the same tree. */
static bool is_before(const struct builder *b, uint32_t left, uint32_t right)
{
	const struct branch *x = &b->branches[left], *y = &b->branches[right];
	return x->total != y->total ? x->total > y->total : left < right;
}

static void swap(uint32_t *a, uint32_t *b)
{
	uint32_t kept = *a;
	*a = *b;
	*b = kept;
}

static int heap_push(struct builder *b, uint32_t branch)
{
	if (b->heap_count == b->heap_room) {
		size_t room = b->heap_room * 2 + 64;
		uint32_t *grown = tm_grow_array(b->heap, room, sizeof *grown);
		if (!grown)
			return -ENOMEM;
		b->heap = grown;
		b->heap_room = room;
	}
	size_t at = b->heap_count++;
	b->heap[at] = branch;
	while (at && is_before(b, b->heap[at], b->heap[(at - 1) / 2])) {
		swap(&b->heap[at], &b->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	return 0;
}

static uint32_t heap_pop(struct builder *b)
{
	uint32_t top = b->heap[0];
	b->heap[0] = b->heap[--b->heap_count];
	for (size_t at = 0;;) {
		size_t best = at, left = 2 * at + 1;
		for (size_t child = left; child < left + 2 && child < b->heap_count; child++)
			if (is_before(b, b->heap[child], b->heap[best]))
				best = child;
		if (best == at)
			return top;
		swap(&b->heap[at], &b->heap[best]);
		at = best;
	}
}

/* ---- branches ---- */

struct child_key {
	uint32_t parent, key;
};

static bool same_child(const void *ctx, uint32_t id, const void *key)
{
	const struct branch *branch = &((const struct builder *)ctx)->branches[id];
	const struct child_key *wanted = key;
	return branch->parent == wanted->parent && branch->key == wanted->key;
}

static int new_branch(struct builder *b, struct branch branch)
{
	if (b->branch_count == b->branch_room) {
		size_t room = b->branch_room * 2 + 64;
		struct branch *grown = tm_grow_array(b->branches, room, sizeof *grown);
		if (!grown || room > UINT32_MAX)
			return -ENOMEM;
		b->branches = grown;
		b->branch_room = room;
	}
	branch.members = branch.first_child = branch.last_child = branch.next_sibling = NONE;
	b->branches[b->branch_count++] = branch;
	return 0;
}

/* Functions without a name have one function_id per module, but are not one function. */
static uint32_t key_of(const struct builder *b, uint32_t frame)
{
	const struct view_frame *named = &b->data->names.frames[frame];
	if (b->options->by_line)
		return frame;
	return named->function ? named->function_id : KEY_UNNAMED | frame;
}

/* Deals a member out to the child of `parent` for this frame. */
static int deal(struct builder *b, uint32_t parent, uint32_t member, uint32_t frame, uint64_t total)
{
	struct child_key wanted = {parent, key_of(b, frame)};
	uint32_t depth = b->branches[parent].depth;
	if (depth < b->options->path_length && wanted.key != b->options->path[depth])
		return 0;
	uint64_t hash = hash_pair(wanted.parent, wanted.key);
	uint32_t id = idmap_find(&b->children, hash, same_child, b, &wanted);
	if (id == IDMAP_NONE) {
		id = (uint32_t)b->branch_count;
		struct branch branch = {
			.parent = parent, .key = wanted.key, .frame = frame, .depth = depth + 1};
		if (new_branch(b, branch) || idmap_add(&b->children, hash, id))
			return -ENOMEM;
	}
	b->branches[id].total += total;
	b->next_member[member] = b->branches[id].members;
	b->branches[id].members = member;
	b->branch_of[member] = id;
	return 0;
}

static int deal_trie(struct builder *b, uint32_t parent, uint32_t member)
{
	const struct names_node *nodes = b->data->names.nodes;
	for (uint32_t child = b->first_child[member]; child; child = b->next_sibling[child]) {
		int code = b->totals[child]
				   ? deal(b, parent, child, nodes[child].frame, b->totals[child])
				   : 0;
		if (code)
			return code;
	}
	return 0;
}

static int deal_stack(struct builder *b, uint32_t parent, uint32_t member)
{
	uint32_t node = b->cursor[member];
	if (!node)
		return 0;
	b->cursor[member] = b->data->names.nodes[node].parent;
	return deal(b, parent, member, b->data->names.nodes[node].frame,
		    b->data->rows[member].figures.of[b->options->order]);
}

/* Makes the branch a node: its children become candidates. */
static int open_branch(struct builder *b, uint32_t id)
{
	struct branch *branch = &b->branches[id];
	branch->open = true;
	if (id) {
		struct branch *parent = &b->branches[branch->parent];
		if (parent->first_child == NONE)
			parent->first_child = id;
		else
			b->branches[parent->last_child].next_sibling = id;
		parent->last_child = id;
		b->open_count++;
	}
	if (b->options->max_depth && branch->depth >= b->options->max_depth)
		return 0;
	size_t first = b->branch_count;
	bool top_down = b->options->direction == VIEW_TREE_TOP_DOWN;
	uint32_t next;
	for (uint32_t member = branch->members; member != NONE; member = next) {
		next = b->next_member[member];
		int code = top_down ? deal_trie(b, id, member) : deal_stack(b, id, member);
		if (code)
			return code;
	}
	for (size_t child = first; child < b->branch_count; child++) {
		if (b->branches[child].total < b->min_total)
			b->branches[id].left_out++;
		else if (heap_push(b, (uint32_t)child))
			return -ENOMEM;
	}
	return 0;
}

static int open_all(struct builder *b)
{
	size_t most = b->options->max_nodes ? b->options->max_nodes : VIEW_TREE_NODES_MAX;
	int code = open_branch(b, 0);
	while (!code && b->heap_count && b->open_count < most)
		code = open_branch(b, heap_pop(b));
	for (size_t i = 0; i < b->heap_count; i++)
		b->branches[b->branches[b->heap[i]].parent].left_out++;
	return code;
}

/* ---- members ---- */

static bool is_pivot(const struct builder *b, uint32_t node)
{
	const char *function = b->data->names.frames[b->data->names.nodes[node].frame].function;
	return function && !strcmp(function, b->options->pivot);
}

/* The outermost frames of the pivot become the root's: nodes come after their parents. */
static int begin_at_pivot(struct builder *b)
{
	const struct names *names = &b->data->names;
	bool *is_inside = tm_alloc_array(names->node_count, sizeof *is_inside);
	if (!is_inside)
		return -ENOMEM;
	for (uint32_t i = 1; i < names->node_count; i++) {
		is_inside[i] = is_inside[names->nodes[i].parent] || is_pivot(b, i);
		if (!is_inside[i] || is_inside[names->nodes[i].parent] || !b->totals[i])
			continue;
		b->next_member[i] = b->branches[0].members;
		b->branches[0].members = i;
		b->branches[0].total += b->totals[i];
		b->branch_of[i] = 0;
	}
	tm_free(is_inside);
	return 0;
}

static int begin_top_down(struct builder *b)
{
	const struct names *names = &b->data->names;
	b->totals = tm_alloc_array(names->node_count, sizeof *b->totals);
	b->first_child = tm_alloc_array(names->node_count, sizeof *b->first_child);
	b->next_sibling = tm_alloc_array(names->node_count, sizeof *b->next_sibling);
	if (!b->totals || !b->first_child || !b->next_sibling)
		return -ENOMEM;
	for (size_t i = 0; i < b->data->row_count; i++)
		b->totals[b->data->rows[i].stack] += b->data->rows[i].figures.of[b->options->order];
	for (uint32_t i = (uint32_t)names->node_count; i-- > 1;) {
		uint32_t parent = names->nodes[i].parent;
		b->totals[parent] += b->totals[i];
		b->next_sibling[i] = b->first_child[parent];
		b->first_child[parent] = i;
	}
	if (b->options->pivot)
		return begin_at_pivot(b);
	b->branches[0].members = 0;
	b->next_member[0] = NONE;
	b->branch_of[0] = 0;
	b->branches[0].total = b->totals[0];
	return 0;
}

/* The innermost frame that is no allocator's; the leaf if all are. */
static uint32_t site_of(const struct names *names, uint32_t node)
{
	if (!names->nodes[node].has_site)
		return node;
	while (names->frames[names->nodes[node].frame].is_allocator)
		node = names->nodes[node].parent;
	return node;
}

/* Where a stack's way outwards begins; NONE: it does not belong to the tree. */
static uint32_t begin_of(const struct builder *b, uint32_t node)
{
	const struct names *names = &b->data->names;
	uint32_t found = NONE;
	if (!b->options->pivot)
		return site_of(names, node);
	for (; node; node = names->nodes[node].parent)
		if (is_pivot(b, node))
			found = names->nodes[node].parent;
	return found;
}

static int begin_bottom_up(struct builder *b)
{
	b->cursor = tm_alloc_array(b->data->row_count, sizeof *b->cursor);
	if (!b->cursor)
		return -ENOMEM;
	for (size_t i = b->data->row_count; i-- > 0;) {
		const struct view_stack_row *row = &b->data->rows[i];
		uint64_t total = row->figures.of[b->options->order];
		uint32_t from = total ? begin_of(b, row->stack) : NONE;
		if (from == NONE)
			continue;
		b->branches[0].total += total;
		b->cursor[i] = from;
		b->next_member[i] = b->branches[0].members;
		b->branches[0].members = (uint32_t)i;
		b->branch_of[i] = 0;
	}
	return 0;
}

static int begin(struct builder *b)
{
	bool top_down = b->options->direction == VIEW_TREE_TOP_DOWN;
	size_t members = top_down ? b->data->names.node_count : b->data->row_count;
	b->next_member = tm_alloc_array(members, sizeof *b->next_member);
	b->branch_of = tm_alloc_array(members, sizeof *b->branch_of);
	if (!b->next_member || !b->branch_of || new_branch(b, (struct branch){0}))
		return -ENOMEM;
	for (size_t i = 0; i < members; i++)
		b->branch_of[i] = NONE;
	int code = top_down ? begin_top_down(b) : begin_bottom_up(b);
	/* Rounded up: a share that is exactly the least one stays. */
	double least = (double)b->branches[0].total / 1e6 * b->options->min_share_ppm;
	b->min_total = (uint64_t)least + ((double)(uint64_t)least < least);
	return code;
}

/* ---- the finished tree ---- */

/* Preorder; returns the nodes, and in node_of[] the node of each open branch. */
static struct view_tree_node *lay_out(const struct builder *b, uint32_t *node_of)
{
	struct view_tree_node *nodes = tm_alloc_array(b->open_count + 1, sizeof *nodes);
	if (!nodes)
		return NULL;
	uint32_t count = 0, id = 0;
	for (;;) {
		const struct branch *branch = &b->branches[id];
		node_of[id] = count;
		nodes[count++] = (struct view_tree_node){
			.frame = id ? &b->data->names.frames[branch->frame] : NULL,
			.key = branch->key,
			.parent = id ? node_of[branch->parent] : 0,
			.depth = branch->depth,
			.left_out = branch->left_out,
		};
		if (branch->first_child != NONE) {
			id = branch->first_child;
			continue;
		}
		nodes[node_of[id]].next = count;
		while (id && b->branches[id].next_sibling == NONE) {
			id = b->branches[id].parent;
			nodes[node_of[id]].next = count;
		}
		if (!id)
			return nodes;
		id = b->branches[id].next_sibling;
	}
}

/* The last open branch on the way of a dealt member, and whether its way ends there. */
static uint32_t open_branch_of(const struct builder *b, uint32_t branch)
{
	while (!b->branches[branch].open)
		branch = b->branches[branch].parent;
	return branch;
}

static uint32_t branch_of_row(const struct builder *b, size_t row, bool *ret_ends)
{
	bool top_down = b->options->direction == VIEW_TREE_TOP_DOWN;
	uint32_t dealt = NONE, member = top_down ? b->data->rows[row].stack : (uint32_t)row;
	uint32_t at = member;
	while ((dealt = b->branch_of[at]) == NONE && top_down && at)
		at = b->data->names.nodes[at].parent;
	if (dealt == NONE)
		return NONE;
	uint32_t branch = open_branch_of(b, dealt);
	*ret_ends = branch == dealt && at == member && (top_down || !b->cursor[member]);
	return branch;
}

/* With a path, what is beside it does not belong to the tree. */
static bool is_beside(const struct builder *b, uint32_t branch)
{
	return b->branches[branch].depth < b->options->path_length;
}

static void add_figures(const struct builder *b, const uint32_t *node_of,
			struct view_tree_node *nodes)
{
	for (size_t i = 0; i < b->data->row_count; i++) {
		const struct view_figures *figures = &b->data->rows[i].figures;
		bool ends = false;
		uint32_t branch =
			figures->of[b->options->order] ? branch_of_row(b, i, &ends) : NONE;
		if (branch == NONE || is_beside(b, branch))
			continue;
		struct view_tree_node *node = &nodes[node_of[branch]];
		view_figures_add(&node->inclusive, figures);
		if (ends)
			view_figures_add(&node->self, figures);
	}
	for (size_t i = b->open_count; i > 0; i--)
		view_figures_add(&nodes[nodes[i].parent].inclusive, &nodes[i].inclusive);
}

static int finish(const struct builder *b, struct view_tree *tree)
{
	uint32_t *node_of = tm_alloc_array(b->branch_count, sizeof *node_of);
	struct view_tree_node *nodes = node_of ? lay_out(b, node_of) : NULL;
	if (nodes)
		add_figures(b, node_of, nodes);
	tm_free(node_of);
	if (!nodes)
		return -ENOMEM;
	*tree = (struct view_tree){
		.nodes = nodes,
		.count = b->open_count + 1,
		.direction = b->options->direction,
		.order = b->options->order,
	};
	return 0;
}

int view_tree_new(const struct view_data *data, const struct view_tree_options *options,
		  struct view_tree *ret_tree, struct tm_error *err)
{
	struct builder b = {.data = data, .options = options};
	struct view_tree tree;
	int code = begin(&b);
	if (!code)
		code = open_all(&b);
	if (!code)
		code = finish(&b, &tree);
	tm_free(b.branches);
	tm_free(b.heap);
	idmap_done(&b.children);
	tm_free(b.next_member);
	tm_free(b.branch_of);
	tm_free(b.first_child);
	tm_free(b.next_sibling);
	tm_free(b.totals);
	tm_free(b.cursor);
	if (code)
		return tm_fail(err, code, "out of memory");
	*ret_tree = tree;
	return 0;
}

void view_tree_done(struct view_tree *tree)
{
	tm_free(tree->nodes);
	*tree = (struct view_tree){0};
}
