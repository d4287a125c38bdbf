/* SPDX-License-Identifier: Apache-2.0 */
#include "export/blocks.h"

#include <errno.h>

#include "model/event_scan.h"
#include "model/walk.h"

struct blocks {
	const struct export_input *input;
	enum query_blocks_mode mode;
	query_block_fn fn;
	void *ctx;
	struct walk walk;
	uint64_t total_events;
};

static bool is_meant(const struct blocks *b, const struct walk_block *block,
		     const struct walk_end *end)
{
	uint64_t first = b->input->first_event, after = b->input->end_event;
	bool born = block->birth_event >= first && block->birth_event < after;
	bool ended = end->event >= first && end->event < after;
	bool lives = block->birth_event < after &&
		     (end->event >= after || end->op == TRACE_OP_COUNT) &&
		     !(block->absent >> WALK_CUT_END & 1);
	switch (b->mode) {
	case QUERY_BLOCKS_ALLOCATED:
		return born;
	case QUERY_BLOCKS_FREED:
		return ended;
	case QUERY_BLOCKS_KEPT:
		return born && lives;
	case QUERY_BLOCKS_LIVE:
		return lives;
	case QUERY_BLOCKS_ALL:
		return born || ended || lives;
	}
	return false;
}

static int take_block(void *ctx, const struct walk_block *block, const struct walk_end *end)
{
	struct blocks *b = ctx;
	bool ended = end->event != WALK_NEVER;
	if (!is_meant(b, block, end))
		return 0;
	const struct query_block found = {
		.block_id = block->block_id,
		.address = block->address,
		.size_bytes = block->size_bytes,
		.birth_ns = block->birth_ns,
		.end_ns = ended ? end->time_ns : UINT64_MAX,
		.birth_event = block->birth_event,
		.end_event = end->event,
		.next_block_id = end->next_block_id,
		.stack_id = block->stack_id,
		.free_stack_id = end->free_stack_id,
		.thread_id = block->thread_id,
		.free_thread_id = end->thread_id,
		.op = block->op,
		.end_op = end->op,
		.api = block->api,
		.align_log2 = block->align_log2,
		.is_temporary = end->is_temporary,
	};
	return b->fn(b->ctx, &found);
}

static int take_events(void *ctx, size_t index, const struct trace_event_block *facts,
		       struct trace_event *events)
{
	struct blocks *b = ctx;
	const struct query_progress *progress = &b->input->progress;
	(void)index;
	int code = walk_events(&b->walk, facts, events, facts->event_count);
	if (!code && progress->fn)
		code = progress->fn(progress->ctx, facts->first_event + facts->event_count,
				    b->total_events);
	return code;
}

int blocks_run(const struct export_input *input, enum query_blocks_mode mode, query_block_fn fn,
	       void *ctx, struct tm_error *err)
{
	struct trace_reader *reader = query_reader(input->section);
	struct model_totals totals;
	struct event_scan_counts counts = {0};
	struct blocks b = {
		.input = input,
		.mode = mode,
		.fn = fn,
		.ctx = ctx,
		.walk = {.filter = input->filter,
			 .cuts = {[WALK_CUT_END] = input->end_event},
			 .now_ns = input->to_ns,
			 .now_event = input->end_event,
			 .end_ns = query_duration_ns(input->section),
			 .chosen = take_block,
			 .ctx = &b},
	};
	const struct event_scan scan = {
		.reader = reader,
		.end = trace_reader_event_block_count(reader),
		.addresses = true,
		.fn = take_events,
		.ctx = &b,
	};
	model_totals(query_model(input->section), &totals);
	b.total_events = totals.events;
	int code = event_scan_run(&scan, &counts, err);
	if (!code)
		code = walk_finish(&b.walk);
	walk_done(&b.walk);
	return code;
}
