/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --force: the file that has the name of a trace steps aside, under a hidden name in the same
 * folder, and is deleted when the recording has begun. It is never written to: it may be a program
 * by another name, or a trace that somebody reads. When nothing comes of the recording, it has its
 * name again.
 */
#pragma once

#include "base/error.h"

struct replaced {
	char *path;  /* where the file was: no symbolic link; NULL: there was none */
	char *aside; /* where it is */
};

/*
 * programs: files that are not replaced, NULL at the end. Refuses these, and what another recorder
 * writes at present. *ret_replaced is given back with one of the two below.
 */
TM_MUST_CHECK int replaced_begin(const char *path, const char *const *programs,
				 struct replaced *ret_replaced, struct tm_error *err);

/* The old file goes. */
void replaced_commit(struct replaced *replaced);
/* The old file has its name again, which the new one loses. */
void replaced_undo(struct replaced *replaced);
