/* SPDX-License-Identifier: Apache-2.0 */
#include "shop_heap.h"

#include "harness/tap.h"

#define BIAS       UINT64_C(0x500000)
#define AT(offset) (BIAS + (offset) + 1) /* a return address */

static const struct trace_module modules[] = {
	{0},
	{.module_id = 1, .bias = BIAS, .path = "/opt/app/shop"},
	{.module_id = 2, .bias = 0x900000, .path = "/usr/lib/libwidget.so.3"},
};

const struct trace_stack shop_stacks[SHOP_STACKS] = {
	{0},
	{.parent_id = 0, .module_id = 1, .pc = AT(0x100)},  /* 1 main */
	{.parent_id = 1, .module_id = 1, .pc = AT(0x200)},  /* 2 cart_add */
	{.parent_id = 2, .module_id = 1, .pc = AT(0x300)},  /* 3 operator new */
	{.parent_id = 1, .module_id = 1, .pc = AT(0x208)},  /* 4 cart_add, the same line */
	{.parent_id = 4, .module_id = 1, .pc = AT(0x300)},  /* 5 operator new */
	{.parent_id = 1, .module_id = 1, .pc = AT(0x400)},  /* 6 draw inlined into render */
	{.parent_id = 1, .module_id = 1, .pc = AT(0x500)},  /* 7 walk */
	{.parent_id = 7, .module_id = 1, .pc = AT(0x500)},  /* 8 walk */
	{.parent_id = 8, .module_id = 1, .pc = AT(0x500)},  /* 9 walk */
	{.parent_id = 1, .module_id = 2, .pc = 0x900777},   /* 10 no name */
	{.parent_id = 1, .module_id = 0, .pc = 0x7f001234}, /* 11 anonymous code */
	{.parent_id = 11, .module_id = TRACE_MODULE_MARK, .pc = TRACE_MARK_CUT}, /* 12 */
};

static const struct trace_symbol symbols[] = {
	{.module_id = 1, .address = BIAS + 0x100, .function = "main", .source = TRACE_SYM_SYMTAB},
	{.module_id = 1,
	 .address = BIAS + 0x200,
	 .function = "cart_add",
	 .file = "cart.c",
	 .line = 10,
	 .source = TRACE_SYM_DWARF},
	{.module_id = 1,
	 .address = BIAS + 0x208,
	 .function = "cart_add",
	 .file = "cart.c",
	 .line = 10,
	 .source = TRACE_SYM_DWARF},
	{.module_id = 1,
	 .address = BIAS + 0x300,
	 .function = "operator new(unsigned long)",
	 .source = TRACE_SYM_DYNSYM},
	{.module_id = 1,
	 .address = BIAS + 0x400,
	 .function = "draw",
	 .file = "draw.h",
	 .line = 3,
	 .inlined = 1,
	 .source = TRACE_SYM_DWARF},
	{.module_id = 1,
	 .address = BIAS + 0x400,
	 .function = "render",
	 .file = "page.c",
	 .line = 77,
	 .source = TRACE_SYM_DWARF},
	{.module_id = 1, .address = BIAS + 0x500, .function = "walk", .source = TRACE_SYM_SYMTAB},
};

static const struct trace_meta run_meta = {.program = "/opt/app/shop", .source = "run"};
static const struct trace_end no_end;

void shop_event(struct shop *shop, enum trace_op op, uint64_t address, uint64_t size,
		uint32_t stack)
{
	struct trace_event one = {
		.time_ns = shop->time_ns += 10,
		.address = address,
		.size_bytes = size,
		.block_id = TRACE_NO_BLOCK,
		.stack_id = stack,
		.op = (uint8_t)op,
	};
	REQUIRE(model_apply(shop->model, &one, 1, NULL) == 0);
}

void shop_make(struct shop *shop)
{
	*shop = (struct shop){0};
	REQUIRE(model_new(&(struct model_options){0}, &shop->model, NULL) == 0);
	shop_event(shop, TRACE_ALLOC, 0x1000, 100, 3);
	shop_event(shop, TRACE_ALLOC, 0x2000, 100, 3);
	shop_event(shop, TRACE_ALLOC, 0x3000, 50, 5);
	for (int i = 0; i < 4; i++) {
		shop_event(shop, TRACE_ALLOC, 0x4000, 10, 6);
		shop_event(shop, TRACE_FREE, 0x4000, 0, 0);
	}
	shop_event(shop, TRACE_ALLOC, 0x5000, 7, 9);
	shop_event(shop, TRACE_ALLOC, 0x6000, 1000, 10); /* the peak: 257 + 1000 */
	shop_event(shop, TRACE_FREE, 0x6000, 0, 0);
	shop_event(shop, TRACE_FREE, 0x1000, 0, 0);
	shop_event(shop, TRACE_ALLOC, 0x7000, 20, 12);
	shop->input = (struct view_input){
		.model = shop->model,
		.meta = &run_meta,
		.end = &no_end,
		.stacks = shop_stacks,
		.stack_count = SHOP_STACKS,
		.modules = modules,
		.module_count = 3,
		.symbols = symbols,
		.symbol_count = sizeof symbols / sizeof symbols[0],
		.thread_count = 1,
		.complete = true,
	};
}

struct view_data *shop_load(struct shop *shop)
{
	struct view_data *data = NULL;
	struct tm_error err = {0};
	shop_make(shop);
	if (view_data_new(&shop->input, &data, &err))
		tap_note("%s", err.text);
	REQUIRE(data);
	return data;
}

void shop_unload(struct shop *shop, struct view_data *data)
{
	view_data_free(data);
	model_free(shop->model);
}
