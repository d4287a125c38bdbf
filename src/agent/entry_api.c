/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What allocators tell of themselves, through the table of include/tidemark.h or
 * through heaptrack's functions: events of the api "custom", with the heap's
 * name below their stack (label.h) and its key in the address (wire.h).
 *
 * Told from inside a hooked allocator it is nothing new: one allocation is one
 * event, so hook_begin() says no.
 */
#include "agent/api.h"

#include "agent/entry.h"
#include "agent/sys.h"

/* What others say to us, not what we would say. */
#define TIDEMARK_DISABLE
#include "tidemark.h"

void tidemark_agent_fill_v1(struct tidemark_table *table);
void tidemark_agent_event_v1(unsigned op, struct tidemark_heap *heap, uintptr_t first,
			     uintptr_t second, size_t bytes);
void heaptrack_malloc(void *block, size_t bytes);
void heaptrack_free(void *block);
void heaptrack_realloc(void *old, size_t bytes, void *block);
void heaptrack_realloc2(uintptr_t old, size_t bytes, uintptr_t block);

/* The heap of programs that speak heaptrack's language. */
static struct tidemark_heap heaptrack_heap = {.name = "heaptrack"};

/*
 * The heap's label is remembered in the heap itself, for this session: a forked
 * child, or the next session, has labels of its own. The lane is raised.
 */
static struct label *label_of(struct lane *lane, struct tidemark_heap *heap)
{
	/* Pairs with the release below. */
	uint64_t session = (uint64_t)__atomic_load_n(&heap->reserved[1], __ATOMIC_ACQUIRE);
	if (likely(session == agent.session))
		return __atomic_load_n(&heap->reserved[0], __ATOMIC_RELAXED);
	struct label *label = label_find(lane, "[heap] ", heap->name ? heap->name : "", NULL);
	if (label) {
		__atomic_store_n(&heap->reserved[0], label, __ATOMIC_RELAXED);
		__atomic_store_n(&heap->reserved[1], (void *)agent.session, __ATOMIC_RELEASE);
	}
	return label;
}

static uint64_t key_of(struct lane *lane, const struct call_site *site, struct tidemark_heap *heap)
{
	hook_raise(lane, site);
	const struct label *label = label_of(lane, heap);
	hook_lower(lane);
	return label ? label->heap_key : 0;
}

static void *keyed(uint64_t key, uintptr_t address)
{
	return (void *)((address & WIRE_ADDRESS_MASK) | key << WIRE_HEAP_SHIFT);
}

static void tell_alloc(struct lane *lane, const struct call_site *site, struct tidemark_heap *heap,
		       uintptr_t block, size_t bytes)
{
	uint64_t key = key_of(lane, site, heap);
	label_enter(lane, key ? heap->reserved[0] : NULL);
	hook_alloc(lane, site, WIRE_API_CUSTOM, block ? keyed(key, block) : NULL, bytes, 0);
	label_enter(lane, NULL);
}

static void tell_free(struct lane *lane, const struct call_site *site, struct tidemark_heap *heap,
		      uintptr_t block)
{
	if (block)
		hook_free(lane, site, WIRE_API_CUSTOM, keyed(key_of(lane, site, heap), block));
}

static void tell_realloc(struct lane *lane, const struct call_site *site,
			 struct tidemark_heap *heap, uintptr_t old, uintptr_t block, size_t bytes)
{
	uint64_t key = key_of(lane, site, heap);
	enum hook_realloc begun = HOOK_REALLOC_UNSEEN;
	if (old)
		begun = hook_realloc_begin(lane, site, WIRE_API_CUSTOM, keyed(key, old));
	label_enter(lane, key ? heap->reserved[0] : NULL);
	hook_realloc_end(lane, site, WIRE_API_CUSTOM, begun, keyed(key, old),
			 (struct hook_new_block){block ? keyed(key, block) : NULL, bytes, 0});
	label_enter(lane, NULL);
}

static void tell_range(struct lane *lane, const struct call_site *site, enum wire_extra kind,
		       struct tidemark_heap *heap, uintptr_t start, size_t bytes)
{
	uint64_t key = key_of(lane, site, heap);
	uint64_t parent = heap->parent ? key_of(lane, site, heap->parent) : 0;
	const uint64_t discard[] = {key, start, start ? bytes : 0};
	const uint64_t grow[] = {key, parent, start, bytes};
	if (!key || !hook_frees_recorded())
		return;
	hook_raise(lane, site);
	if (kind == WIRE_EV_HEAP_GROW)
		emit_extra(lane, kind, grow, 4);
	else
		emit_extra(lane, kind, discard, 3);
	hook_lower(lane);
}

static void tell_tag(struct lane *lane, const struct call_site *site, const char *key,
		     const char *value)
{
	if (!key)
		return;
	hook_raise(lane, site);
	label_tag(lane, key, value);
	hook_lower(lane);
}

/* What a table leads to; the tracer finds it by name. */
EXPORT void tidemark_agent_event_v1(unsigned op, struct tidemark_heap *heap, uintptr_t first,
				    uintptr_t second, size_t bytes)
{
	if (PASSING())
		return;
	struct call_site site = CALL_SITE();
	struct lane *lane = hook_begin(&site);
	if (!lane)
		return;
	switch ((enum tidemark_op)op) {
	case TIDEMARK_OP_ALLOC:
		tell_alloc(lane, &site, heap, first, bytes);
		break;
	case TIDEMARK_OP_FREE:
		tell_free(lane, &site, heap, first);
		break;
	case TIDEMARK_OP_REALLOC:
		tell_realloc(lane, &site, heap, first, second, bytes);
		break;
	case TIDEMARK_OP_DISCARD:
		tell_range(lane, &site, WIRE_EV_HEAP_DISCARD, heap, first, bytes);
		break;
	case TIDEMARK_OP_GROW:
		tell_range(lane, &site, WIRE_EV_HEAP_GROW, heap, first, bytes);
		break;
	case TIDEMARK_OP_TAG:
		tell_tag(lane, &site, (const char *)first, (const char *)second);
		break;
	}
}

static bool is_known(const struct tidemark_table *table)
{
	return table->version == 1 && table->bytes >= sizeof *table;
}

void api_offer(uintptr_t address)
{
	struct tidemark_table table;
	int tid = sys_gettid();
	if (!sys_peek(tid, address, &table, sizeof table) || !is_known(&table))
		return;
	table.event = tidemark_agent_event_v1;
	sys_poke(tid, address + offsetof(struct tidemark_table, event), &table.event,
		 sizeof table.event);
}

/* A library's constructor asks by itself, before we have seen the library. */
EXPORT void tidemark_agent_fill_v1(struct tidemark_table *table)
{
	if (is_known(table))
		__atomic_store_n(&table->event, tidemark_agent_event_v1, __ATOMIC_RELAXED);
}

/* ---- heaptrack's ---- */

/* A failed call is not told there. */
#define HEAPTRACK_HOOK(name, parameters, block, statement)                \
	EXPORT void name parameters                                       \
	{                                                                 \
		struct call_site site = CALL_SITE();                      \
		struct lane *lane = PASSING() ? NULL : hook_begin(&site); \
		if (lane && block)                                        \
			statement;                                        \
	}

HEAPTRACK_HOOK(heaptrack_malloc, (void *block, size_t bytes), block,
	       tell_alloc(lane, &site, &heaptrack_heap, (uintptr_t)block, bytes))
HEAPTRACK_HOOK(heaptrack_free, (void *block), block,
	       tell_free(lane, &site, &heaptrack_heap, (uintptr_t)block))
HEAPTRACK_HOOK(heaptrack_realloc, (void *old, size_t bytes, void *block), block,
	       tell_realloc(lane, &site, &heaptrack_heap, (uintptr_t)old, (uintptr_t)block, bytes))
HEAPTRACK_HOOK(heaptrack_realloc2, (uintptr_t old, size_t bytes, uintptr_t block), block,
	       tell_realloc(lane, &site, &heaptrack_heap, old, block, bytes))
