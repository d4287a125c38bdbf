/* SPDX-License-Identifier: Apache-2.0 */
#include "nameless_heap.h"

#include "base/hash.h"
#include "harness/tap.h"

#include <stdio.h>

enum { ROWS = 500, EVENTS = 300 };

static const char *const paths[NAMELESS_MODULES] = {
	NULL, /* module 0: code made at run time */
	"/opt/app/shop",
	"/usr/lib/libwidget.so.3",
	"/opt/app/libpart.so",
	"/lib/x86_64-linux-gnu/libc.so.6",
	"/opt/app/libpart.so",
	"[heap] pool",
	"/opt/app/addon.node",
	"/opt/app/tool",
};

static const struct trace_meta run_meta = {.program = "/opt/app/shop", .source = "run"};
static const struct trace_end no_end;

/* One of so many. */
static uint64_t draw(struct nameless *heap, uint64_t of)
{
	heap->random++;
	return hash_u64(heap->random) % of;
}

static uint64_t address_of(uint64_t number)
{
	return 0x1000 + number * 16;
}

static void add_symbol(struct nameless *heap, uint32_t module_id, uint64_t address,
		       const char *function, const char *file, bool inlined)
{
	struct trace_symbol *symbol = &heap->symbols[heap->symbol_count];
	char *text = heap->texts[heap->symbol_count++];
	snprintf(text, NAMELESS_TEXT, "%s_%u_%llx_%d", function ? function : "", module_id,
		 (unsigned long long)address, inlined);
	*symbol = (struct trace_symbol){
		.module_id = module_id,
		.address = address,
		.function = function ? text : NULL,
		.file = file,
		.line = file ? 7 : 0,
		.inlined = inlined ? TRACE_INLINED : TRACE_INLINED_NO,
		.source = module_id ? TRACE_SYM_DWARF : TRACE_SYM_JIT,
	};
	if (heap->lack && draw(heap, 40) == 0)
		symbol->source = TRACE_SYM_NONE;
}

/* What is found at an address. */
static void add_symbols(struct nameless *heap, uint32_t module_id, uint64_t address)
{
	static const char *const known[] = {"main", "start_thread", "__libc_start_main", "malloc",
					    "operator new(unsigned long)"};
	const char *file = draw(heap, heap->lack_lines)
				   ? module_id == 8 ? "/src/tool.rs" : "/src/shop.c"
				   : NULL;
	uint64_t what = draw(heap, 10);
	if (heap->lack && draw(heap, heap->lack) == 0)
		return;
	if (what == 0) {
		struct trace_symbol *symbol = &heap->symbols[heap->symbol_count];
		add_symbol(heap, module_id, address, "x", file, false);
		symbol->function = known[draw(heap, sizeof known / sizeof known[0])];
		return;
	}
	if (what < 4) {
		const char *inner = draw(heap, heap->lack_lines) ? "/src/inner.h" : NULL;
		add_symbol(heap, module_id, address,
			   heap->lack && draw(heap, 9) == 0 ? NULL : "inner", inner, true);
	}
	add_symbol(heap, module_id, address, heap->lack && draw(heap, 30) == 0 ? NULL : "outer",
		   file, false);
}

static void add_modules(struct nameless *heap)
{
	modules_seen_init(&heap->modules);
	for (uint32_t id = 1; id < NAMELESS_MODULES; id++)
		modules_seen_adopt(&heap->modules,
				   &(struct trace_module){.module_id = id, .path = paths[id]});
	for (uint32_t id = 0; id < NAMELESS_MODULES; id++)
		for (uint64_t i = 0; i < NAMELESS_ADDRESSES; i++)
			add_symbols(heap, id, address_of(i));
}

static void add_stacks(struct nameless *heap)
{
	uint32_t id;
	REQUIRE(!stack_ids_init(&heap->stacks));
	for (int i = 0; i < ROWS; i++) {
		uint32_t count = heap->stacks.count;
		uint32_t back = (uint32_t)draw(heap, count < 12 ? count : 12);
		struct trace_stack row = {
			.parent_id = draw(heap, 20) ? count - 1 - back : 0,
			.module_id = (uint32_t)draw(heap, NAMELESS_MODULES),
			.pc = address_of(draw(heap, NAMELESS_ADDRESSES)) + 1,
		};
		if (draw(heap, 40) == 0) {
			row.module_id = TRACE_MODULE_MARK;
			row.pc = TRACE_MARK_CUT;
		}
		REQUIRE(!stack_ids_add(&heap->stacks, &row, &id));
	}
}

static void add_events(struct nameless *heap)
{
	REQUIRE(!model_new(&(struct model_options){0}, &heap->model, NULL));
	for (uint64_t i = 0; i < EVENTS; i++) {
		struct trace_event one = {
			.time_ns = 1000 * i,
			.address = 0x10000 + i * 0x1000,
			.size_bytes = 1 + draw(heap, 4000),
			.block_id = TRACE_NO_BLOCK,
			.stack_id = (uint32_t)draw(heap, heap->stacks.count),
			.op = TRACE_ALLOC,
		};
		REQUIRE(!model_apply(heap->model, &one, 1, NULL));
	}
}

void nameless_make(struct nameless *heap, uint64_t seed)
{
	/* Heaps that lack nearly nothing, and heaps that lack much. */
	static const uint64_t lacks[] = {0, 60, 12, 4};
	*heap = (struct nameless){
		.random = seed << 32,
		.lack = lacks[seed % 4],
		.lack_lines = seed % 8 ? 2 : 400,
	};
	add_modules(heap);
	add_stacks(heap);
	add_events(heap);
	heap->input = (struct view_input){
		.model = heap->model,
		.meta = &run_meta,
		.end = &no_end,
		.stacks = heap->stacks.rows,
		.stack_count = heap->stacks.count,
		.modules = heap->modules.rows,
		.module_count = heap->modules.count,
		.symbols = heap->symbols,
		.symbol_count = heap->symbol_count,
		.complete = true,
		.no_lookup = true,
	};
}

void nameless_done(struct nameless *heap)
{
	heap->model = model_free(heap->model);
	stack_ids_done(&heap->stacks);
	modules_seen_done(&heap->modules);
}
