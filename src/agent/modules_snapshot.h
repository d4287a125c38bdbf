/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list as readers see it: two buffers, one current, one being filled, each
 * with a sequence number that is odd while it is being filled. Words are atomic
 * so that a reader that is overtaken reads stale values, never undefined ones;
 * the sequence number then tells it to begin again. Internal to modules*.c.
 */
#pragma once

#include <stdatomic.h>

#include "agent/modules.h"

enum { SNAPSHOT_WORDS = sizeof(struct module_code) / sizeof(uint64_t) };
_Static_assert(sizeof(struct module_code) % sizeof(uint64_t) == 0, "copied by words");
_Static_assert(offsetof(struct module_code, start) == 8, "word 1 is the start");
_Static_assert(offsetof(struct module_code, end) == 16, "word 2 is the end");

struct snapshot {
	_Atomic uint32_t sequence;
	_Atomic uint32_t count;
	uint32_t capacity;
	uint32_t reserved;
	_Atomic uint64_t words[];
};

struct snapshots {
	_Atomic(struct snapshot *) current; /* NULL: an empty list */
	struct snapshot *buffers[2];        /* the writer's */
};

/* Writer: a buffer to fill that readers do not see yet, or NULL: no memory. */
struct snapshot *snapshots_begin(struct snapshots *snapshots, uint32_t count, module_map_fn map,
				 void *ctx);
void snapshots_put(struct snapshot *snapshot, uint32_t index, const struct module_code *code);
void snapshots_publish(struct snapshots *snapshots, struct snapshot *snapshot, uint32_t count);

/* Readers: lock-free, signal-safe. */
bool snapshots_find(const struct snapshots *snapshots, uintptr_t pc, struct module_code *ret);
bool snapshots_at(const struct snapshots *snapshots, uint32_t index, struct module_code *ret);
uint32_t snapshots_count(const struct snapshots *snapshots);
