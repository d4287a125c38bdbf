/* SPDX-License-Identifier: Apache-2.0 */
/* Where a trace goes: patterns, folders, and names that are taken already. */
#pragma once

#include "base/error.h"
#include "collector/replaced.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct output_facts {
	pid_t pid;
	const char *program;    /* path or name; its last part is used */
	uint32_t piece;         /* for %i: from 1 */
	bool rotates;           /* more pieces will come: a name without %i gets the number, too */
	uint64_t start_unix_ns; /* for %t, as local time: 20260131-235959 */
};

/*
 * The path that a pattern means: %p pid, %h host, %n program, %t start time, %i
 * number of the piece, %% a percent sign. NULL or "": tidemark.<program>.<pid>.tide. A folder (it
 * exists, or ends with "/") takes the default name. Released with tm_free().
 */
TM_MUST_CHECK int output_path(const char *pattern, const struct output_facts *facts,
			      char **ret_path, struct tm_error *err);

/* For a tool run by sudo: the file belongs to the user who called it. */
void output_give(int fd);

struct output_options {
	const char *path;
	bool force;                  /* in the place of what has the name */
	const char *const *programs; /* with force: files that are not replaced; NULL at the end */
};

struct output_file {
	int fd;
	char *path; /* what it became; released with tm_free() */
	struct replaced replaced;
};

/*
 * A new file, mode 0600, close-on-exec; folders above it are made. When the name is taken: with
 * force the old file steps aside (replaced.h), else a number is added before the suffix
 * ("a.tide" -> "a.2.tide"). What is no file (a device, a pipe) is refused.
 */
TM_MUST_CHECK int output_open(const struct output_options *options, struct output_file *ret_file,
			      struct tm_error *err);

/* Removes a trace: only if the name still leads to the very file that was written. True: it is
 * gone. */
bool output_remove(const char *path, uint64_t device, uint64_t inode);
