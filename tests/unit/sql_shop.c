/* SPDX-License-Identifier: Apache-2.0 */
#include "sql_shop.h"

#include "base/memory.h"
#include "harness/tap.h"
#include "model/model.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HUGE_BYTES (UINT64_C(1) << 40)

enum {
	BATCH = 4096,
	SLICE_EVENTS = 20000,
	CACHED_MAX = 200,
	NOTHING = -1,
};

struct maker {
	struct shop *shop;
	struct trace_writer *writer;
	struct model *model;
	struct trace_event batch[BATCH];
	size_t batch_count, block_room;
	uint64_t time_ns, last_sample_ns;
	int64_t last_birth[3]; /* by thread: the block that its last event allocated */
	uint64_t cached[CACHED_MAX];
	size_t cached_count;
	uint64_t index, metrics;
};

static const struct trace_module modules[] = {
	{.module_id = 1,
	 .bias = 0x500000,
	 .start = 0x500000,
	 .end = 0x600000,
	 .unmapped_ns = UINT64_MAX,
	 .path = "/opt/shop/bin/shop",
	 .build_id = {0xca, 0xfe},
	 .build_id_bytes = 2},
	{.module_id = 2,
	 .bias = 0x900000,
	 .start = 0x900000,
	 .end = 0xa00000,
	 .unmapped_ns = UINT64_MAX,
	 .path = "/usr/lib/libstdc++.so.6"},
};

static const struct {
	uint32_t parent_id, module_id;
	const char *function;
	uint32_t line;
} stacks[] = {
	{0, 1, "main", 10},           {1, 1, "index_build", 20},
	{1, 1, "metrics_add", 30},    {0, 1, "worker_loop", 40},
	{4, 1, "handle_request", 50}, {5, 1, "parse_request", 60},
	{5, 1, "log_line", 70},       {7, 2, "operator new(unsigned long)", 0},
	{5, 1, "buffer_grow", 80},    {5, 1, "session_new", 90},
	{5, 1, "cache_put", 100},
};

static void write_batch(struct maker *m)
{
	struct trace_slice slice;
	REQUIRE(model_apply(m->model, m->batch, m->batch_count, NULL) == 0);
	REQUIRE(trace_writer_events(m->writer, m->batch, m->batch_count) == 0);
	if (model_slice_due(m->model)) {
		REQUIRE(model_slice_take(m->model, &slice, NULL) == 0);
		REQUIRE(trace_writer_slice(m->writer, &slice) == 0);
	}
	m->batch_count = 0;
}

static void add(struct maker *m, struct trace_event event)
{
	m->time_ns += 1000;
	event.time_ns = m->time_ns;
	m->batch[m->batch_count++] = event;
	m->shop->event_count++;
	if (m->batch_count == BATCH)
		write_batch(m);
}

static uint64_t address_of(uint64_t block)
{
	return 0x10000000 + block * 16;
}

static uint64_t begin_block(struct maker *m, uint32_t thread_id, uint32_t stack_id,
			    uint64_t size_bytes, uint8_t op)
{
	struct shop *shop = m->shop;
	uint64_t id = shop->block_count;
	if (id == m->block_room) {
		m->block_room = m->block_room * 2 + 1024;
		shop->blocks = tm_grow_array(shop->blocks, m->block_room, sizeof *shop->blocks);
		REQUIRE(shop->blocks);
	}
	uint8_t api = op == TRACE_REALLOC_ALLOC ? TRACE_API_REALLOC
		      : stack_id == SHOP_LOG    ? TRACE_API_NEW
		      : stack_id == SHOP_CACHE  ? TRACE_API_CALLOC
		      : stack_id == SHOP_INDEX  ? TRACE_API_ALIGNED
						: TRACE_API_MALLOC;
	add(m, (struct trace_event){.op = op,
				    .api = api,
				    .align_log2 = stack_id == SHOP_INDEX ? 12 : 0,
				    .address = address_of(id),
				    .size_bytes = size_bytes,
				    .stack_id = stack_id,
				    .thread_id = thread_id});
	shop->blocks[shop->block_count++] = (struct shop_block){
		.size_bytes = size_bytes,
		.birth_ns = m->time_ns,
		.end_ns = UINT64_MAX,
		.realloc_from = TRACE_NO_BLOCK,
		.stack_id = stack_id,
		.thread_id = thread_id,
	};
	m->last_birth[thread_id] = (int64_t)id;
	return id;
}

static void end_block(struct maker *m, uint32_t thread_id, uint64_t id, uint8_t op)
{
	struct shop_block *block = &m->shop->blocks[id];
	add(m, (struct trace_event){.op = op, .address = address_of(id), .thread_id = thread_id});
	block->end_ns = m->time_ns;
	block->end_thread_id = thread_id;
	block->temporary = op == TRACE_FREE && m->last_birth[thread_id] == (int64_t)id;
	block->by_realloc = op == TRACE_REALLOC_FREE;
	m->last_birth[thread_id] = NOTHING;
}

static uint64_t grow_block(struct maker *m, uint32_t thread_id, uint64_t id, uint64_t size_bytes)
{
	end_block(m, thread_id, id, TRACE_REALLOC_FREE);
	uint64_t grown = begin_block(m, thread_id, m->shop->blocks[id].stack_id, size_bytes,
				     TRACE_REALLOC_ALLOC);
	m->shop->blocks[grown].realloc_from = id;
	return grown;
}

/* A realloc that finds no memory: the block lives on. */
static void fail_to_grow(struct maker *m, uint32_t thread_id, uint64_t id)
{
	end_block(m, thread_id, id, TRACE_REALLOC_FREE);
	add(m, (struct trace_event){.op = TRACE_REALLOC_UNDO,
				    .api = TRACE_API_REALLOC,
				    .size_bytes = HUGE_BYTES,
				    .stack_id = SHOP_BUFFER,
				    .thread_id = thread_id});
	m->shop->blocks[id].end_ns = UINT64_MAX;
	m->shop->blocks[id].by_realloc = false;
}

static void request(struct maker *m, uint32_t i)
{
	uint32_t worker = i < m->shop->requests / 2 ? SHOP_WORKER_1 + i % 2 : SHOP_WORKER_2;
	uint64_t parsed = begin_block(m, worker, SHOP_PARSE, 100 + i % 8, TRACE_ALLOC);
	uint64_t buffer = 0;
	if (i == 777)
		add(m, (struct trace_event){.op = TRACE_ALLOC_FAIL,
					    .size_bytes = HUGE_BYTES,
					    .stack_id = SHOP_PARSE,
					    .thread_id = worker});
	end_block(m, worker, begin_block(m, worker, SHOP_LOG, 33, TRACE_ALLOC), TRACE_FREE);
	if (i % 10 == 0) {
		buffer = begin_block(m, worker, SHOP_BUFFER, 64, TRACE_ALLOC);
		if (i == 880)
			fail_to_grow(m, worker, buffer);
		buffer = grow_block(m, worker, buffer, 128);
		buffer = grow_block(m, worker, buffer, 256);
	}
	if (i % 100 == 0)
		begin_block(m, worker, SHOP_SESSION, 1000, TRACE_ALLOC);
	if (i % 50 == 0)
		m->cached[m->cached_count++] =
			begin_block(m, worker, SHOP_CACHE, 4096, TRACE_ALLOC);
	end_block(m, worker, parsed, TRACE_FREE);
	if (i % 10 == 0)
		end_block(m, worker, buffer, TRACE_FREE);
}

static void main_thread_before(struct maker *m, uint32_t i)
{
	if (i == 0) {
		m->index = begin_block(m, SHOP_MAIN, SHOP_INDEX, 1000000, TRACE_ALLOC);
		m->metrics = begin_block(m, SHOP_MAIN, SHOP_METRICS, 1000, TRACE_ALLOC);
	} else if (i % 4000 == 0) {
		m->metrics = grow_block(m, SHOP_MAIN, m->metrics,
					2 * m->shop->blocks[m->metrics].size_bytes);
	}
	if (i == 30000)
		end_block(m, SHOP_MAIN, m->index, TRACE_FREE);
}

static void main_thread_after(struct maker *m, uint32_t i)
{
	if (i % 10000 != 9999)
		return;
	for (size_t k = 0; k < m->cached_count; k++)
		end_block(m, SHOP_MAIN, m->cached[k], TRACE_FREE);
	m->cached_count = 0;
}

static void sample(struct maker *m)
{
	/* 10 MB, and 1 MB more each second. */
	struct trace_sample taken = {.time_ns = m->last_sample_ns,
				     .rss_bytes = 10000000 + m->last_sample_ns / 1000};
	model_apply_sample(m->model, &taken);
	REQUIRE(trace_writer_sample(m->writer, &taken) == 0);
	m->last_sample_ns += 1000000000;
}

static void write_tables(struct maker *m)
{
	static const char *const names[] = {"shop", "worker-1", "worker-2"};
	for (size_t i = 0; i < 2; i++)
		REQUIRE(trace_writer_module(m->writer, &modules[i]) == 0);
	for (uint32_t i = 0; i < 3; i++) {
		struct trace_thread thread = {
			.thread_id = i, .tid = 4711 + i, .end_ns = UINT64_MAX};
		if (i == SHOP_WORKER_1)
			thread.end_ns = (uint64_t)m->shop->requests / 2 * SHOP_STEP_NS;
		snprintf(thread.name, sizeof thread.name, "%s", names[i]);
		REQUIRE(trace_writer_thread(m->writer, &thread) == 0);
	}
	for (uint32_t i = 0; i < sizeof stacks / sizeof stacks[0]; i++) {
		uint64_t bias = modules[stacks[i].module_id - 1].bias;
		struct trace_stack stack = {.parent_id = stacks[i].parent_id,
					    .module_id = stacks[i].module_id,
					    .pc = bias + i * 16 + 1};
		struct trace_symbol symbol = {.module_id = stacks[i].module_id,
					      .address = bias + i * 16,
					      .function = stacks[i].function,
					      .file = stacks[i].line ? "shop.c" : NULL,
					      .line = stacks[i].line,
					      .source = TRACE_SYM_DWARF};
		REQUIRE(trace_writer_stacks(m->writer, &stack, 1) == 0);
		REQUIRE(trace_writer_symbols(m->writer, &symbol, 1) == 0);
	}
}

static void write_section(struct maker *m)
{
	struct trace_slice slice;
	struct trace_meta meta = {.tool_version = "1",
				  .program = "/opt/shop/bin/shop",
				  .command = "shop --open",
				  .host = "here",
				  .mode = "exact",
				  .source = "run",
				  .clock = "tsc",
				  .pid = 4711,
				  .page_bytes = 4096,
				  .addresses = true};
	REQUIRE(trace_writer_begin(m->writer, &meta) == 0);
	write_tables(m);
	for (uint32_t i = 0; i < m->shop->requests; i++) {
		m->time_ns = (uint64_t)i * SHOP_STEP_NS;
		if (m->time_ns >= m->last_sample_ns)
			sample(m);
		main_thread_before(m, i);
		request(m, i);
		main_thread_after(m, i);
	}
	write_batch(m);
	REQUIRE(model_slice_take(m->model, &slice, NULL) == 0);
	REQUIRE(trace_writer_slice(m->writer, &slice) == 0);
	m->shop->duration_ns = (uint64_t)m->shop->requests * SHOP_STEP_NS;
	struct trace_end end = {.cause = TRACE_END_EXIT, .duration_ns = m->shop->duration_ns};
	REQUIRE(trace_writer_end(m->writer, &end) == 0);
}

void shop_make(struct shop *shop, uint32_t requests)
{
	static struct maker maker;
	const struct model_options options = {.slice_events = SLICE_EVENTS};
	*shop = (struct shop){.path = "/tmp/tidemark-shop-XXXXXX", .requests = requests};
	int fd = mkstemp(shop->path);
	REQUIRE(fd >= 0);
	maker = (struct maker){.shop = shop, .last_birth = {NOTHING, NOTHING, NOTHING}};
	REQUIRE(model_new(&options, &maker.model, NULL) == 0);
	REQUIRE(trace_writer_open(fd, &(struct trace_writer_options){.addresses = true},
				  &maker.writer, NULL) == 0);
	write_section(&maker);
	REQUIRE(trace_writer_close(maker.writer, NULL) == 0);
	model_free(maker.model);
}

void shop_done(struct shop *shop)
{
	unlink(shop->path);
	tm_free(shop->blocks);
	*shop = (struct shop){0};
}
