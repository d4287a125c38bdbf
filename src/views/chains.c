/* SPDX-License-Identifier: Apache-2.0 */
#include "views/chains.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/memory.h"

struct address {
	uint32_t module_id;
	uint64_t address;
};

static bool same_address(const void *ctx, uint32_t id, const void *key)
{
	const struct chain *chain = &((const struct chains *)ctx)->list[id];
	const struct address *wanted = key;
	return chain->module_id == wanted->module_id && chain->address == wanted->address;
}

/* The run of symbols of one address within a sorted list. */
static void find_symbols(struct chain *chain, const struct trace_symbol *symbols, size_t count)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct trace_symbol *symbol = &symbols[middle];
		if (symbol->module_id < chain->module_id ||
		    (symbol->module_id == chain->module_id && symbol->address < chain->address))
			low = middle + 1;
		else
			high = middle;
	}
	size_t end = low;
	while (end < count && end - low < SYMBOLS_CHAIN_MAX &&
	       symbols[end].module_id == chain->module_id &&
	       symbols[end].address == chain->address) {
		/* The first that is not inlined ends the chain, whatever a damaged file says. */
		if (!symbols[end++].inlined)
			break;
	}
	if (end - low > 1 && symbols[low].inlined == TRACE_INLINED_CALLEE)
		chain->callee = &symbols[low++];
	if (end > low) {
		chain->symbols = &symbols[low];
		chain->count = (uint32_t)(end - low);
	}
}

static int add_chain(struct chains *chains, const struct view_input *input, struct address key,
		     uint64_t hash, uint32_t *ret_id)
{
	if (chains->count == chains->room) {
		size_t room = chains->room * 2 + 256;
		struct chain *grown = tm_grow_array(chains->list, room, sizeof *grown);
		if (!grown)
			return -ENOMEM;
		chains->list = grown;
		chains->room = room;
	}
	uint32_t id = (uint32_t)chains->count;
	chains->list[id] = (struct chain){.module_id = key.module_id, .address = key.address};
	if (idmap_add(&chains->map, hash, id))
		return -ENOMEM;
	chains->count++;
	find_symbols(&chains->list[id], input->symbols, input->symbol_count);
	*ret_id = id;
	return 0;
}

static int collect(struct chains *chains, const struct view_input *input)
{
	for (size_t i = 1; i < input->stack_count; i++) {
		const struct trace_stack *stack = &input->stacks[i];
		struct address key = {
			.module_id = stack->module_id,
			.address = stack->module_id == TRACE_MODULE_MARK
					   ? stack->pc
					   : symbols_lookup_address(stack->pc),
		};
		uint64_t hash = hash_pair(key.module_id, key.address);
		uint32_t id = idmap_find(&chains->map, hash, same_address, chains, &key);
		if (id == IDMAP_NONE && add_chain(chains, input, key, hash, &id))
			return -ENOMEM;
		chains->chain_of[i] = id;
	}
	return 0;
}

/*
 * A finished trace that names some functions of a module was made with that
 * module at hand: what it could not name then, nobody will name now.
 */
static bool *modules_to_look_up(const struct chains *chains, const struct view_input *input)
{
	bool *wanted = tm_alloc_array(input->module_count, sizeof *wanted);
	if (!wanted)
		return NULL;
	/* Without a build-id nothing says that a file here is the one that ran there. */
	for (size_t i = 1; i < input->module_count; i++)
		wanted[i] = input->modules[i].build_id_bytes > 0 && input->modules[i].path;
	for (size_t i = 0; input->complete && i < chains->count; i++)
		if (chains->list[i].symbols && chains->list[i].module_id < input->module_count)
			wanted[chains->list[i].module_id] = false;
	return wanted;
}

static int by_module_and_address(const void *left, const void *right)
{
	const struct symbols_request *a = left, *b = right;
	if (a->module_id != b->module_id)
		return a->module_id < b->module_id ? -1 : 1;
	return (a->address > b->address) - (a->address < b->address);
}

static int missing_names(const struct chains *chains, const struct view_input *input,
			 struct symbols_request **ret_requests, size_t *ret_count)
{
	bool *wanted = modules_to_look_up(chains, input);
	struct symbols_request *requests = tm_alloc_array(chains->count, sizeof *requests);
	if (!wanted || !requests) {
		tm_free(wanted);
		tm_free(requests);
		return -ENOMEM;
	}
	size_t count = 0;
	for (size_t i = 0; i < chains->count; i++) {
		const struct chain *chain = &chains->list[i];
		if (!chain->symbols && chain->module_id < input->module_count &&
		    wanted[chain->module_id])
			requests[count++] = (struct symbols_request){
				.module_id = chain->module_id,
				.address = chain->address,
			};
	}
	tm_free(wanted);
	qsort(requests, count, sizeof *requests, by_module_and_address);
	*ret_requests = requests;
	*ret_count = count;
	return 0;
}

static int look_up(struct chains *chains, const struct view_input *input,
		   struct symbols **ret_symbols, struct trace_symbol **ret_found,
		   struct tm_error *err)
{
	struct symbols_request *requests = NULL;
	size_t count = 0;
	int code = missing_names(chains, input, &requests, &count);
	if (code || !count) {
		tm_free(requests);
		return code ? tm_fail(err, code, "out of memory") : 0;
	}
	struct symbols *symbols = NULL;
	struct symbols_result result = {0};
	code = symbols_new(&(struct symbols_options){0}, &symbols, err);
	if (!code)
		code = symbols_resolve(symbols, input->modules, input->module_count, requests,
				       count, &result, err);
	tm_free(requests);
	if (code) {
		symbols_free(symbols);
		return code;
	}
	for (size_t i = 0; i < chains->count; i++)
		if (!chains->list[i].symbols)
			find_symbols(&chains->list[i], result.symbols, result.count);
	*ret_symbols = symbols;
	*ret_found = result.symbols;
	return 0;
}

int chains_init(struct chains *chains, const struct view_input *input, struct symbols **ret_symbols,
		struct trace_symbol **ret_found, struct tm_error *err)
{
	*chains = (struct chains){0};
	*ret_symbols = NULL;
	*ret_found = NULL;
	chains->chain_of = tm_alloc_array(input->stack_count, sizeof *chains->chain_of);
	int code = chains->chain_of ? collect(chains, input) : -ENOMEM;
	if (code)
		tm_fail(err, code, "out of memory");
	else if (!input->no_lookup)
		code = look_up(chains, input, ret_symbols, ret_found, err);
	if (code)
		chains_done(chains);
	return code;
}

void chains_done(struct chains *chains)
{
	tm_free(chains->list);
	tm_free(chains->chain_of);
	idmap_done(&chains->map);
	*chains = (struct chains){0};
}
