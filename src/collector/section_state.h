/* SPDX-License-Identifier: Apache-2.0 */
/* A section's state, for the files that are its parts: section.c and drain.c. */
#pragma once

#include "collector/cursor.h"
#include "collector/extra.h"
#include "collector/feed.h"
#include "collector/inherit.h"
#include "collector/merge.h"
#include "collector/names.h"
#include "collector/owner.h"
#include "collector/section.h"
#include "collector/watch.h"

struct section {
	struct section_options options;
	char *program, *command, *folder;
	uint64_t start_unix_ns;
	struct names *names;    /* NULL: none are looked up */
	struct section *before; /* of the same file; NULL: the first */
	struct shm shm;
	struct cursors cursors;
	struct merge merge;
	struct extra extra;
	struct watch *watch;
	struct owner owner;
	struct inherit_box *box; /* for children; NULL: they are not followed */
	bool inherited;          /* thread 0 has the parent's blocks */
	_Atomic bool ending;
	struct section_ending how; /* valid once `ending` */
	uint64_t next_tick_ns;
	uint64_t last_pass_ns;
	uint64_t sleep_ns;
	struct section_result result;
	struct feed feed; /* large: its batch is at the end */
};

/* Passes until the section has ended and all is read. */
void section_drain(struct section *section);
/* What the watch thread has seen since. */
void section_read_notes(struct section *section);
