/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sound trace file for commands that copy its blocks: the file itself if it is
 * whole, else a repaired copy that is gone afterwards.
 */
#pragma once

#include "base/error.h"
#include "cli/foreign.h"
#include "cli/newfile.h"

struct rewritten {
	const char *path; /* borrowed from here or from the caller */
	struct newfile file;
	char name[FOREIGN_PATH_BYTES]; /* of a file of another tool, imported */
};

/* The copy, if one is needed, is made beside `beside`. */
TM_MUST_CHECK int rewritten_sound(struct rewritten *sound, const char *path, const char *beside,
				  struct tm_error *err);
void rewritten_done(struct rewritten *sound);
