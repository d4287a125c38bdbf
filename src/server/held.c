/* SPDX-License-Identifier: Apache-2.0 */
#include "server/held.h"

#include <errno.h>

#include "base/memory.h"

struct counting {
	const struct selection *selection;
	struct held *held;
	size_t stack_count;
};

static int add(void *ctx, const struct query_block *block)
{
	struct counting *counting = ctx;
	const struct selection *selection = counting->selection;
	uint64_t from = block->birth_ns, to = block->end_ns;
	if (block->stack_id >= counting->stack_count)
		return 0;
	struct held *held = &counting->held[block->stack_id];
	if (from < selection->from_ns)
		from = selection->from_ns;
	if (to > selection->to_ns) /* also of a block that was never freed */
		to = selection->to_ns;
	held->byte_ns += to > from ? (double)block->weight.bytes * (double)(to - from) : 0;
	held->blocks++;
	if (block->birth_ns < selection->from_ns)
		return 0;
	if (block->birth_ns < held->first_ns)
		held->first_ns = block->birth_ns;
	if (block->birth_ns > held->last_ns)
		held->last_ns = block->birth_ns;
	return 0;
}

int held_count(const struct call *call, const struct selection *selection, struct held **ret_held,
	       struct tm_error *err)
{
	size_t count = call->facts->input.stack_count;
	struct counting counting = {.selection = selection, .stack_count = count};
	const struct query_blocks_options options = {
		.from_ns = selection->from_ns,
		.to_ns = selection->to_ns,
		.mode = QUERY_BLOCKS_ALL,
		.filter = selection->bound,
		.unordered = true,
		.progress = call_progress(call),
	};
	counting.held = tm_alloc_array(count + 1, sizeof *counting.held);
	if (!counting.held)
		return tm_fail(err, -ENOMEM, "no memory for what each stack held");
	for (size_t i = 0; i < count; i++)
		counting.held[i].first_ns = UINT64_MAX;
	int code = query_blocks(call->facts->section, &options, add, &counting, err);
	if (code)
		tm_free(counting.held);
	else
		*ret_held = counting.held;
	return code;
}

static uint64_t to_byte_ms(double byte_ns)
{
	double held = byte_ns / 1e6;
	return held < 1.8e19 ? (uint64_t)(held + 0.999999) : UINT64_MAX;
}

int held_ask(const struct call *call, const struct selection *selection,
	     struct query_answer *ret_answer, struct tm_error *err)
{
	struct held *held;
	size_t count = call->facts->input.stack_count;
	int code = held_count(call, selection, &held, err);
	if (code)
		return code;
	struct query_answer answer = {
		.from_ns = selection->from_ns, .to_ns = selection->to_ns, .way = QUERY_FROM_SCAN};
	answer.rows = tm_alloc_array(count + 1, sizeof *answer.rows);
	for (size_t i = 0; answer.rows && i < count; i++) {
		if (!held[i].blocks)
			continue;
		struct query_row *row = &answer.rows[answer.row_count++];
		row->stack_id = (uint32_t)i;
		row->figures.allocations = held[i].blocks;
		row->figures.allocated_bytes = to_byte_ms(held[i].byte_ns);
		answer.totals.allocations += row->figures.allocations;
		answer.totals.allocated_bytes += row->figures.allocated_bytes;
	}
	tm_free(held);
	if (!answer.rows)
		return tm_fail(err, -ENOMEM, "no memory for what was held");
	*ret_answer = answer;
	return 0;
}
