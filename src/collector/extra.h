/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that are not of the heap: modules, maps, thread names, fork, exec,
 * exit. They come in merged order and are copied before they are looked at.
 */
#pragma once

#include "collector/cursor.h"
#include "collector/feed.h"

/* Called in the drain thread when this place of the order is reached. pid 0: before the fork. */
typedef void (*extra_fork_fn)(void *ctx, uint32_t thread_id, uint32_t pid, bool done);

/* What a call is about to unmap. */
struct extra_unmapped {
	uint32_t thread_id;
	uint64_t address, bytes;
	struct trace_map_event *maps; /* owned */
	size_t count, room;
};

enum { EXTRA_UNMAPPING = 16 }; /* threads that do so at once */

struct extra {
	struct feed *feed;
	struct extra_unmapped unmapped[EXTRA_UNMAPPING];
	unsigned unmapped_next;
	extra_fork_fn fork; /* may be NULL */
	void *ctx;
	const char *folder; /* the program's when it began: relative paths count from there */
	uint64_t forks;     /* children made */
	bool exiting;       /* an exit call was seen */
	int32_t exit_status;
	uint32_t exit_how;  /* enum wire_exit_how */
	bool executing;     /* an exec call was seen, and it did not come back */
	char unhooked[200]; /* an allocator that could not be hooked, or "" */
};

/* What is there may be that of the piece before. */
void extra_take_over(struct extra *extra, struct extra *before);
void extra_done(struct extra *extra);

/* One event of `words` words at `at` in shared memory; words is at most WIRE_EXTRA_WORDS_MAX. */
void extra_take(struct extra *extra, struct cursor *cursor, uint64_t stamp, const uint64_t *at,
		unsigned words);
