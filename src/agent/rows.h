/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pc -> how to step out of the frame there. Found once per pc (about 1 us from
 * .eh_frame), then in a hash table that all threads read without locks.
 */
#pragma once

#include "agent/lane.h"

/* A rule in one word, so that it is read whole: kind:4, cfa offset:24 signed, bp offset:20 signed,
 * instance:16. */
enum row_kind {
	ROW_NONE = 0,
	ROW_SP = 1,        /* cfa = sp + offset, return address at cfa - 8 */
	ROW_BP = 2,        /* cfa = bp + offset */
	ROW_END = 3,       /* outermost frame */
	ROW_FP = 4,        /* no unwind information: follow the frame pointer, with care */
	ROW_SIGNAL = 5,    /* rt_sigreturn frame: registers in the ucontext at sp */
	ROW_SLOW = 6,      /* needs all callee-saved registers */
	ROW_REALIGNED = 7, /* cfa is the word at bp + offset; caller's bp at bp + bp offset */
};

static inline uint64_t row_pack(enum row_kind kind, int32_t cfa, int32_t bp, uint32_t instance)
{
	return (uint64_t)kind | ((uint64_t)(uint32_t)cfa & 0xffffff) << 4 |
	       ((uint64_t)(uint32_t)bp & 0xfffff) << 28 | (uint64_t)(instance & 0xffff) << 48;
}
static inline enum row_kind row_kind(uint64_t row)
{
	return (enum row_kind)(row & 15);
}
static inline int32_t row_cfa(uint64_t row)
{
	return (int32_t)(uint32_t)(row >> 4 << 8) >> 8;
}
static inline int32_t row_bp(uint64_t row) /* 0: bp is unchanged */
{
	return (int32_t)((uint32_t)(row >> 28) << 12) >> 12;
}
static inline uint32_t row_instance(uint64_t row)
{
	return (uint32_t)(row >> 48);
}

enum { ROWS_FIRST = 16384, ROWS_MAX = 1 << 22, ROWS_PROBES = 64 };

static inline uint64_t rows_key(uint64_t pc, uint32_t generation)
{
	return (pc & ((1ull << 47) - 1)) | (pc >> 63) << 47 | (uint64_t)(generation & 0xffff) << 48;
}

static inline uint64_t rows_hash(uint64_t key)
{
	return key * 0x9e3779b97f4a7c15ull >> 32;
}

/* The rule, or 0 if it is not known yet. */
static inline uint64_t rows_find(uint64_t key)
{
	struct agent_table *table = atomic_load_explicit(&agent.rows, memory_order_acquire);
	uint64_t slot = rows_hash(key) & table->mask;
	for (int probes = 0; probes < ROWS_PROBES; probes++) {
		_Atomic uint64_t *entry = &table->entries[2 * slot];
		/* Pairs with the release store of the key in rows_add(). */
		uint64_t found = atomic_load_explicit(entry, memory_order_acquire);
		if (likely(found == key)) {
			/* Pairs with the release store of the rule there. */
			uint64_t row = atomic_load_explicit(entry + 1, memory_order_acquire);
			/* Wiped since, it may be another key's. */
			found = atomic_load_explicit(entry, memory_order_relaxed);
			return likely(found == key) ? row : 0;
		}
		if (!found)
			return 0;
		slot = (slot + 1) & table->mask;
	}
	return 0;
}

/* Derives the rule from the unwind tables and keeps it if that is safe. Never 0. */
uint64_t rows_derive(struct lane *lane, uint64_t pc, uint32_t generation);

/* The module at an address; looks for new modules when the address is unknown. False: none. */
bool rows_module(struct lane *lane, uintptr_t address, struct module_code *ret);

/*
 * Reads the loader's list again; thorough after a dlclose. While the loader is
 * at work, at least what it says of `at` (0: nothing). False: not even that.
 */
bool rows_rescan(struct lane *lane, bool thorough, uintptr_t at);

bool rows_init(void);
