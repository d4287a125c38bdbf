/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which modules lack names or lines, and how many bytes were allocated by stacks
 * with a frame of theirs that does. Stacks share their outer frames, so what is
 * lacking from a frame outwards is known from its caller: it is a set, kept as
 * what one frame adds to the set of another.
 *
 *   0: nothing <─┬─ 1: names of libfoo <─┬─ 3: lines of app
 *                │                       └─ 4: names of libbar
 *                └─ 2: names of libbar <─── 5: names of libfoo
 *
 * From any set down to 0 each thing is there once, so that in the end every set
 * gives its bytes to the one below it, and to the module that it names. Sets 4
 * and 5 say the same: only the order differs, and nobody minds.
 *
 * Known limits: with very many modules that call each other in every order
 * there are as many sets as frames.
 */
#pragma once

#include "base/error.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	LACKS_NAME = 1u << 0,
	LACKS_LINE = 1u << 1,
	LACKS_KINDS = 2,
};

struct lacks_set {
	uint64_t bytes;
	uint32_t below;  /* what it adds to: a smaller number */
	uint32_t module; /* and what it adds */
	uint8_t added, all;
};

/* A step that was made before: the set with this added. */
struct lacks_step {
	uint64_t key; /* the set << 32 | module << 2 | flags; 0 none: flags are never 0 */
	uint32_t to;
};

struct lacks {
	struct lacks_set *sets; /* [0] is empty */
	uint32_t set_count, set_room;
	struct lacks_step *steps; /* open addressing */
	uint32_t step_mask, step_count;
};

struct lacks_module {
	uint64_t bytes[LACKS_KINDS]; /* of stacks with a frame without a name, without a line */
};

TM_MUST_CHECK int lacks_init(struct lacks *lacks);
void lacks_done(struct lacks *lacks);

/* The set with LACKS_* of a module (below 2^30) added; it may be the same. -ENOMEM. */
TM_MUST_CHECK int lacks_add(struct lacks *lacks, uint32_t set, uint32_t module, unsigned flags,
			    uint32_t *ret_set);
/* A stack from whose leaf outwards this is lacking allocated so many bytes. */
static inline void lacks_count(struct lacks *lacks, uint32_t set, uint64_t bytes)
{
	lacks->sets[set].bytes += bytes;
}
/*
 * Adds up, once: by module, which the caller has zeroed, and for all modules; *ret_bytes
 * are those of all stacks. O(sets).
 */
void lacks_sum(struct lacks *lacks, struct lacks_module *modules, struct lacks_module *ret_any,
	       uint64_t *ret_bytes);

static inline uint64_t lacks_key(uint32_t set, uint32_t module, unsigned flags)
{
	return (uint64_t)set << 32 | (uint64_t)module << LACKS_KINDS | flags;
}

static inline uint32_t lacks_slot(const struct lacks *lacks, uint64_t key)
{
	return (uint32_t)hash_fold(key, 0x9e3779b97f4a7c15ull) & lacks->step_mask;
}

/* Is this in the set, as lacks_add() has found out before? O(1). */
static inline bool lacks_has(const struct lacks *lacks, uint32_t set, uint32_t module,
			     unsigned flags)
{
	uint64_t key = lacks_key(set, module, flags);
	uint32_t at = lacks_slot(lacks, key);
	while (lacks->steps[at].key && lacks->steps[at].key != key)
		at = (at + 1) & lacks->step_mask;
	return lacks->steps[at].key == key && lacks->steps[at].to == set;
}
