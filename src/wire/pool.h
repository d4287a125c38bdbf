/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of chunks, both sides. Freestanding-safe; inline because the agent
 * may not call anything. Lock-free: a thread may be stopped for ever at any
 * instruction without hindering the others.
 *
 *   thread:     take -> fill, commit after each event -> link the next chunk
 *   collector:  follow head, read up to committed; when `next` is set and all
 *               is read, put the chunk back and go on with the next
 */
#pragma once

#include "wire/filter.h"
#include "wire/wire.h"

#include <stddef.h>

/* The mapped session. Counts are copied once: what the other side writes later is not believed. */
struct wire_map {
	struct wire_control *control;
	struct wire_stream *streams;
	struct wire_chunk *chunks;
	struct wire_node *nodes; /* [0] unused: ids count from 1, node id n is nodes[n] */
	uint8_t *patches;        /* struct wire_patches */
	uint64_t patches_bytes;
	struct wire_filter *filter;
	uint32_t stream_count;
	uint32_t chunk_count;
	uint32_t node_count;
	uint32_t depth;
	uint32_t options;
};

/* Fills the offsets of a control page from its counts. Returns the total bytes of the session. */
static inline uint64_t wire_layout(struct wire_control *control)
{
	uint64_t at = WIRE_PAGE_BYTES;
	control->streams_offset = at;
	at += (uint64_t)control->stream_count * sizeof(struct wire_stream);
	at = (at + WIRE_PAGE_BYTES - 1) & ~(uint64_t)(WIRE_PAGE_BYTES - 1);
	control->chunks_offset = at;
	at += (uint64_t)control->chunk_count * sizeof(struct wire_chunk);
	control->nodes_offset = at;
	at += ((uint64_t)control->node_count + 1) * sizeof(struct wire_node);
	at = (at + WIRE_PAGE_BYTES - 1) & ~(uint64_t)(WIRE_PAGE_BYTES - 1);
	control->patches_offset = at;
	at += (control->patches_bytes + WIRE_PAGE_BYTES - 1) & ~(uint64_t)(WIRE_PAGE_BYTES - 1);
	control->filter_offset = at;
	control->filter_bytes = WIRE_FILTER_BYTES;
	at += WIRE_FILTER_BYTES;
	control->total_bytes = at;
	return at;
}

/* Fills *map from a session of `bytes` mapped at base. Returns 0, or -1 when the control page makes
 * no sense. */
static inline int wire_map_init(struct wire_map *map, void *base, uint64_t bytes)
{
	struct wire_control *shared = base;
	struct wire_control expect = {.stream_count = shared->stream_count,
				      .chunk_count = shared->chunk_count,
				      .node_count = shared->node_count,
				      .patches_bytes = shared->patches_bytes};
	if (shared->magic != WIRE_MAGIC || shared->version != WIRE_VERSION)
		return -1;
	if (!expect.stream_count || expect.stream_count > 1u << 20 || !expect.chunk_count ||
	    expect.chunk_count > 1u << 20 || !expect.node_count || expect.node_count > 1u << 30 ||
	    expect.patches_bytes > 1u << 30)
		return -1;
	if (wire_layout(&expect) > bytes || expect.streams_offset != shared->streams_offset ||
	    expect.chunks_offset != shared->chunks_offset ||
	    expect.nodes_offset != shared->nodes_offset ||
	    expect.patches_offset != shared->patches_offset ||
	    expect.filter_offset != shared->filter_offset)
		return -1;
	map->control = shared;
	map->streams = (struct wire_stream *)((char *)base + expect.streams_offset);
	map->chunks = (struct wire_chunk *)((char *)base + expect.chunks_offset);
	map->nodes = (struct wire_node *)((char *)base + expect.nodes_offset);
	map->patches = (uint8_t *)base + expect.patches_offset;
	map->patches_bytes = expect.patches_bytes;
	map->filter = (struct wire_filter *)((char *)base + expect.filter_offset);
	map->stream_count = expect.stream_count;
	map->chunk_count = expect.chunk_count;
	map->node_count = expect.node_count;
	map->depth = shared->depth;
	map->options = shared->options;
	return 0;
}

/*
 * A free chunk as index + 1, or 0 when there is none. The tag in the upper half
 * of the head makes a head that went away and came back differ (ABA). It is in
 * *ret_chunk at once, for who may be torn out of this by a signal handler: it is
 * lost only to one that comes between the exchange and the store after it, which
 * are two instructions.
 */
static inline uint32_t wire_pool_take_into(const struct wire_map *map, uint32_t *ret_chunk)
{
	struct wire_control *control = map->control;
	/* Pairs with the release in wire_pool_put(). */
	uint64_t head = atomic_load_explicit(&control->pool_head, memory_order_acquire);
	for (;;) {
		uint32_t chunk = (uint32_t)head;
		if (chunk == WIRE_NONE || chunk > map->chunk_count)
			return WIRE_NONE;
		uint32_t next =
			atomic_load_explicit(&map->chunks[chunk - 1].next, memory_order_relaxed);
		uint64_t want = ((head >> 32) + 1) << 32 | next;
		if (atomic_compare_exchange_weak_explicit(&control->pool_head, &head, want,
							  memory_order_acquire,
							  memory_order_acquire)) {
			*(volatile uint32_t *)ret_chunk = chunk;
			atomic_fetch_sub_explicit(&control->pool_free, 1, memory_order_relaxed);
			return chunk;
		}
	}
}

static inline uint32_t wire_pool_take(const struct wire_map *map)
{
	uint32_t chunk;
	return wire_pool_take_into(map, &chunk);
}

/* Gives chunk (index + 1) back. The caller wakes waiters afterwards (pool_seq). */
static inline void wire_pool_put(const struct wire_map *map, uint32_t chunk)
{
	struct wire_control *control = map->control;
	struct wire_chunk *c = &map->chunks[chunk - 1];
	atomic_store_explicit(&c->committed, 0, memory_order_relaxed);
	atomic_store_explicit(&c->serial, 0, memory_order_relaxed);
	uint64_t head = atomic_load_explicit(&control->pool_head, memory_order_relaxed);
	uint64_t want;
	do {
		atomic_store_explicit(&c->next, (uint32_t)head, memory_order_relaxed);
		want = ((head >> 32) + 1) << 32 | chunk;
		/* Pairs with the acquire in wire_pool_take(). */
	} while (!atomic_compare_exchange_weak_explicit(
		&control->pool_head, &head, want, memory_order_release, memory_order_relaxed));
	atomic_fetch_add_explicit(&control->pool_free, 1, memory_order_relaxed);
}

/*
 * Thread side: make a taken chunk the stream's own, empty, with no successor.
 * The link from the chunk before (or stream.head) is stored afterwards.
 */
static inline void wire_chunk_open(const struct wire_map *map, uint32_t chunk, uint32_t stream,
				   uint64_t serial)
{
	struct wire_chunk *c = &map->chunks[chunk - 1];
	c->stream = stream;
	atomic_store_explicit(&c->serial, serial, memory_order_relaxed);
	atomic_store_explicit(&c->committed, 0, memory_order_relaxed);
	atomic_store_explicit(&c->next, WIRE_NONE, memory_order_relaxed);
}

/* Thread side: everything up to `words` is published. Pairs with the collector's acquire load. */
static inline void wire_chunk_commit(struct wire_chunk *chunk, uint32_t words)
{
	atomic_store_explicit(&chunk->committed, words, memory_order_release);
}
