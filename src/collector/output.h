/* SPDX-License-Identifier: Apache-2.0 */
/* Where a trace goes: patterns, folders, and names that are taken already. */
#pragma once

#include "base/error.h"

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

/*
 * A new file, mode 0600, close-on-exec; folders above it are made. When the name
 * is taken: overwritten with force, else a number is added before the suffix
 * ("a.tide" -> "a.2.tide"). *ret_path is what it became; released with tm_free().
 */
TM_MUST_CHECK int output_open(const char *path, bool force, int *ret_fd, char **ret_path,
			      struct tm_error *err);
