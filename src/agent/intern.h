/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Path hash -> node id. The node array is shared and append-only; the index is
 * private, grows, and may lose an entry (then a second node of equal content is
 * made: the collector makes ids canonical), but never gives a wrong node: a hit
 * is confirmed against the node itself.
 */
#pragma once

#include "agent/agent.h"

enum { INTERN_FIRST = 32768, INTERN_PROBES = 64 };

static inline uint64_t intern_hash(uint64_t parent_hash, uint64_t pc, uint32_t module)
{
	uint64_t h = (parent_hash ^ pc ^ (uint64_t)module << 47) * 0x9e3779b97f4a7c15ull;
	return h ^ h >> 29;
}

/* The look-up of `hash` is near: its entry is seldom in a cache. */
static inline void intern_prefetch(uint64_t hash)
{
	const struct agent_table *table = atomic_load_explicit(&agent.index, memory_order_acquire);
	__builtin_prefetch((const void *)&table->entries[hash >> 32 & table->mask]);
}

/* Next candidate for the hash, or 0. Start with *probe = 0 and repeat until 0 or confirmed. */
static inline uint32_t intern_probe(const struct agent_table *table, uint64_t hash, uint32_t *probe)
{
	for (; *probe < INTERN_PROBES; ++*probe) {
		uint64_t slot = ((hash >> 32) + *probe) & table->mask;
		/* Pairs with the release in intern_add(). */
		uint64_t entry = atomic_load_explicit(&table->entries[slot], memory_order_acquire);
		if (!entry)
			return 0;
		if (entry >> 32 == hash >> 32) {
			++*probe;
			return (uint32_t)entry;
		}
	}
	return 0;
}

/* The node (parent, module, pc) whose path hash is `hash`: found or made. agent.node_cap_id when
 * full. */
uint32_t intern_node(uint64_t hash, uint32_t parent, uint32_t module, uint64_t pc);

/* Makes a node without index entry; 0 when full. */
uint32_t intern_make(uint32_t parent, uint32_t module, uint64_t pc);

bool intern_init(void);
/* Empty, for a new session's nodes. */
bool intern_renew(void);
/* A zeroed table of `entries` (a power of two) times `words`; NULL when there is no memory. */
struct agent_table *table_new(uint64_t entries, uint32_t words);
/* Gives the pages of a replaced table back; it stays mapped and reads as empty. */
void table_drop(struct agent_table *table, uint32_t words);
/* One thread grows at a time; the others do without. */
bool table_grow_lock(void);
void table_grow_unlock(void);
