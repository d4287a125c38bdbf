/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The drain thread's side of looking up names: new modules and addresses go to
 * the namer, answers go into the trace. Nothing here waits but names_finish();
 * what the namer cannot take yet stays where it is, in the section's own lists.
 */
#pragma once

#include "collector/feed.h"
#include "collector/unnamed.h"

struct names;

/* Called a few times a second while names_finish() waits; true: stop waiting. */
typedef bool (*names_waiting_fn)(void *ctx, uint64_t waited_ns);

/*
 * Takes over fd, an end of a namer's stream (also on failure). The feed must outlive it, and so
 * must who else is told of all symbols: `unnamed`, which may be NULL.
 */
TM_MUST_CHECK int names_new(int fd, const struct feed *feed, struct unnamed *unnamed,
			    struct names **ret_names);
struct names *names_free(struct names *names);

/* The section's number in the file; before anything else. */
void names_begin(struct names *names, uint32_t section);
/* Sends what is new, writes what has come. Never blocks. */
void names_tick(struct names *names, struct trace_writer *writer);
/* Sends new modules at once: their files, and the process, may be gone in a moment. O(1) if there
 * are none. */
void names_modules(struct names *names);
/* Nothing will be added to the feed: tell the namer when all is sent. */
void names_end(struct names *names);
/* Waits until all is answered, the namer is gone, or `waiting` says that it is enough. */
void names_finish(struct names *names, struct trace_writer *writer, names_waiting_fn waiting,
		  void *ctx);

/* Files that could not be used, as sentences: how many, and the first. */
unsigned names_warnings(const struct names *names, const char **ret_first);
/* All questions were answered. */
bool names_complete(const struct names *names);
