/* SPDX-License-Identifier: Apache-2.0 */
/* Names for a whole trace: distinct addresses first, then module by module. */
#include "symbols/symbols.h"

#include <errno.h>
#include <stdlib.h>

#include "base/memory.h"

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

static const struct trace_module *find_module(const struct trace_module *modules, size_t count,
					      uint32_t module_id)
{
	if (module_id < count && modules[module_id].module_id == module_id)
		return &modules[module_id];
	for (size_t i = 0; i < count; i++)
		if (modules[i].module_id == module_id)
			return &modules[i];
	return NULL;
}

static int append_chain(struct symbols_result *result, size_t *room,
			const struct symbols_request *request, const struct symbols_frame *frames,
			size_t count)
{
	if (result->count + count > *room) {
		size_t wanted = *room * 2 + SYMBOLS_CHAIN_MAX;
		struct trace_symbol *grown =
			tm_grow_array(result->symbols, wanted, sizeof *result->symbols);
		if (!grown)
			return -ENOMEM;
		result->symbols = grown;
		*room = wanted;
	}
	for (size_t i = 0; i < count; i++)
		result->symbols[result->count++] = (struct trace_symbol){
			.module_id = request->module_id,
			.address = request->address,
			.function = frames[i].function,
			.file = frames[i].file,
			.line = frames[i].line,
			.column = frames[i].column,
			.inlined = frames[i].inlined,
			.source = frames[i].source,
		};
	return 0;
}

int symbols_resolve(struct symbols *s, const struct trace_module *modules, size_t module_count,
		    const struct symbols_request *requests, size_t request_count,
		    struct symbols_result *ret_result, struct tm_error *err)
{
	struct symbols_result result = {0};
	struct symbols_frame frames[SYMBOLS_CHAIN_MAX];
	struct symbols_module *module = NULL;
	const struct trace_module *known = NULL;
	size_t room = 0;
	for (size_t i = 0; i < request_count; i++) {
		if (i == 0 || requests[i].module_id != requests[i - 1].module_id) {
			known = find_module(modules, module_count, requests[i].module_id);
			if (!known || !known->path ||
			    symbols_open(s, known->path, known->build_id, known->build_id_bytes,
					 &module, NULL))
				module = NULL;
		}
		size_t count = module ? symbols_lookup(s, module, requests[i].address - known->bias,
						       frames)
				      : 0;
		result.unnamed += !count;
		if (append_chain(&result, &room, &requests[i], frames, count)) {
			tm_free(result.symbols);
			return tm_fail(err, -ENOMEM, "out of memory while naming functions");
		}
	}
	*ret_result = result;
	return 0;
}
