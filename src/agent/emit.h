/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events into the lane's chunk. Publication is per event: the release store of
 * `committed` after the words. emit_open() claims the lane's chunk against the
 * collector's taking it back (wire.h: busy and revoke).
 */
#pragma once

#include "agent/lane.h"

enum {
	EMIT_WORDS = 4,   /* what an ordinary event may need */
	EMIT_AHEAD = 384, /* bytes; see emit_claim() */
	EMIT_LINE = 64,   /* of the cache */
};

/* Stamp when the TSC is not to be read: the kernel's clock, or a mere count when that is forbidden
 * too. */
uint64_t emit_stamp_slow(void);

/* The kernel's clock. Only where calls may be made. */
uint64_t agent_steady_ns(void);

/* From now on no clock: events keep their order, time stands still. Call while it can still be
 * read. */
void emit_freeze_clock(void);
/* A session's clock, as agent.map wants it; frozen where the TSC was forbidden before. */
void emit_begin_clock(void);

/* A new chunk for the lane; waits, drops or switches off. False: nothing can be emitted. */
bool emit_refill(struct lane *lane, uint32_t words);

/* The lane was left in the middle of an event (siglongjmp): make it fit to go on. */
void emit_repair(struct lane *lane);

/* Switches recording off for good and says why. */
void agent_switch_off(enum wire_off_reason reason);

static inline uint64_t emit_head(enum wire_op op, enum wire_api api)
{
	uint64_t stamp = unlikely(atomic_load_explicit(&agent.slow_clock, memory_order_relaxed))
				 ? emit_stamp_slow()
				 : read_tsc();
	return stamp << 8 | (uint64_t)api << 4 | op;
}

/* Up to `words` words may be written at the lane's cursor, and emit_close() must follow. False: the
 * event is lost and counted. */
static AGENT_INLINE bool emit_open(struct lane *lane, uint32_t words)
{
	atomic_store_explicit(&lane->stream->busy, 1, memory_order_relaxed);
	compiler_barrier(); /* the collector's membarrier makes this store and the load below
			       ordered */
	if (unlikely(atomic_load_explicit(&lane->stream->revoke, memory_order_relaxed) ||
		     lane->cursor + words > lane->limit) &&
	    !emit_refill(lane, words)) {
		atomic_store_explicit(&lane->stream->busy, 0, memory_order_release);
		return false;
	}
	return true;
}

/*
 * Asks for a cache line to write to, and does not wait for it. The collector has read
 * the lines of a chunk before: they are in its processor's cache, and getting one back
 * takes 35 ns where both share a cache, and 170 ns where they do not. Without this a
 * thread's stores would wait for each: half of what a steady malloc and free cost then.
 * Past the end of a chunk it does no harm: a prefetch never faults.
 */
static AGENT_INLINE void emit_claim(const void *line)
{
	__asm__ volatile("prefetchw %0" ::"m"(*(const char *)line));
}

static AGENT_INLINE void emit_close(struct lane *lane, uint64_t *end)
{
	lane->cursor = end;
	emit_claim((const char *)end + EMIT_AHEAD);
	wire_chunk_commit(lane->chunk, (uint32_t)(end - lane->chunk->words));
	/* Pairs with the collector's acquire load when it takes a chunk back. */
	atomic_store_explicit(&lane->stream->busy, 0, memory_order_release);
}

static AGENT_INLINE void emit2(struct lane *lane, enum wire_op op, enum wire_api api, uint64_t w1)
{
	if (!emit_open(lane, 2))
		return;
	uint64_t *w = lane->cursor;
	w[0] = emit_head(op, api);
	w[1] = w1;
	emit_close(lane, w + 2);
}

static AGENT_INLINE void emit3(struct lane *lane, enum wire_op op, enum wire_api api, uint64_t w1,
			       uint64_t w2)
{
	if (!emit_open(lane, 3))
		return;
	uint64_t *w = lane->cursor;
	w[0] = emit_head(op, api);
	w[1] = w1;
	w[2] = w2;
	emit_close(lane, w + 3);
}

static inline void emit4(struct lane *lane, enum wire_op op, enum wire_api api, uint64_t w1,
			 uint64_t w2, uint64_t w3)
{
	if (!emit_open(lane, 4))
		return;
	uint64_t *w = lane->cursor;
	w[0] = emit_head(op, api);
	w[1] = w1;
	w[2] = w2;
	w[3] = w3;
	emit_close(lane, w + 4);
}

/* payload: words from w2 on. */
void emit_extra(struct lane *lane, enum wire_extra kind, const uint64_t *payload, uint32_t words);
/* WIRE_EV_MODULE with its build-id and path. */
void emit_module(struct lane *lane, const struct module *module);
