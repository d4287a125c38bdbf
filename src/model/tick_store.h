/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ticks: what a short run of events did, per stack, for curves that are finer
 * than slices. They are made once per block of events, when a timeline first
 * needs them, and kept within a limit of memory; the least used go first. Blocks
 * of events never change, so a file that has grown keeps the ticks it had.
 *
 * Thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What some events did. */
struct tick_sums {
	uint64_t births, birth_bytes, temporary;
	int64_t deaths, death_bytes; /* net of failed reallocs */
};

struct tick_row {
	uint32_t stack_id, temporary;
	uint64_t births, birth_bytes;
	int64_t deaths; /* net of failed reallocs, as death_bytes */
	int64_t death_bytes;
};

struct tick {
	uint64_t start_ns, end_ns;     /* of its first and its last event */
	int64_t low_bytes, high_bytes; /* extremes of what lives, against its start: <= 0, >= 0 */
	uint64_t high_ns;              /* the first moment of the latter */
	struct tick_sums sums;         /* of all stacks */
	uint32_t first_row, row_count;
};

/* Of events [first_event, end_event). */
struct ticks {
	uint64_t first_event, end_event;
	struct tick *list;
	size_t count;
	struct tick_row *rows;
	size_t row_count;
	bool has_rows; /* they are made where stacks are told apart */
	/* Of the store, under its lock: */
	uint64_t used;
	size_t users;
	struct ticks *next;
};
struct ticks *ticks_free(struct ticks *ticks);

struct tick_store;
/* Of a recording, and so many events per tick at most, 0 = 2048. NULL without memory. */
struct tick_store *tick_store_new(uint64_t identity, uint32_t tick_events);
uint64_t tick_store_identity(const struct tick_store *store);
/* Another owner of the same. */
struct tick_store *tick_store_share(struct tick_store *store);
/* Gone with its last owner. */
struct tick_store *tick_store_free(struct tick_store *store);
uint32_t tick_store_events(const struct tick_store *store);

/* The ticks of exactly these events, to be given back; NULL if they are not there (with rows). */
const struct ticks *tick_store_take(struct tick_store *store, uint64_t first_event,
				    uint64_t end_event, bool rows);
void tick_store_give(struct tick_store *store, const struct ticks *ticks);
/* Ownership moves; what is returned is as taken. */
const struct ticks *tick_store_put(struct tick_store *store, struct ticks *ticks);
