/* SPDX-License-Identifier: Apache-2.0 */
/* Flat lists, callers and callees, and folding of the small heap of shop_heap.h. */
#include "base/memory.h"
#include "harness/tap.h"
#include "shop_heap.h"
#include "views/callers.h"

#include <errno.h>
#include <string.h>

static struct view_rows fill(const struct view_data *data, const struct view *view)
{
	struct view_rows rows = {0};
	REQUIRE(view);
	REQUIRE(view_fill(view, data, &rows, NULL) == 0);
	return rows;
}

static const struct view_row *find(const struct view *view, const struct view_rows *rows,
				   const char *name)
{
	const struct view_row *found = NULL;
	for (size_t i = 0; !found && i < rows->count; i++) {
		struct text text = {0};
		view_row_name(&text, view, &rows->rows[i]);
		if (!strcmp(text_string(&text), name))
			found = &rows->rows[i];
		text_done(&text);
	}
	if (!CHECK(found))
		tap_note("no row called '%s'", name);
	REQUIRE(found);
	return found;
}

static void check_row(const struct view_row *row, enum view_figure figure, uint64_t self,
		      uint64_t inclusive)
{
	CHECK_EQ_U64(row->self.of[figure], self);
	CHECK_EQ_U64(row->inclusive.of[figure], inclusive);
}

static void lines(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	const struct view *view = view_find("lines");
	struct view_rows rows = fill(data, view);
	check_row(find(view, &rows, "cart_add cart.c:10"), VIEW_ALLOCATED_BYTES, 250, 250);
	check_row(find(view, &rows, "draw draw.h:3"), VIEW_ALLOCATIONS, 4, 4);
	check_row(find(view, &rows, "render page.c:77"), VIEW_ALLOCATIONS, 0, 4);
	check_row(find(view, &rows, "main"), VIEW_ALLOCATIONS, 0, 10);
	view_rows_done(&rows);
	shop_unload(&shop, data);
}

static void modules(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	const struct view *view = view_find("modules");
	struct view_rows rows = fill(data, view);
	check_row(find(view, &rows, "shop"), VIEW_ALLOCATED_BYTES, 250 + 40 + 7, 1317);
	check_row(find(view, &rows, "libwidget.so.3"), VIEW_ALLOCATED_BYTES, 1000, 1000);
	check_row(find(view, &rows, "[anonymous]"), VIEW_ALLOCATED_BYTES, 0, 20);
	view_rows_done(&rows);
	shop_unload(&shop, data);
}

static void allocators(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	const struct view *view = view_find("allocators");
	struct view_rows rows = fill(data, view);
	CHECK_EQ_U64(rows.count, 2);
	check_row(find(view, &rows, "operator new(unsigned long)"), VIEW_ALLOCATIONS, 3, 3);
	check_row(find(view, &rows, "[called directly]"), VIEW_ALLOCATIONS, 7, 7);
	view_rows_done(&rows);
	shop_unload(&shop, data);
}

static void sorted(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	struct view view = *view_find("functions");
	view.order = VIEW_ALLOCATIONS;
	view.sort = VIEW_SORT_SELF;
	struct view_rows rows = fill(data, &view);
	CHECK_STR(rows.rows[0].function, "draw");     /* 4 */
	CHECK_STR(rows.rows[1].function, "cart_add"); /* 3 */
	view.sort = VIEW_SORT_AVERAGE;                /* 1000 is the largest */
	view_rows_sort(&rows, &view);
	CHECK(!rows.rows[0].function);
	CHECK_EQ_U64(view_average(&rows.rows[0].inclusive, VIEW_ALLOCATIONS), 1000);
	view.sort = VIEW_SORT_NAME;
	view_rows_sort(&rows, &view);
	for (size_t i = 1; i < rows.count; i++) {
		const char *a = rows.rows[i - 1].function, *b = rows.rows[i].function;
		CHECK(strcmp(a ? a : "", b ? b : "") <= 0);
	}
	view_rows_done(&rows);
	/* 250 bytes in 3 blocks: 83.3; 1317 in 10: 131.7. */
	const struct view_figures three = {
		.of = {[VIEW_ALLOCATIONS] = 3, [VIEW_ALLOCATED_BYTES] = 250}};
	const struct view_figures ten = {
		.of = {[VIEW_ALLOCATIONS] = 10, [VIEW_ALLOCATED_BYTES] = 1317}};
	CHECK_EQ_U64(view_average(&three, VIEW_ALLOCATED_BYTES), 83);
	CHECK_EQ_U64(view_average(&ten, VIEW_ALLOCATIONS), 132);
	CHECK_EQ_U64(view_average(&ten, VIEW_PEAK_BYTES), 0);
	CHECK_EQ_U64(view_average(&ten, VIEW_TEMPORARY), 0);
	shop_unload(&shop, data);
}

static struct view_callers callers_of(const struct view_data *data, const char *name)
{
	struct view_callers callers = {0};
	REQUIRE(view_callers_new(data, name, VIEW_ALLOCATED_BYTES, &callers, NULL) == 0);
	return callers;
}

static void callers(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	struct view_callers main_ = callers_of(data, "main");
	CHECK_EQ_U64(main_.inclusive.of[VIEW_ALLOCATED_BYTES], 1317);
	CHECK_EQ_U64(main_.self.of[VIEW_ALLOCATED_BYTES], 0);
	CHECK_EQ_U64(main_.callers.count, 1);
	CHECK(!main_.callers.rows[0].module);
	/* the stripped library, cart_add, render, anonymous code, walk */
	CHECK_EQ_U64(main_.callees.count, 5);
	CHECK_EQ_U64(main_.callees.rows[0].inclusive.of[VIEW_ALLOCATED_BYTES], 1000);
	CHECK_STR(main_.callees.rows[1].function, "cart_add");
	uint64_t sum = 0;
	for (size_t i = 0; i < main_.callees.count; i++)
		sum += main_.callees.rows[i].inclusive.of[VIEW_ALLOCATED_BYTES];
	CHECK_EQ_U64(sum, 1317);
	view_callers_done(&main_);

	struct view_callers cart = callers_of(data, "cart_add");
	CHECK_EQ_U64(cart.self.of[VIEW_ALLOCATIONS], 3);
	CHECK_STR(cart.callers.rows[0].function, "main");
	/* operator new allocates for it: no callee but itself. */
	CHECK_EQ_U64(cart.callees.count, 1);
	CHECK(!cart.callees.rows[0].module);
	CHECK_EQ_U64(cart.lines.count, 1);
	CHECK_STR(cart.lines.rows[0].file, "cart.c");
	CHECK_EQ_U64(cart.lines.rows[0].line, 10);
	view_callers_done(&cart);
	shop_unload(&shop, data);
}

static void recursion(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	struct view_callers walk = callers_of(data, "walk");
	CHECK_EQ_U64(walk.inclusive.of[VIEW_ALLOCATED_BYTES], 7);
	CHECK_EQ_U64(walk.self.of[VIEW_ALLOCATED_BYTES], 7);
	CHECK_EQ_U64(walk.callers.count, 1);
	CHECK_STR(walk.callers.rows[0].function, "main");
	CHECK_EQ_U64(walk.callees.count, 1);
	CHECK(!walk.callees.rows[0].module);
	view_callers_done(&walk);
	shop_unload(&shop, data);
}

static void matching(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	struct view_callers found = callers_of(data, "operator new"); /* without parameters */
	CHECK_STR(found.functions.rows[0].function, "operator new(unsigned long)");
	CHECK_STR(found.callers.rows[0].function, "cart_add");
	CHECK_EQ_U64(found.self.of[VIEW_ALLOCATIONS], 0);
	view_callers_done(&found);
	found = callers_of(data, "art_"); /* a part */
	CHECK_STR(found.functions.rows[0].function, "cart_add");
	view_callers_done(&found);
	struct tm_error err = {0};
	CHECK_EQ_I64(view_callers_new(data, "nobody", VIEW_PEAK_BYTES, &found, &err), -ENOENT);
	CHECK_HAS(err.text, "'nobody'");
	CHECK_EQ_I64(view_callers_new(data, "", VIEW_PEAK_BYTES, &found, &err), -ENOENT);
	shop_unload(&shop, data);
}

static void fold(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	const struct view *view = view_find("functions");
	REQUIRE(view_data_fold(data, 1u << KIND_ALLOCATOR, NULL) == 0);
	struct view_rows rows = fill(data, view);
	for (size_t i = 0; i < rows.count; i++)
		CHECK(!rows.rows[i].function || !strstr(rows.rows[i].function, "operator new"));
	check_row(find(view, &rows, "cart_add"), VIEW_ALLOCATED_BYTES, 250, 250);
	check_row(find(view, &rows, "main"), VIEW_ALLOCATED_BYTES, 0, 1317);
	view_rows_done(&rows);
	/* Of stacks that would be empty the innermost frame stays, and no byte is lost. */
	REQUIRE(view_data_fold(data, (1u << KIND_COUNT) - 1, NULL) == 0);
	rows = fill(data, view);
	uint64_t sum = 0;
	for (size_t i = 0; i < rows.count; i++) {
		sum += rows.rows[i].self.of[VIEW_ALLOCATED_BYTES];
		CHECK(!rows.rows[i].function || strcmp(rows.rows[i].function, "main") != 0);
	}
	CHECK_EQ_U64(sum, 1317);
	view_rows_done(&rows);
	shop_unload(&shop, data);
}

static void memory_runs_out(void)
{
	struct shop shop;
	shop_make(&shop);
	int code = -1;
	for (long n = 0; n < 500 && code; n++) {
		struct view_data *data = NULL;
		struct view_callers found = {0};
		tm_alloc_fail_at(n);
		code = view_data_new(&shop.input, &data, NULL);
		if (!code)
			code = view_callers_new(data, "main", VIEW_PEAK_BYTES, &found, NULL);
		if (!code)
			code = view_data_fold(data, 1u, NULL);
		view_callers_done(&found);
		view_data_free(data);
		CHECK(code == 0 || code == -ENOMEM);
	}
	tm_alloc_fail_at(-1);
	CHECK_EQ_I64(code, 0);
	model_free(shop.model);
}

static const struct tap_case cases[] = {
	{.name = "figures of source lines are exact", .run = lines},
	{.name = "figures of modules are exact", .run = modules},
	{.name = "figures of allocators are exact", .run = allocators},
	{.name = "lists are sorted as asked, averages are right", .run = sorted},
	{.name = "callers and callees of a function add up", .run = callers},
	{.name = "a function that calls itself is counted once", .run = recursion},
	{.name = "a function is found by its name, or by a part of it", .run = matching},
	{.name = "folded frames are gone, and no byte with them", .run = fold},
	{.name = "running out of memory is an error, not a crash", .run = memory_runs_out},
};
TAP_MAIN(cases)
