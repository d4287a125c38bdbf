/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The traces that are served: files named at the start, and what is found in
 * the folders named there, now or later. A trace is known by an id made from
 * its path, so that links outlive a restart. Thread-safe.
 */
#pragma once

#include "base/error.h"
#include "server/shown.h"

#include <stddef.h>
#include <stdint.h>

enum { CATALOG_ID_CHARS = 12, CATALOG_TRACES_MAX = 4096 };

struct catalog;

/*
 * names, and each of them, may be NULL: what to call a trace whose path says nothing,
 * as "/dev/fd/7". -ENOENT with a sentence when a path does not exist, -ENOMEM.
 */
TM_MUST_CHECK int catalog_new(const char *const *paths, const char *const *names, size_t count,
			      struct catalog **ret_catalog, struct tm_error *err);
/* Who is told while a file is read. Before the first request. */
void catalog_watch(struct catalog *catalog, struct shown_watcher watcher);
/* Reading stops, of all that are being read. Any thread. */
void catalog_cancel(struct catalog *catalog);
struct catalog *catalog_free(struct catalog *catalog);
/* The id of a file, by its real path; one more if it was not known. False: it is none. */
bool catalog_add(struct catalog *catalog, const char *path, char ret_id[CATALOG_ID_CHARS + 1]);

/* Looks into the folders again. Returns how many traces there are. */
size_t catalog_refresh(struct catalog *catalog);

struct catalog_entry {
	char id[CATALOG_ID_CHARS + 1];
	const char *name; /* file name; borrowed for the life of the catalog */
	uint64_t bytes;   /* of the file */
	int64_t changed_unix_ns;
	enum shown_state state;
};
/* Number `index`, the one that was changed last first. False at the end. */
bool catalog_entry(struct catalog *catalog, size_t index, struct catalog_entry *ret_entry);

/*
 * The ids of those that are being written, as far as their files tell, the newest
 * first; and of the newest if none is. Looks into the folders again. At most `room`.
 */
size_t catalog_recent(struct catalog *catalog, char (*ret_ids)[CATALOG_ID_CHARS + 1], size_t room);

/*
 * The trace of an id, or of "last": read if it was not, brought up to date if it
 * has grown; for the caller until shown_leave(). -ENOENT: no such id; else what
 * reading it failed with.
 */
TM_MUST_CHECK int catalog_enter(struct catalog *catalog, const char *id,
				struct shown_facts **ret_facts, struct tm_error *err);
/* For its progress and state; NULL if there is no such id. Lives as long as the catalog. */
struct shown *catalog_find(struct catalog *catalog, const char *id);
