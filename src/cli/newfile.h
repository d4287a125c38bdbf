/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that appears whole or not at all: written under another name in the
 * same folder, synced, then renamed.
 */
#pragma once

#include "base/error.h"

#include <limits.h>
#include <stdbool.h>

struct newfile {
	char path[PATH_MAX];      /* where it will be */
	char temporary[PATH_MAX]; /* "" when there is none any more */
};

/* Creates the temporary file, mode 0600; *ret_fd is the caller's. */
TM_MUST_CHECK int newfile_open(struct newfile *file, const char *path, int *ret_fd,
			       struct tm_error *err);
/*
 * Takes its place. An existing file there is replaced with `force`, kept as a
 * backup with `backup` (its name goes to backup_path, of PATH_MAX), else it is
 * an error and nothing happens.
 */
TM_MUST_CHECK int newfile_commit(struct newfile *file, bool force, char *backup_path,
				 struct tm_error *err);
/* Removes it, unless it took its place. Safe to call twice. */
void newfile_drop(struct newfile *file);
