/* SPDX-License-Identifier: Apache-2.0 */
#include "model/maps.h"

#include <errno.h>

#include "base/memory.h"
#include "model/seed.h"

/* A range cut in three needs two new nodes, a move one, and the new range one. */
enum { NODES_PER_EVENT = 4, DEFAULT_PAGE_BYTES = 4096, PROT_ANY = 7, FIRST_ROOM = 64 };

struct map_node {
	uint64_t start, end;
	uint32_t left, right; /* right: next free node while free */
	uint32_t priority;
	uint32_t call;
	uint8_t kind;
};

void maps_init(struct map_set *set, uint64_t page_bytes)
{
	*set = (struct map_set){.page_bytes = page_bytes};
	set->random = (uint32_t)seed_make(set) | 1;
	if (page_bytes == 0 || (page_bytes & (page_bytes - 1)) != 0)
		set->page_bytes = DEFAULT_PAGE_BYTES;
}

void maps_done(struct map_set *set)
{
	tm_free(set->nodes);
	*set = (struct map_set){0};
}

/* ---- nodes ---- */

static int reserve_nodes(struct map_set *set)
{
	if (set->free_count + (set->room - set->used) >= NODES_PER_EVENT)
		return 0;
	if (set->room > UINT32_MAX / 4)
		return -ENOMEM;
	uint32_t room = set->room ? 2 * set->room : FIRST_ROOM;
	struct map_node *nodes = tm_grow_array(set->nodes, room, sizeof *nodes);
	if (!nodes)
		return -ENOMEM;
	if (!set->room) {
		nodes[0] = (struct map_node){0};
		set->used = 1;
	}
	set->nodes = nodes;
	set->room = room;
	return 0;
}

static void count_bytes(struct map_set *set, uint8_t kind, uint32_t call, uint64_t bytes)
{
	set->kind_bytes[kind] += bytes;
	if (set->call_bytes && !kind)
		set->call_bytes[call] += bytes;
}

static uint32_t make_node(struct map_set *set, uint64_t start, uint64_t end, uint8_t kind,
			  uint32_t call)
{
	uint32_t node = set->free_list;
	if (node) {
		set->free_list = set->nodes[node].right;
		set->free_count--;
	} else {
		node = set->used++;
	}
	/* xorshift: any sequence without pattern will do. */
	set->random ^= set->random << 13;
	set->random ^= set->random >> 17;
	set->random ^= set->random << 5;
	set->nodes[node] = (struct map_node){
		.start = start, .end = end, .kind = kind, .call = call, .priority = set->random};
	count_bytes(set, kind, call, end - start);
	return node;
}

static void drop_node(struct map_set *set, uint32_t node)
{
	struct map_node *n = &set->nodes[node];
	count_bytes(set, n->kind, n->call, n->start - n->end);
	n->right = set->free_list;
	set->free_list = node;
	set->free_count++;
}

/* ---- the treap ---- */

/* Nodes that start before `address` go left, the others right. */
static void split(struct map_set *set, uint32_t root, uint64_t address, uint32_t *ret_left,
		  uint32_t *ret_right)
{
	if (!root) {
		*ret_left = *ret_right = 0;
		return;
	}
	uint32_t part;
	if (set->nodes[root].start < address) {
		split(set, set->nodes[root].right, address, &part, ret_right);
		set->nodes[root].right = part;
		*ret_left = root;
	} else {
		split(set, set->nodes[root].left, address, ret_left, &part);
		set->nodes[root].left = part;
		*ret_right = root;
	}
}

static uint32_t merge(struct map_set *set, uint32_t left, uint32_t right)
{
	if (!left || !right)
		return left ? left : right;
	if (set->nodes[left].priority > set->nodes[right].priority) {
		set->nodes[left].right = merge(set, set->nodes[left].right, right);
		return left;
	}
	set->nodes[right].left = merge(set, left, set->nodes[right].left);
	return right;
}

static uint32_t last_of(const struct map_set *set, uint32_t root)
{
	while (root && set->nodes[root].right)
		root = set->nodes[root].right;
	return root;
}

static uint32_t first_of(const struct map_set *set, uint32_t root)
{
	while (root && set->nodes[root].left)
		root = set->nodes[root].left;
	return root;
}

/* The range that holds `address`, or 0. */
static uint32_t find(const struct map_set *set, uint64_t address)
{
	uint32_t at = set->root;
	while (at) {
		const struct map_node *n = &set->nodes[at];
		if (address < n->start)
			at = n->left;
		else if (address >= n->end)
			at = n->right;
		else
			break;
	}
	return at;
}

/* If a range lies across `address`, make it two. */
static void cut_at(struct map_set *set, uint64_t address)
{
	uint32_t node = find(set, address);
	if (!node || set->nodes[node].start == address)
		return;
	uint64_t end = set->nodes[node].end;
	uint8_t kind = set->nodes[node].kind;
	set->nodes[node].end = address;
	count_bytes(set, kind, set->nodes[node].call, address - end);
	uint32_t tail = make_node(set, address, end, kind, set->nodes[node].call);
	uint32_t left, right;
	split(set, set->root, address, &left, &right);
	set->root = merge(set, merge(set, left, tail), right);
}

/* Take [start, end) out of the tree, as a tree of its own. */
static uint32_t take_range(struct map_set *set, uint64_t start, uint64_t end)
{
	cut_at(set, start);
	cut_at(set, end);
	uint32_t left, middle, right;
	split(set, set->root, end, &left, &right);
	split(set, left, start, &left, &middle);
	set->root = merge(set, left, right);
	return middle;
}

static bool is_same(const struct map_set *set, uint32_t node, uint8_t kind, uint32_t call)
{
	return set->nodes[node].kind == kind && set->nodes[node].call == call;
}

/* Put a range where none is, joined with neighbours of its kind and call. */
static void put_range(struct map_set *set, uint64_t start, uint64_t end, uint8_t kind,
		      uint32_t call)
{
	uint32_t left, right;
	split(set, set->root, start, &left, &right);
	uint32_t before = last_of(set, left);
	uint32_t after = first_of(set, right);
	uint32_t part;
	if (before && set->nodes[before].end == start && is_same(set, before, kind, call)) {
		start = set->nodes[before].start;
		split(set, left, start, &left, &part);
		drop_node(set, part);
	}
	if (after && set->nodes[after].start == end && is_same(set, after, kind, call)) {
		end = set->nodes[after].end;
		split(set, right, set->nodes[after].start + 1, &part, &right);
		drop_node(set, part);
	}
	set->root = merge(set, merge(set, left, make_node(set, start, end, kind, call)), right);
}

static void tell_ended(const struct map_set *set, const struct map_node *node)
{
	if (set->ended)
		set->ended(set->ended_ctx, node->start, node->end, node->kind, node->call);
}

static void drop_tree(struct map_set *set, uint32_t root)
{
	if (!root)
		return;
	drop_tree(set, set->nodes[root].left);
	uint32_t right = set->nodes[root].right;
	tell_ended(set, &set->nodes[root]);
	drop_node(set, root);
	drop_tree(set, right);
}

static void put_back_as(struct map_set *set, uint32_t root, uint8_t reserved)
{
	if (!root)
		return;
	struct map_node node = set->nodes[root];
	put_back_as(set, node.left, reserved);
	uint8_t kind = (node.kind & MAP_FILE_BACKED) | reserved;
	if (kind != node.kind)
		tell_ended(set, &node);
	drop_node(set, root);
	uint32_t call = kind == node.kind || set->by_stack ? node.call : set->call;
	put_range(set, node.start, node.end, kind, call);
	put_back_as(set, node.right, reserved);
}

/* ---- events ---- */

static void note_unmapped(struct map_set *set, const struct trace_map_event *event)
{
	uint32_t node = find(set, event->address);
	if (!node)
		return;
	set->recent[set->recent_next++ % MAP_RECENT] = (struct map_recent){
		.address = event->address,
		.thread_id = event->thread_id,
		.kind = set->nodes[node].kind,
		.valid = true,
	};
}

static uint8_t kind_of(const struct trace_map_event *event)
{
	uint8_t kind = (event->flags & TRACE_MAP_FILE) ? MAP_FILE_BACKED : 0;
	return (event->prot_or_advice & PROT_ANY) ? kind : kind | MAP_RESERVED;
}

/*
 * mremap does not say what it moves. The begin half was an unmapping by the
 * same thread, which knows; if there was none, the old range is taken from the set.
 */
static uint8_t kind_of_moved(struct map_set *set, const struct trace_map_event *event)
{
	for (size_t i = 0; i < MAP_RECENT; i++) {
		struct map_recent *recent = &set->recent[i];
		if (recent->valid && recent->address == event->moved_from &&
		    recent->thread_id == event->thread_id) {
			recent->valid = false;
			return recent->kind;
		}
	}
	uint32_t node = find(set, event->moved_from);
	if (!node)
		return kind_of(event);
	uint8_t kind = set->nodes[node].kind;
	drop_tree(set, take_range(set, event->moved_from, set->nodes[node].end));
	return kind;
}

static void apply_brk(struct map_set *set, uint64_t old_break, uint64_t new_break)
{
	if (set->brk_start == 0 || old_break < set->brk_start)
		set->brk_start = old_break;
	set->brk_bytes = new_break > set->brk_start ? new_break - set->brk_start : 0;
	if (set->brk_bytes > set->brk_peak_bytes)
		set->brk_peak_bytes = set->brk_bytes;
}

static void note_peaks(struct map_set *set, uint64_t time_us)
{
	if (maps_committed_bytes(set) > set->mapped_peak_bytes) {
		set->mapped_peak_bytes = maps_committed_bytes(set);
		set->mapped_peak_us = time_us;
	}
	if (maps_reserved_bytes(set) > set->reserved_peak_bytes)
		set->reserved_peak_bytes = maps_reserved_bytes(set);
	if (maps_file_bytes(set) > set->file_peak_bytes)
		set->file_peak_bytes = maps_file_bytes(set);
}

int maps_apply(struct map_set *set, const struct trace_map_event *event)
{
	if (event->op == TRACE_MAP_BRK)
		apply_brk(set, event->address, event->bytes);
	if (event->op == TRACE_MAP_BRK || event->op == TRACE_MAP_FOLDED)
		return 0;
	uint64_t end;
	if (event->bytes == 0 || __builtin_add_overflow(event->address, event->bytes, &end) ||
	    end > UINT64_MAX - set->page_bytes)
		return 0; /* no range of any address space */
	end = (end + set->page_bytes - 1) & ~(set->page_bytes - 1);
	if (reserve_nodes(set))
		return -ENOMEM;
	if (set->by_stack && event->op == TRACE_MAP)
		set->call = event->stack_id;
	switch ((enum trace_map_op)event->op) {
	case TRACE_MAP: {
		uint8_t kind = event->moved_from ? kind_of_moved(set, event) : kind_of(event);
		drop_tree(set, take_range(set, event->address, end));
		put_range(set, event->address, end, kind, set->call);
		break;
	}
	case TRACE_UNMAP:
		note_unmapped(set, event);
		drop_tree(set, take_range(set, event->address, end));
		break;
	case TRACE_MAP_PROTECT: {
		uint8_t reserved = (event->prot_or_advice & PROT_ANY) ? 0 : MAP_RESERVED;
		put_back_as(set, take_range(set, event->address, end), reserved);
		break;
	}
	case TRACE_MAP_ADVISE: /* given-back pages stay mapped */
	case TRACE_MAP_BRK:
	case TRACE_MAP_FOLDED:
	case TRACE_MAP_OPS:
		break;
	}
	note_peaks(set, event->time_ns / 1000);
	return 0;
}

uint32_t maps_call_at(const struct map_set *set, uint64_t address, uint32_t otherwise)
{
	uint32_t node = find(set, address);
	return node ? set->nodes[node].call : otherwise;
}

uint64_t maps_memory_bytes(const struct map_set *set)
{
	return (uint64_t)set->room * sizeof *set->nodes;
}

/* As deep as the tree, which random priorities keep flat. */
static int visit(const struct map_set *set, uint32_t node, maps_range_fn fn, void *ctx)
{
	if (!node)
		return 0;
	const struct map_node *n = &set->nodes[node];
	int rc = visit(set, n->left, fn, ctx);
	if (!rc)
		rc = fn(ctx, n->start, n->end, n->kind, n->call);
	return rc ? rc : visit(set, n->right, fn, ctx);
}

int maps_each(const struct map_set *set, maps_range_fn fn, void *ctx)
{
	return visit(set, set->root, fn, ctx);
}

static int visit_within(const struct map_set *set, uint32_t node, uint64_t start, uint64_t end,
			maps_range_fn fn, void *ctx)
{
	if (!node)
		return 0;
	const struct map_node *n = &set->nodes[node];
	int rc = start < n->start ? visit_within(set, n->left, start, end, fn, ctx) : 0;
	if (!rc && n->start < end && n->end > start)
		rc = fn(ctx, n->start > start ? n->start : start, n->end < end ? n->end : end,
			n->kind, n->call);
	return rc || n->end >= end ? rc : visit_within(set, n->right, start, end, fn, ctx);
}

int maps_within(const struct map_set *set, uint64_t start, uint64_t end, maps_range_fn fn,
		void *ctx)
{
	return visit_within(set, set->root, start, end, fn, ctx);
}
