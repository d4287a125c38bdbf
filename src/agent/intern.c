/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index is an array of words {upper half of the hash, node id}, placed by
 * that same half, so that a table is copied without the nodes. A word is
 * written once and never changed, so a reader needs no lock. A table that is
 * three quarters full is replaced by one twice as large: the thread that
 * notices copies, the others go on with the old one meanwhile. The old table's
 * pages are given back at once; whoever still reads it finds nothing there and
 * makes a second node.
 */
#include "agent/intern.h"

#include <linux/mman.h>

#include "agent/sys.h"

enum {
	HUGE_PAGE_BYTES = 2 << 20,
	AHEAD_NODES = 16384, /* whose pages are asked for in one call: 256 KiB */
};

static size_t table_bytes(uint64_t entries, uint32_t words)
{
	size_t bytes = sizeof(struct agent_table) + entries * words * sizeof(uint64_t);
	return (bytes + AGENT_PAGE - 1) & ~(size_t)(AGENT_PAGE - 1);
}

struct agent_table *table_new(uint64_t entries, uint32_t words)
{
	size_t bytes = table_bytes(entries, words);
	struct agent_table *table = agent_map(bytes);
	if (!table)
		return NULL;
	if (bytes >= 2 * HUGE_PAGE_BYTES)
		sys_madvise(table, bytes, MADV_HUGEPAGE);
	table->mask = entries - 1;
	agent_account((int64_t)bytes);
	return table;
}

void table_drop(struct agent_table *table, uint32_t words)
{
	size_t bytes = table_bytes(table->mask + 1, words);
	/* The head page keeps its mask: readers may still be inside. */
	if (bytes > AGENT_PAGE)
		sys_madvise((char *)table + AGENT_PAGE, bytes - AGENT_PAGE, MADV_DONTNEED);
	agent_account(-(int64_t)bytes);
}

bool table_grow_lock(void)
{
	return agent_may_call() && agent_lock(&agent.grow_lock, 1);
}

void table_grow_unlock(void)
{
	agent_unlock(&agent.grow_lock);
}

static bool make_marks(void)
{
	agent.node_cap_id = intern_make(0, WIRE_MODULE_MARK, WIRE_MARK_NODE_CAP);
	agent.no_stack_id = intern_make(0, WIRE_MODULE_MARK, WIRE_MARK_NO_STACK);
	return agent.no_stack_id != 0;
}

bool intern_init(void)
{
	struct agent_table *table = table_new(INTERN_FIRST, 1);
	if (!table)
		return false;
	atomic_store_explicit(&agent.index, table, memory_order_release);
	return make_marks();
}

bool intern_renew(void)
{
	struct agent_table *table = atomic_load_explicit(&agent.index, memory_order_acquire);
	size_t head = AGENT_PAGE - sizeof *table, bytes = table_bytes(table->mask + 1, 1);
	for (size_t i = 0; i < head / sizeof table->entries[0]; i++)
		atomic_store_explicit(&table->entries[i], 0, memory_order_relaxed);
	if (bytes > AGENT_PAGE)
		sys_madvise((char *)table + AGENT_PAGE, bytes - AGENT_PAGE, MADV_DONTNEED);
	atomic_store_explicit(&table->used, 0, memory_order_relaxed);
	return make_marks();
}

/* One call instead of a fault per page; the collector has had the pages made, if it kept up. */
AGENT_COLD static void make_ahead(uint32_t id)
{
	uintptr_t from = (uintptr_t)&agent.map.nodes[id] & ~(uintptr_t)(AGENT_PAGE - 1);
	uint32_t left = agent.map.node_count - id;
	if (left >= AHEAD_NODES && agent_may_call())
		sys_madvise((void *)from, AHEAD_NODES * sizeof *agent.map.nodes,
			    MADV_POPULATE_WRITE);
}

uint32_t intern_make(uint32_t parent, uint32_t module, uint64_t pc)
{
	_Atomic uint32_t *next = &agent.map.control->nodes_next;
	if (unlikely(atomic_load_explicit(next, memory_order_relaxed) >= agent.map.node_count))
		return 0;
	uint32_t id = atomic_fetch_add_explicit(next, 1, memory_order_relaxed);
	if (unlikely(id >= agent.map.node_count))
		return 0;
	if (unlikely(!id)) /* ids count from 1 */
		id = atomic_fetch_add_explicit(next, 1, memory_order_relaxed);
	if (unlikely(!(id % AHEAD_NODES)))
		make_ahead(id);
	struct wire_node *node = &agent.map.nodes[id];
	node->parent = parent;
	node->module = module;
	node->pc = pc;
	return id;
}

/* False: no free slot near; the node stays without an entry. */
static bool intern_add(struct agent_table *table, uint64_t hash, uint32_t id)
{
	uint64_t entry = hash >> 32 << 32 | id;
	for (uint32_t probe = 0; probe < INTERN_PROBES; probe++) {
		uint64_t slot = ((hash >> 32) + probe) & table->mask;
		uint64_t empty = 0;
		if (atomic_load_explicit(&table->entries[slot], memory_order_relaxed))
			continue;
		/* Pairs with the acquire in intern_probe(): the node is written before. */
		if (atomic_compare_exchange_strong_explicit(&table->entries[slot], &empty, entry,
							    memory_order_release,
							    memory_order_relaxed)) {
			atomic_fetch_add_explicit(&table->used, 1, memory_order_relaxed);
			return true;
		}
	}
	return false;
}

AGENT_COLD static void intern_grow(struct agent_table *old)
{
	if (!table_grow_lock())
		return;
	struct agent_table *bigger = NULL;
	if (atomic_load_explicit(&agent.index, memory_order_relaxed) == old)
		bigger = table_new((old->mask + 1) * 2, 1);
	for (uint64_t slot = 0; bigger && slot <= old->mask; slot++) {
		uint64_t entry = atomic_load_explicit(&old->entries[slot], memory_order_acquire);
		if (entry)
			intern_add(bigger, entry, (uint32_t)entry);
	}
	if (bigger) {
		/* Pairs with the acquire loads of agent.index. */
		atomic_store_explicit(&agent.index, bigger, memory_order_release);
		table_drop(old, 1);
	}
	table_grow_unlock();
}

uint32_t intern_node(uint64_t hash, uint32_t parent, uint32_t module, uint64_t pc)
{
	struct agent_table *table = atomic_load_explicit(&agent.index, memory_order_acquire);
	uint32_t probe = 0, id;
	while ((id = intern_probe(table, hash, &probe))) {
		const struct wire_node *node = &agent.map.nodes[id];
		if (node->parent == parent && node->pc == pc && node->module == module)
			return id;
	}
	id = intern_make(parent, module, pc);
	if (unlikely(!id))
		return agent.node_cap_id;
	bool added = intern_add(table, hash, id);
	uint64_t used = atomic_load_explicit(&table->used, memory_order_relaxed);
	if (unlikely(!added || used * 4 > (table->mask + 1) * 3))
		intern_grow(table);
	return id;
}
