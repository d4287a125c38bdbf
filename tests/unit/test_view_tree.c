/* SPDX-License-Identifier: Apache-2.0 */
/* Call trees of the small heap of shop_heap.h, whole, cut, and from inside. */
#include "base/memory.h"
#include "harness/tap.h"
#include "shop_heap.h"
#include "views/tree.h"

#include <errno.h>
#include <string.h>

struct wanted {
	const char *function; /* NULL: of the root, or without a name */
	uint32_t parent, depth, next;
	uint64_t inclusive, self;
};

static struct view_tree make(const struct view_data *data, struct view_tree_options options)
{
	struct view_tree tree = {0};
	REQUIRE(view_tree_new(data, &options, &tree, NULL) == 0);
	return tree;
}

static void check(const struct view_tree *tree, const struct wanted *wanted, size_t count)
{
	CHECK_EQ_U64(tree->count, count);
	for (size_t i = 0; i < count && i < tree->count; i++) {
		const struct view_tree_node *node = &tree->nodes[i];
		const char *name = node->frame ? node->frame->function : NULL;
		bool ok =
			CHECK_STR(name ? name : "-", wanted[i].function ? wanted[i].function : "-");
		ok &= CHECK_EQ_U64(node->parent, wanted[i].parent);
		ok &= CHECK_EQ_U64(node->depth, wanted[i].depth);
		ok &= CHECK_EQ_U64(node->next, wanted[i].next);
		ok &= CHECK_EQ_U64(node->inclusive.of[tree->order], wanted[i].inclusive);
		ok &= CHECK_EQ_U64(node->self.of[tree->order], wanted[i].self);
		if (!ok)
			tap_note("at node %zu", i);
	}
}
#define CHECK_TREE(tree, wanted) check(tree, wanted, sizeof(wanted) / sizeof(wanted)[0])

static void top_down(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	struct view_tree tree = make(data, (struct view_tree_options){.order = VIEW_PEAK_BYTES});
	static const struct wanted wanted[] = {
		{NULL, 0, 0, 8, 1257, 0},
		{"main", 0, 1, 8, 1257, 0},
		{NULL, 1, 2, 3, 1000, 1000},
		{"cart_add", 1, 2, 5, 250, 0},
		{"operator new(unsigned long)", 3, 3, 5, 250, 250},
		{"walk", 1, 2, 8, 7, 0},
		{"walk", 5, 3, 8, 7, 0},
		{"walk", 6, 4, 8, 7, 7},
	};
	CHECK_TREE(&tree, wanted);
	/* The other figures travel along: cart_add's three blocks, main's four temporary ones not,
	 * since render has nothing of the peak. */
	CHECK_EQ_U64(tree.nodes[3].inclusive.of[VIEW_ALLOCATIONS], 3);
	CHECK_EQ_U64(tree.nodes[1].inclusive.of[VIEW_ALLOCATIONS], 3 + 1 + 1);
	view_tree_done(&tree);
	shop_unload(&shop, data);
}

static void bottom_up(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	struct view_tree tree = make(data, (struct view_tree_options){
						   .direction = VIEW_TREE_BOTTOM_UP,
						   .order = VIEW_PEAK_BYTES,
					   });
	/* operator new is an allocator's: blame begins at its caller. */
	static const struct wanted wanted[] = {
		{NULL, 0, 0, 9, 1257, 0},      {NULL, 0, 1, 3, 1000, 0},
		{"main", 1, 2, 3, 1000, 1000}, {"cart_add", 0, 1, 5, 250, 0},
		{"main", 3, 2, 5, 250, 250},   {"walk", 0, 1, 9, 7, 0},
		{"walk", 5, 2, 9, 7, 0},       {"walk", 6, 3, 9, 7, 0},
		{"main", 7, 4, 9, 7, 7},
	};
	CHECK_TREE(&tree, wanted);
	view_tree_done(&tree);
	shop_unload(&shop, data);
}

static void by_count(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	struct view_tree tree = make(data, (struct view_tree_options){.order = VIEW_TEMPORARY});
	/* render's four, and the block of the stripped library, freed at once. */
	static const struct wanted wanted[] = {
		{NULL, 0, 0, 5, 5, 0},   {"main", 0, 1, 5, 5, 0}, {"render", 1, 2, 4, 4, 0},
		{"draw", 2, 3, 4, 4, 4}, {NULL, 1, 2, 5, 1, 1},
	};
	CHECK_TREE(&tree, wanted);
	view_tree_done(&tree);
	shop_unload(&shop, data);
}

static void cut(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	/* The largest three: what is left out stays in its parent's sum. */
	struct view_tree tree =
		make(data, (struct view_tree_options){.order = VIEW_PEAK_BYTES, .max_nodes = 3});
	static const struct wanted three[] = {
		{NULL, 0, 0, 4, 1257, 0},
		{"main", 0, 1, 4, 1257, 0},
		{NULL, 1, 2, 3, 1000, 1000},
		{"cart_add", 1, 2, 4, 250, 0},
	};
	CHECK_TREE(&tree, three);
	CHECK_EQ_U64(tree.nodes[1].left_out, 1);
	CHECK_EQ_U64(tree.nodes[3].left_out, 1);
	view_tree_done(&tree);

	/* walk has 5,568 millionths of the peak. */
	tree = make(data,
		    (struct view_tree_options){.order = VIEW_PEAK_BYTES, .min_share_ppm = 5569});
	CHECK_EQ_U64(tree.count, 5);
	CHECK_EQ_U64(tree.nodes[1].left_out, 1);
	view_tree_done(&tree);
	tree = make(data,
		    (struct view_tree_options){.order = VIEW_PEAK_BYTES, .min_share_ppm = 5568});
	CHECK_EQ_U64(tree.count, 8);
	view_tree_done(&tree);

	tree = make(data, (struct view_tree_options){
				  .order = VIEW_PEAK_BYTES,
				  .direction = VIEW_TREE_BOTTOM_UP,
				  .max_depth = 1,
			  });
	CHECK_EQ_U64(tree.count, 4);
	CHECK_EQ_U64(tree.nodes[2].inclusive.of[VIEW_PEAK_BYTES], 250);
	view_tree_done(&tree);
	shop_unload(&shop, data);
}

static void from_inside(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	struct view_tree whole = make(data, (struct view_tree_options){.order = VIEW_PEAK_BYTES});
	const uint32_t path[] = {whole.nodes[1].key, whole.nodes[3].key};
	struct view_tree tree = make(data, (struct view_tree_options){
						   .order = VIEW_PEAK_BYTES,
						   .path = path,
						   .path_length = 2,
					   });
	static const struct wanted wanted[] = {
		{NULL, 0, 0, 4, 250, 0},
		{"main", 0, 1, 4, 250, 0},
		{"cart_add", 1, 2, 4, 250, 0},
		{"operator new(unsigned long)", 2, 3, 4, 250, 250},
	};
	CHECK_TREE(&tree, wanted);
	view_tree_done(&tree);
	const uint32_t nowhere[] = {12345};
	tree = make(data, (struct view_tree_options){
				  .order = VIEW_PEAK_BYTES,
				  .direction = VIEW_TREE_BOTTOM_UP,
				  .path = nowhere,
				  .path_length = 1,
			  });
	CHECK_EQ_U64(tree.count, 1);
	CHECK_EQ_U64(tree.nodes[0].inclusive.of[VIEW_PEAK_BYTES], 0);
	view_tree_done(&tree);
	view_tree_done(&whole);
	shop_unload(&shop, data);
}

static void memory_runs_out(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	for (int direction = 0; direction < 2; direction++) {
		const struct view_tree_options options = {
			.direction = (enum view_tree_direction)direction,
			.order = VIEW_ALLOCATED_BYTES,
			.by_line = true,
		};
		int code = -1;
		for (long n = 0; n < 200 && code; n++) {
			struct view_tree tree = {0};
			tm_alloc_fail_at(n);
			code = view_tree_new(data, &options, &tree, NULL);
			CHECK(code == 0 || code == -ENOMEM);
			view_tree_done(&tree);
		}
		tm_alloc_fail_at(-1);
		CHECK_EQ_I64(code, 0);
	}
	shop_unload(&shop, data);
}

static void pivoted(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	/* What walk calls, and who calls it: its recursion hangs below its outermost frame. */
	struct view_tree below =
		make(data, (struct view_tree_options){.order = VIEW_PEAK_BYTES, .pivot = "walk"});
	static const struct wanted callees[] = {
		{NULL, 0, 0, 3, 7, 0}, {"walk", 0, 1, 3, 7, 0}, {"walk", 1, 2, 3, 7, 7}};
	CHECK_TREE(&below, callees);
	view_tree_done(&below);
	struct view_tree above =
		make(data, (struct view_tree_options){.direction = VIEW_TREE_BOTTOM_UP,
						      .order = VIEW_PEAK_BYTES,
						      .pivot = "walk"});
	static const struct wanted callers[] = {{NULL, 0, 0, 2, 7, 0}, {"main", 0, 1, 2, 7, 7}};
	CHECK_TREE(&above, callers);
	view_tree_done(&above);
	struct view_tree none =
		make(data, (struct view_tree_options){.order = VIEW_PEAK_BYTES, .pivot = "nobody"});
	static const struct wanted nothing[] = {{NULL, 0, 0, 1, 0, 0}};
	CHECK_TREE(&none, nothing);
	view_tree_done(&none);
	shop_unload(&shop, data);
}

static void without_recursion(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	REQUIRE(view_data_fold(data, VIEW_FOLD_RECURSION, NULL) == 0);
	struct view_tree tree = make(data, (struct view_tree_options){.order = VIEW_PEAK_BYTES});
	static const struct wanted wanted[] = {
		{NULL, 0, 0, 6, 1257, 0},
		{"main", 0, 1, 6, 1257, 0},
		{NULL, 1, 2, 3, 1000, 1000},
		{"cart_add", 1, 2, 5, 250, 0},
		{"operator new(unsigned long)", 3, 3, 5, 250, 250},
		{"walk", 1, 2, 6, 7, 7},
	};
	CHECK_TREE(&tree, wanted);
	view_tree_done(&tree);
	shop_unload(&shop, data);
}

static void by_module(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	REQUIRE(view_data_fold(data, VIEW_FOLD_MODULES, NULL) == 0);
	struct view_tree tree =
		make(data, (struct view_tree_options){.order = VIEW_PEAK_BYTES, .by_line = true});
	/* No module is its own caller any more, and nothing is lost. */
	CHECK_EQ_U64(tree.nodes[0].inclusive.of[VIEW_PEAK_BYTES], 1257);
	for (size_t i = 1; i < tree.count; i++) {
		const struct view_tree_node *node = &tree.nodes[i];
		const struct view_frame *above = tree.nodes[node->parent].frame;
		CHECK(!above || strcmp(above->module, node->frame->module) != 0);
		for (size_t k = 1; k < tree.count; k++)
			CHECK(tree.nodes[k].frame == node->frame ||
			      strcmp(tree.nodes[k].frame->module, node->frame->module) != 0);
	}
	view_tree_done(&tree);
	shop_unload(&shop, data);
}

static const struct tap_case cases[] = {
	{.name = "the tree from main down has the right shares", .run = top_down},
	{.name = "the tree from the allocating functions up has the right shares",
	 .run = bottom_up},
	{.name = "a tree by number is ordered and cut by number", .run = by_count},
	{.name = "a tree of a huge trace can be cut without losing sums", .run = cut},
	{.name = "one can look into a part of a tree", .run = from_inside},
	{.name = "a pivot has its callers above and its callees below", .run = pivoted},
	{.name = "recursion can be taken out without losing sums", .run = without_recursion},
	{.name = "frames of one module can be one box", .run = by_module},
	{.name = "running out of memory is an error, not a crash", .run = memory_runs_out},
};
TAP_MAIN(cases)
