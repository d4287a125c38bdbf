/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries are pairs {key, rule}. The key holds the generation, so that a
 * dlclose retires all rows at once. A key is claimed by CAS, the rule written,
 * then the key published. A full table is wiped in place when most of it is of
 * older generations, else replaced by a larger one.
 *
 * An entry is wiped rule first, and not while it is claimed: whoever claims it
 * later finds it empty as a whole. A reader may stand between the two words
 * meanwhile: a rule of 0 is unknown to it, and so is one whose key is another
 * when it is read again. (To be deceived it would have to be torn out twice in
 * three loads, each time until the whole table has been filled anew.)
 */
#include "agent/rows.h"
#include "agent/intern.h"
#include "agent/sys.h"

enum {
	ROW_CLAIMED = 1,
	JIT_REGION_SHIFT = 20,
	BUSY_TRIES = 2000,
	BUSY_SPINS = 50,
	BUSY_PAUSES = 100, /* some microseconds */
};

bool rows_init(void)
{
	struct agent_table *table = table_new(ROWS_FIRST, 2);
	atomic_store_explicit(&agent.rows, table, memory_order_release);
	return table != NULL;
}

static bool rows_add(struct agent_table *table, uint64_t key, uint64_t row)
{
	uint64_t slot = rows_hash(key) & table->mask;
	for (int probes = 0; probes < ROWS_PROBES; probes++) {
		uint64_t empty = 0;
		/* Acquire: pairs with the release in wipe(), whose rule of 0 comes before ours. */
		if (atomic_compare_exchange_strong_explicit(&table->entries[2 * slot], &empty,
							    ROW_CLAIMED, memory_order_acquire,
							    memory_order_relaxed)) {
			/* Both pair with the acquires in rows_find(): who sees the rule sees that
			 * the key before it is gone, who sees the key sees its rule. */
			atomic_store_explicit(&table->entries[2 * slot + 1], row,
					      memory_order_release);
			atomic_store_explicit(&table->entries[2 * slot], key, memory_order_release);
			atomic_fetch_add_explicit(&table->used, 1, memory_order_relaxed);
			return true;
		}
		slot = (slot + 1) & table->mask;
	}
	return false;
}

/* Copies the rows of this generation; returns how many there were. */
static uint64_t copy_rows(struct agent_table *from, struct agent_table *to, uint32_t generation)
{
	uint64_t current = 0;
	for (uint64_t slot = 0; slot <= from->mask; slot++) {
		uint64_t key = atomic_load_explicit(&from->entries[2 * slot], memory_order_acquire);
		uint64_t row =
			atomic_load_explicit(&from->entries[2 * slot + 1], memory_order_relaxed);
		if (key >> 48 != (generation & 0xffff) || key == ROW_CLAIMED || !row)
			continue;
		current++;
		if (to)
			rows_add(to, key, row);
	}
	return current;
}

/* A claimed entry is somebody's who will publish it: it stays. */
static void wipe(struct agent_table *table)
{
	atomic_store_explicit(&table->used, 0, memory_order_relaxed);
	for (uint64_t slot = 0; slot <= table->mask; slot++) {
		_Atomic uint64_t *entry = &table->entries[2 * slot];
		uint64_t key = atomic_load_explicit(entry, memory_order_relaxed);
		if (!key || key == ROW_CLAIMED)
			continue;
		atomic_store_explicit(entry + 1, 0, memory_order_relaxed);
		/* Pairs with the acquire in rows_add(). */
		atomic_store_explicit(entry, 0, memory_order_release);
	}
}

AGENT_COLD static void rows_grow(struct agent_table *old, uint32_t generation)
{
	if (!table_grow_lock())
		return;
	if (atomic_load_explicit(&agent.rows, memory_order_relaxed) == old) {
		struct agent_table *bigger = NULL;
		uint64_t current = copy_rows(old, NULL, generation);
		if (current * 2 > old->mask && old->mask + 1 < ROWS_MAX)
			bigger = table_new((old->mask + 1) * 2, 2);
		if (bigger) {
			copy_rows(old, bigger, generation);
			/* Pairs with the acquire in rows_find(). */
			atomic_store_explicit(&agent.rows, bigger, memory_order_release);
			table_drop(old, 2);
		} else { /* everything is derived again as it is needed */
			wipe(old);
		}
	}
	table_grow_unlock();
}

static bool jit_region_known(uintptr_t address)
{
	for (int i = 0; i < AGENT_JIT_REGIONS; i++)
		if (atomic_load_explicit(&agent.jit_regions[i], memory_order_relaxed) ==
		    (address >> JIT_REGION_SHIFT) + 1)
			return true;
	return false;
}

static void jit_region_add(uintptr_t address)
{
	uint32_t at = atomic_fetch_add_explicit(&agent.jit_next, 1, memory_order_relaxed);
	atomic_store_explicit(&agent.jit_regions[at % AGENT_JIT_REGIONS],
			      (address >> JIT_REGION_SHIFT) + 1, memory_order_relaxed);
}

/* Code vanished or changed; or it may have come where generated code was seen before. */
static void note_change(enum modules_result result, uint32_t generation_before)
{
	if (result == MODULES_CHANGED &&
	    (modules_generation(agent.modules) != generation_before ||
	     atomic_load_explicit(&agent.jit_next, memory_order_relaxed)))
		atomic_fetch_add_explicit(&agent.generation, 1, memory_order_release);
}

/* One reading of the loader's list, or (at not 0) of what it says of one address. True: it could be
 * read. */
static bool rescan(struct lane *lane, bool thorough, uintptr_t at)
{
	uint32_t before = modules_generation(agent.modules);
	/* Inside a dlclose the list is still to change. closing is read last: it falls last. */
	uint32_t closes = atomic_load_explicit(&agent.closes, memory_order_acquire);
	bool closing = atomic_load_explicit(&agent.closing, memory_order_acquire);
	lane->rescanning = true;
	enum modules_result result = at ? modules_rescan_at(agent.modules, lane->tid, at)
					: modules_rescan(agent.modules, lane->tid, thorough);
	lane->rescanning = false;
	note_change(result, before);
	bool read = result == MODULES_SAME || result == MODULES_CHANGED;
	if (read && thorough && !at && !closing)
		atomic_store_explicit(&agent.closes_seen, closes, memory_order_release);
	return read;
}

bool rows_rescan(struct lane *lane, bool thorough, uintptr_t at)
{
	if (lane->seeking || !agent_may_call())
		return false;
	if (rescan(lane, thorough, 0))
		return true;
	/*
	 * The loader is at work in another thread, or another thread reads. What
	 * runs now is loaded: ask for that alone, with some patience.
	 */
	for (int i = 0; at && i < BUSY_TRIES; i++) {
		if (rescan(lane, thorough, at))
			return true;
		if (i >= BUSY_SPINS)
			sys_sched_yield(); /* the reader may have lost its processor */
		for (int pause = 0; pause < BUSY_PAUSES; pause++)
			__asm__ volatile("pause");
	}
	return false;
}

/* A library was or is being unloaded, and the list has not been read in peace since. */
static bool list_is_stale(void)
{
	return atomic_load_explicit(&agent.closing, memory_order_acquire) ||
	       atomic_load_explicit(&agent.closes, memory_order_acquire) !=
		       atomic_load_explicit(&agent.closes_seen, memory_order_acquire);
}

bool rows_module(struct lane *lane, uintptr_t address, struct module_code *ret)
{
	/* What the list says of code that was unloaded meanwhile is not to be believed. */
	if (unlikely(list_is_stale()) && !rows_rescan(lane, true, address))
		return false;
	if (modules_find(agent.modules, address, ret))
		return true;
	if (jit_region_known(address))
		return false;
	bool read = rows_rescan(lane, false, address);
	if (modules_find(agent.modules, address, ret))
		return true;
	if (read && !list_is_stale())
		jit_region_add(address);
	return false;
}

/* A library may have been unloaded behind our back (the C library does so itself): look before
 * reading. */
static bool tables_readable(struct lane *lane, const struct module_code *module)
{
	uint32_t head;
	if (!module->cfi.eh_frame_hdr || (module->instance && module->instance <= agent.staying))
		return true;
	if (!agent_may_call())
		return true;
	return sys_peek((int)lane->tid, module->cfi.eh_frame_hdr, &head, sizeof head) &&
	       (head & 0xff) == 1;
}

static uint64_t row_of_rule(const struct module_code *module, const struct cfi_rule *rule,
			    uint64_t pc)
{
	switch ((enum cfi_kind)rule->kind) {
	case CFI_SP:
	case CFI_BP:
		if (rule->cfa_offset >= 1 << 23 || rule->cfa_offset < -(1 << 23) ||
		    (rule->bp_saved && (rule->bp_offset >= 1 << 19 ||
					rule->bp_offset < -(1 << 19) || !rule->bp_offset)))
			return row_pack(ROW_SLOW, 0, 0, module->instance);
		return row_pack(rule->kind == CFI_SP ? ROW_SP : ROW_BP, rule->cfa_offset,
				rule->bp_saved ? rule->bp_offset : 0, module->instance);
	case CFI_BP_DEREF:
		if (rule->cfa_offset >= 1 << 23 || rule->cfa_offset < -(1 << 23) ||
		    rule->bp_offset >= 1 << 19 || rule->bp_offset < -(1 << 19))
			break;
		return row_pack(ROW_REALIGNED, rule->cfa_offset, rule->bp_offset, module->instance);
	case CFI_END:
		return row_pack(ROW_END, 0, 0, module->instance);
	case CFI_SIGNAL:
		return row_pack(ROW_SIGNAL, 0, 0, module->instance);
	case CFI_SLOW:
	case CFI_NONE:
		break;
	}
	if (rule->kind != CFI_NONE)
		return row_pack(ROW_SLOW, 0, 0, module->instance);
	/* A return address that begins a function, with nothing before it: a context's first frame.
	 */
	if (!(pc & WIRE_PC_EXACT) && cfi_covers(&module->cfi, pc))
		return row_pack(ROW_END, 0, 0, module->instance);
	return row_pack(ROW_FP, 0, 0, module->instance);
}

uint64_t rows_derive(struct lane *lane, uint64_t pc, uint32_t generation)
{
	uintptr_t address = (uintptr_t)(pc & ~WIRE_PC_EXACT) - !(pc & WIRE_PC_EXACT);
	struct module_code module;
	uint64_t row = row_pack(ROW_FP, 0, 0, 0);
	bool found = rows_module(lane, address, &module);
	if (found && !tables_readable(lane, &module))
		found = rows_rescan(lane, true, address) && rows_module(lane, address, &module) &&
			tables_readable(lane, &module);
	if (found) {
		struct cfi_rule rule;
		cfi_find(&module.cfi, address, &rule);
		row = row_of_rule(&module, &rule, pc);
	}
	if (list_is_stale() ||
	    atomic_load_explicit(&agent.generation, memory_order_relaxed) != generation)
		return row; /* right for now, not to be kept */
	struct agent_table *table = atomic_load_explicit(&agent.rows, memory_order_acquire);
	bool added = rows_add(table, rows_key(pc, generation), row);
	if (unlikely(!added || atomic_load_explicit(&table->used, memory_order_relaxed) * 4 >
				       (table->mask + 1) * 3))
		rows_grow(table, generation);
	return row;
}
