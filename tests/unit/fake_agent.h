/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's half of wire/wire.h in hosted C, for tests of the collector: a
 * thread that claims a stream and emits events, waits for chunks and lets the
 * collector take its chunk back, as the real one does.
 */
#pragma once

#include "wire/pool.h"

#include <stdbool.h>

struct fake_thread {
	const struct wire_map *map;
	struct wire_stream *stream;
	uint32_t index;
	struct wire_chunk *chunk;
	uint32_t used; /* words */
	uint64_t last_stamp;
	uint64_t refills, waits;
	bool no_wait; /* give up when the pool is empty */
};

/* Claims a stream for tid. False when there is none. */
bool fake_thread_open(struct fake_thread *thread, const struct wire_map *map, uint32_t tid);

/* Emits words[0, count); words[0] has op and api, the stamp is put in. False: no chunk. */
bool fake_emit(struct fake_thread *thread, uint64_t stamp, const uint64_t *words, unsigned count);
bool fake_alloc(struct fake_thread *thread, uint64_t stamp, uint64_t address, uint32_t bytes,
		uint32_t node);
bool fake_free(struct fake_thread *thread, uint64_t stamp, uint64_t address);

/* A stack node; its id. */
uint32_t fake_node(const struct wire_map *map, uint32_t parent, uint64_t pc, uint32_t module);

/* The time-stamp counter. */
uint64_t fake_stamp(void);
