/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of other tools, standard input and pipes, where a trace is asked for:
 * they are imported into a temporary file (in TMPDIR) that has no name any more,
 * so that nothing is left behind however the tool ends.
 */
#pragma once

#include "base/error.h"
#include "import/import.h"

#include <stdbool.h>

enum { FOREIGN_PATH_BYTES = 32 };

/*
 * What to open for this path ("-" is standard input): *ret_path is path itself if
 * it is a trace, or seems to be none at all; else ret_name with the name of a
 * temporary trace that lives as long as the tool. Shows progress.
 */
TM_MUST_CHECK int foreign_resolve(const char *path, char ret_name[FOREIGN_PATH_BYTES],
				  const char **ret_path, struct tm_error *err);
/* Whether the file is one of another tool; false also if it cannot be read. */
bool foreign_is(const char *path);

struct foreign_options {
	const char *sysroot;
};
/* Imports into out_fd, which is taken over; with progress. */
TM_MUST_CHECK int foreign_convert(const char *path, int out_fd,
				  const struct foreign_options *options,
				  struct import_result *ret_result, struct tm_error *err);
