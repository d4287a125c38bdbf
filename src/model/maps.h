/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own mappings: a set of disjoint ranges of the address space,
 * each of one kind, in a treap (a search tree by address that random priorities
 * keep flat). A range that touches a neighbour of the same kind is joined with
 * it, so the set stays small however the program cuts its calls.
 */
#pragma once

#include "trace/records.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAP_RESERVED = 1u << 0, /* PROT_NONE */ MAP_FILE_BACKED = 1u << 1, MAP_KINDS = 4 };
enum { MAP_RECENT = 16 };

/* Tells of a part of a mapping that ends: which call made it, and of which kind it was. */
typedef void (*maps_ended_fn)(void *ctx, uint64_t start, uint64_t end, uint8_t kind, uint32_t call);

struct map_node;
struct map_recent { /* an unmapping that may be the begin of a move */
	uint64_t address;
	uint32_t thread_id;
	uint8_t kind;
	bool valid;
};

struct map_set {
	struct map_node *nodes; /* [0] is "none" */
	uint32_t root, used, room, free_list, free_count;
	uint32_t random;
	uint64_t page_bytes;
	uint64_t kind_bytes[MAP_KINDS];
	uint64_t brk_start, brk_bytes;
	uint64_t mapped_peak_bytes, mapped_peak_us, reserved_peak_bytes, file_peak_bytes,
		brk_peak_bytes;
	struct map_recent recent[MAP_RECENT];
	uint32_t recent_next;
	/*
	 * For who wants to know where mappings come from: the number of the present call; what it
	 * makes is kept apart from what others made. May change from call to call.
	 */
	uint32_t call;
	uint64_t *call_bytes; /* kept by call, if not NULL: committed, not of a file */
	bool by_stack;        /* `call` is the stack that mapped it, which the set sees to itself */
	maps_ended_fn ended;  /* or NULL */
	void *ended_ctx;
};

void maps_init(struct map_set *set, uint64_t page_bytes);
void maps_done(struct map_set *set);
/* 0, or -ENOMEM with the set unchanged. */
int maps_apply(struct map_set *set, const struct trace_map_event *event);

/* Which call made what is mapped there; `otherwise` if nothing is. */
uint32_t maps_call_at(const struct map_set *set, uint64_t address, uint32_t otherwise);

/* Every range, by address. Not 0 stops, with that value. */
typedef int (*maps_range_fn)(void *ctx, uint64_t start, uint64_t end, uint8_t kind, uint32_t call);
int maps_each(const struct map_set *set, maps_range_fn fn, void *ctx);
/* The parts of ranges that lie between, by address; as maps_each(). */
int maps_within(const struct map_set *set, uint64_t start, uint64_t end, maps_range_fn fn,
		void *ctx);

static inline uint64_t maps_committed_bytes(const struct map_set *set)
{
	return set->kind_bytes[0];
}
static inline uint64_t maps_reserved_bytes(const struct map_set *set)
{
	return set->kind_bytes[MAP_RESERVED] + set->kind_bytes[MAP_RESERVED | MAP_FILE_BACKED];
}
static inline uint64_t maps_file_bytes(const struct map_set *set)
{
	return set->kind_bytes[MAP_FILE_BACKED];
}
uint64_t maps_memory_bytes(const struct map_set *set);
