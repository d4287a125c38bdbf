/* SPDX-License-Identifier: Apache-2.0 */
/* Single blocks, sent while they are found: a page of them, or all. */
#include "server/api.h"

#include <errno.h>

#include "base/memory.h"
#include "server/api_select.h"

enum { LIMIT_DEFAULT = 200, SKIP_AT_ONCE = 4096, COUNTERS = 65536 };

struct sending {
	struct call *call;
	struct json *json;
	uint64_t skip; /* still to be left out */
	uint64_t count, last_id;
};

static void put_moment(struct json *json, const char *key, uint64_t time_ns)
{
	if (time_ns == UINT64_MAX)
		json_null(json, key);
	else
		json_u64(json, key, time_ns);
}

static void put_block(struct sending *sending, const struct query_block *block)
{
	struct json *json = sending->json;
	const struct shown_facts *facts = sending->call->facts;
	json_begin_object(json, NULL);
	json_u64(json, "block", block->block_id);
	if (block->address)
		json_hex(json, "address", block->address);
	else
		json_null(json, "address");
	json_u64(json, "bytes", block->size_bytes);
	json_u64(json, "birth_ns", block->birth_ns);
	put_moment(json, "end_ns", block->end_ns);
	json_u64(json, "thread", block->thread_id);
	put_moment(json, "free_thread",
		   block->free_thread_id == UINT32_MAX ? UINT64_MAX : block->free_thread_id);
	json_u64(json, "stack", block->stack_id);
	put_moment(json, "free_stack", block->free_stack_id ? block->free_stack_id : UINT64_MAX);
	json_string(json, "site", view_site_name(facts->data, block->stack_id));
	json_bool(json, "temporary", block->is_temporary);
	json_bool(json, "reallocated", block->op == TRACE_REALLOC_ALLOC);
	json_bool(json, "end_known", !block->is_open);
	put_moment(json, "next_block",
		   block->next_block_id == TRACE_NO_BLOCK ? UINT64_MAX : block->next_block_id);
	json_end(json);
}

static int send_block(void *ctx, const struct query_block *block)
{
	struct sending *sending = ctx;
	if (sending->skip) {
		sending->skip--;
		return 0;
	}
	put_block(sending, block);
	sending->count++;
	sending->last_id = block->block_id;
	return answer_flush(sending->call->answer);
}

/* ---- far down the list ---- */

struct counting {
	uint64_t *counters; /* blocks by their number */
	uint64_t width;     /* numbers per counter */
};

static int count_block(void *ctx, const struct query_block *block)
{
	const struct counting *counting = ctx;
	uint64_t at = block->block_id / counting->width;
	counting->counters[at < COUNTERS ? at : COUNTERS - 1]++;
	return 0;
}

/*
 * To leave out many blocks all would have to be kept until they are in order. So they
 * are counted first, by their numbers, and the list begins with the counter in which
 * the wanted ones are: the memory is the same for any number.
 */
static int skip_far(const struct call *call, struct query_blocks_options *options,
		    struct sending *sending, struct tm_error *err)
{
	struct query_blocks_options all = *options;
	struct counting counting = {.width = call->facts->totals.allocations / COUNTERS + 1};
	all.limit = 0;
	all.unordered = true;
	counting.counters = tm_alloc_array(COUNTERS, sizeof *counting.counters);
	if (!counting.counters)
		return tm_fail(err, -ENOMEM, "no memory to count the blocks");
	int code = query_blocks(call->facts->section, &all, count_block, &counting, err);
	for (size_t i = 0; !code && i + 1 < COUNTERS && counting.counters[i] <= sending->skip;
	     i++) {
		sending->skip -= counting.counters[i];
		uint64_t next = (i + 1) * counting.width;
		if (next > options->first_block_id)
			options->first_block_id = next;
	}
	if (!code && sending->skip > SKIP_AT_ONCE + counting.width) /* there are not so many */
		options->first_block_id = UINT64_MAX;
	tm_free(counting.counters);
	options->limit = options->limit ? options->limit + sending->skip : 0;
	return code;
}

static int send_blocks(struct call *call, const struct selection *selection, struct tm_error *err)
{
	static const char modes[] = "allocated|freed|surviving|live|all";
	uint64_t skip = request_number(call->request, "skip", 0);
	struct sending sending = {.call = call, .json = answer_json(call->answer), .skip = skip};
	uint64_t limit = request_number(call->request, "limit", LIMIT_DEFAULT);
	struct query_blocks_options options = {
		.from_ns = selection->from_ns,
		.to_ns = selection->to_ns,
		.mode = (enum query_blocks_mode)request_choice(call->request, "blocks", modes),
		.filter = selection->bound,
		.first_block_id = request_number(call->request, "first", 0),
		.limit = limit && skip < SKIP_AT_ONCE ? limit + skip : limit,
		.patience_ns = request_number(call->request, "wait_ms", 0) * 1000000,
		.progress = call_progress(call),
	};
	json_begin_object(sending.json, NULL);
	selection_put(selection, sending.json);
	json_begin_array(sending.json, "blocks");
	int code = skip < SKIP_AT_ONCE ? 0 : skip_far(call, &options, &sending, err);
	if (!code)
		code = query_blocks(call->facts->section, &options, send_block, &sending, err);
	json_end(sending.json);
	json_u64(sending.json, "count", sending.count);
	if (!code && limit && sending.count == limit)
		json_u64(sending.json, "next_first", sending.last_id + 1);
	else
		json_null(sending.json, "next_first");
	/* The head is sent already: an error can only be said at the end. */
	json_string(sending.json, "error", code ? err->text : NULL);
	json_end(sending.json);
	return 0;
}

int api_blocks(struct call *call, struct tm_error *err)
{
	struct selection selection;
	shown_lock(call->facts);
	int code = selection_init(&selection, call, err);
	shown_unlock(call->facts);
	if (code)
		return code;
	code = send_blocks(call, &selection, err);
	selection_done(&selection);
	return code;
}
