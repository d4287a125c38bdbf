/* SPDX-License-Identifier: Apache-2.0 */
/* Names for a whole trace: distinct addresses first, then module by module. */
#include "symbols/resolve.h"

#include <errno.h>
#include <stdlib.h>

#include "base/memory.h"
#include "symbols/set.h"

/* Modules whose debug information may crash the worker, before it is given up. */
enum { CRASHES_MAX = 8 };

static int by_module_and_address(const void *left, const void *right)
{
	const struct symbols_request *a = left, *b = right;
	if (a->module_id != b->module_id)
		return a->module_id < b->module_id ? -1 : 1;
	return (a->address > b->address) - (a->address < b->address);
}

int symbols_requests(const struct trace_stack *stacks, size_t first, size_t count,
		     struct symbols_request **ret_requests, size_t *ret_count, struct tm_error *err)
{
	size_t room = count > first ? count - first : 0;
	struct symbols_request *requests = tm_alloc_array(room, sizeof *requests);
	if (!requests)
		return tm_fail(err, -ENOMEM, "out of memory");
	size_t used = 0;
	for (size_t i = first; i < count; i++) {
		if (!stacks[i].module_id || stacks[i].module_id == TRACE_MODULE_MARK)
			continue;
		requests[used++] = (struct symbols_request){
			.module_id = stacks[i].module_id,
			.address = symbols_lookup_address(stacks[i].pc),
		};
	}
	qsort(requests, used, sizeof *requests, by_module_and_address);
	size_t kept = 0;
	for (size_t i = 0; i < used; i++)
		if (!kept || by_module_and_address(&requests[kept - 1], &requests[i]))
			requests[kept++] = requests[i];
	*ret_requests = requests;
	*ret_count = kept;
	return 0;
}

static const struct trace_module *find_module(const struct resolve_batch *batch, uint32_t module_id)
{
	const struct trace_module *modules = batch->modules;
	if (module_id < batch->module_count && modules[module_id].module_id == module_id)
		return &modules[module_id];
	for (size_t i = 0; i < batch->module_count; i++)
		if (modules[i].module_id == module_id)
			return &modules[i];
	return NULL;
}

static size_t module_end(const struct resolve_batch *batch, size_t from)
{
	size_t end = from;
	while (end < batch->request_count &&
	       batch->requests[end].module_id == batch->requests[from].module_id)
		end++;
	return end;
}

static int resolve_module(const struct resolve_batch *batch, size_t from, size_t end,
			  resolve_frames_fn on_frames, void *ctx)
{
	const struct trace_module *known = find_module(batch, batch->requests[from].module_id);
	struct symbols_module *module = NULL;
	if (!known || !known->path ||
	    symbols_open(batch->symbols, known->path, known->build_id, known->build_id_bytes,
			 &module, NULL))
		module = NULL;
	struct symbols_frame frames[SYMBOLS_CHAIN_MAX];
	for (size_t i = from; i < end; i++) {
		size_t count = 0;
		if (module)
			count = symbols_lookup(batch->symbols, module,
					       batch->requests[i].address - known->bias, frames);
		int code = on_frames(ctx, i, frames, count);
		if (code)
			return code;
	}
	return 0;
}

int resolve_here(const struct resolve_batch *batch, size_t from, size_t end,
		 resolve_frames_fn on_frames, resolve_module_fn on_module, void *ctx)
{
	int code = 0;
	while (!code && from < end) {
		size_t next = module_end(batch, from);
		next = next < end ? next : end;
		code = resolve_module(batch, from, next, on_frames, ctx);
		if (!code && on_module)
			code = on_module(ctx, next);
		from = next;
	}
	return code;
}

struct gather {
	const struct symbols_request *requests;
	struct symbols_result result;
	size_t room;
};

static int gather_frames(void *ctx, size_t request, const struct symbols_frame *frames,
			 size_t count)
{
	struct gather *gather = ctx;
	struct symbols_result *result = &gather->result;
	if (result->count + count > gather->room) {
		size_t room = gather->room * 2 + SYMBOLS_CHAIN_MAX;
		void *grown = tm_grow_array(result->symbols, room, sizeof *result->symbols);
		if (!grown)
			return -ENOMEM;
		result->symbols = grown;
		gather->room = room;
	}
	result->unnamed += !count;
	for (size_t i = 0; i < count; i++)
		result->symbols[result->count++] = (struct trace_symbol){
			.module_id = gather->requests[request].module_id,
			.address = gather->requests[request].address,
			.function = frames[i].function,
			.file = frames[i].file,
			.line = frames[i].line,
			.column = frames[i].column,
			.inlined = frames[i].is_callee ? TRACE_INLINED_CALLEE : frames[i].inlined,
			.source = frames[i].source,
		};
	return 0;
}

/* With the worker as far as it gets; a module that crashes it is named from its symbol table. */
static int resolve_all(const struct resolve_batch *batch, struct gather *gather)
{
	bool lines = set_wants_lines(batch->symbols);
	unsigned crashes = 0;
	size_t done = 0;
	int code = 0;
	while (!code && done < batch->request_count) {
		size_t end = batch->request_count;
		if (lines && crashes < CRASHES_MAX) {
			code = worker_resolve(batch, done, gather_frames, gather, &done);
			if (code || done == batch->request_count)
				return code;
			crashes++;
			end = module_end(batch, done);
		}
		code = resolve_here(batch, done, end, gather_frames, NULL, gather);
		done = end;
	}
	return code;
}

int symbols_resolve(struct symbols *s, const struct trace_module *modules, size_t module_count,
		    const struct symbols_request *requests, size_t request_count,
		    struct symbols_result *ret_result, struct tm_error *err)
{
	const struct resolve_batch batch = {
		.symbols = s,
		.modules = modules,
		.module_count = module_count,
		.requests = requests,
		.request_count = request_count,
	};
	struct gather gather = {.requests = requests};
	int code = resolve_all(&batch, &gather);
	if (code) {
		tm_free(gather.result.symbols);
		return tm_fail(err, code, "out of memory while naming functions");
	}
	*ret_result = gather.result;
	return 0;
}
