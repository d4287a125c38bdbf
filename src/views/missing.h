/* SPDX-License-Identifier: Apache-2.0 */
/* Which modules lack names or lines, how much that matters, and what would help. */
#pragma once

#include "views/views.h"

enum view_cure {
	VIEW_CURE_NONE,
	VIEW_CURE_NODE,    /* JavaScript without a map */
	VIEW_CURE_JAVA,    /* the same of a Java machine */
	VIEW_CURE_JIT,     /* code that a program made itself */
	VIEW_CURE_MAP,     /* the same, where its map names other code */
	VIEW_CURE_ADDON,   /* a native addon of node */
	VIEW_CURE_PACKAGE, /* of the distribution: debug symbols are a package */
	VIEW_CURE_RUST,
	VIEW_CURE_BUILD, /* build it with debug information */
};

struct view_missing_row {
	const char *module;        /* path, "[anonymous]"; borrowed */
	const uint8_t *build_id;   /* borrowed */
	uint32_t build_id_bytes;   /* 0 = it has none */
	uint64_t unnamed_bytes;    /* allocated by stacks with a frame of it that has no name */
	uint64_t unlined_bytes;    /* with a frame that has no line */
	uint64_t unnamed, unlined; /* frames, each once */
	enum view_cure cure;
};

struct view_missing {
	struct view_missing_row *rows; /* those without names first, the largest first */
	size_t count;
	uint64_t bytes;         /* allocated in all */
	uint64_t unnamed_bytes; /* by stacks with any frame without a name */
	uint64_t unlined_bytes; /* or without a line */
};

/*
 * Frames of allocators, and start-up code outside of main, do not count. O(frames
 * of all stacks). -ENOMEM.
 */
TM_MUST_CHECK int view_missing(const struct view_data *data, const struct view_input *input,
			       struct view_missing *ret_missing, struct tm_error *err);
void view_missing_done(struct view_missing *missing);

/* What to do, as a sentence without its full stop. */
const char *view_cure_text(enum view_cure cure);
