/* SPDX-License-Identifier: Apache-2.0 */
#include "model/restack.h"

#include <errno.h>

#include "base/memory.h"
#include "symbols/symbols.h"

int restack_init(struct restack *restack, const struct trace_stack *old, size_t old_count)
{
	*restack = (struct restack){.old = old, .old_count = old_count};
	restack->new_ids = tm_alloc_array(old_count + 1, sizeof *restack->new_ids);
	return restack->new_ids ? 0 : -ENOMEM;
}

void restack_done(struct restack *restack)
{
	tm_free(restack->new_ids);
	tm_free(restack->stacks);
	tm_free(restack->path);
	*restack = (struct restack){0};
}

static int append(struct restack *restack, const struct trace_stack *stack)
{
	if (restack->count == restack->room) {
		size_t room = restack->room * 2 + 256;
		void *grown = tm_grow_array(restack->stacks, room, sizeof *restack->stacks);
		if (!grown)
			return -ENOMEM;
		restack->stacks = grown;
		restack->room = room;
	}
	restack->stacks[restack->count++] = *stack;
	return 0;
}

static int push(struct restack *restack, size_t depth, uint32_t id)
{
	if (depth == restack->path_room) {
		size_t room = restack->path_room * 2 + 256;
		void *grown = tm_grow_array(restack->path, room, sizeof *restack->path);
		if (!grown)
			return -ENOMEM;
		restack->path = grown;
		restack->path_room = room;
	}
	restack->path[depth] = id;
	return 0;
}

int restack_id(struct restack *restack, uint32_t *id)
{
	if (*id >= restack->old_count)
		return -EBADMSG;
	/* Up to the first ancestor that is in use, then down again. Parents are below: it ends. */
	size_t depth = 0;
	uint32_t at = *id;
	while (at && !restack->new_ids[at]) {
		int rc = push(restack, depth++, at);
		if (rc)
			return rc;
		uint32_t parent = restack->old[at].parent_id;
		at = parent < at ? parent : 0;
	}
	uint32_t parent_id = at ? restack->new_ids[at] : 0;
	while (depth > 0) {
		struct trace_stack stack = restack->old[restack->path[--depth]];
		stack.parent_id = parent_id;
		if (stack.module_id >= RESTACK_MODULES_MAX && stack.module_id != TRACE_MODULE_MARK)
			stack.module_id = 0;
		int rc = append(restack, &stack);
		if (rc)
			return rc;
		parent_id = restack->new_ids[restack->path[depth]] = (uint32_t)restack->count;
	}
	*id = parent_id;
	return 0;
}

int restack_event(struct restack *restack, struct trace_event *event)
{
	bool ends = event->op == TRACE_FREE || event->op == TRACE_REALLOC_FREE ||
		    event->op == TRACE_FREE_UNSEEN || event->op == TRACE_FREE_OLDER;
	if (ends) {
		event->stack_id = 0; /* the model knows it from the block's birth */
		return restack_id(restack, &event->free_stack_id);
	}
	event->free_stack_id = 0;
	return restack_id(restack, &event->stack_id);
}

int restack_write(struct restack *restack, struct trace_writer *w)
{
	size_t first = restack->written;
	restack->written = restack->count;
	return trace_writer_stacks(w, restack->stacks + first, restack->count - first);
}

static int compare(const struct trace_symbol *symbol, const struct symbols_request *request)
{
	if (symbol->module_id != request->module_id)
		return symbol->module_id < request->module_id ? -1 : 1;
	return symbol->address < request->address ? -1 : symbol->address > request->address;
}

/* Copies the symbols of these requests to `out`, which has room for all. Both are sorted alike. */
static size_t choose(const struct trace_symbol *symbols, size_t count,
		     const struct symbols_request *requests, size_t request_count,
		     struct trace_symbol *out)
{
	size_t used = 0, next = 0;
	for (size_t i = 0; i < count && (next < request_count || !symbols[i].module_id);) {
		/* Code that the program made itself: requests are about modules only. */
		if (!symbols[i].module_id) {
			out[used++] = symbols[i++];
			continue;
		}
		int order = compare(&symbols[i], &requests[next]);
		if (order > 0) {
			next++;
			continue;
		}
		if (order == 0)
			out[used++] = symbols[i];
		i++;
	}
	return used;
}

int restack_symbols(const struct restack *restack, struct trace_writer *w,
		    const struct trace_symbol *symbols, size_t count)
{
	struct symbols_request *requests = NULL;
	size_t request_count = 0;
	int rc = symbols_requests(restack->stacks, 0, restack->count, &requests, &request_count,
				  NULL);
	struct trace_symbol *chosen = tm_alloc_array(count + 1, sizeof *chosen);
	if (!rc && !chosen)
		rc = -ENOMEM;
	if (!rc) {
		size_t used = choose(symbols, count, requests, request_count, chosen);
		rc = trace_writer_symbols(w, chosen, used);
	}
	tm_free(chosen);
	tm_free(requests);
	return rc;
}
