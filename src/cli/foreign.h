/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of other tools, standard input and pipes, where a trace is asked for:
 * they are imported into a temporary file (in TMPDIR) that has no name any more,
 * so that nothing is left behind however the tool ends.
 */
#pragma once

#include "base/error.h"
#include "cli/args.h"
#include "import/import.h"

#include <stdbool.h>

enum { FOREIGN_PATH_BYTES = 32 };

/*
 * --sysroot and --debug-dir, for every command that opens traces: where the names of
 * addresses are looked for in files that have none. They are kept in the environment,
 * as TIDEMARK_SYSROOT and TIDEMARK_DEBUG_DIR (folders separated by colons), which is
 * where they may come from, too.
 */
extern const struct args_shared foreign_args;
/* Their lines of help. */
void foreign_print_options(void);

/*
 * What to open for this path ("-" is standard input): *ret_path is path itself if
 * it is a trace; else ret_name with the name of a temporary trace that lives as long
 * as the tool. -EBADMSG: it is nothing that is known. Shows progress.
 */
TM_MUST_CHECK int foreign_resolve(const char *path, char ret_name[FOREIGN_PATH_BYTES],
				  const char **ret_path, struct tm_error *err);
/* Whether the file is one of another tool; false also if it cannot be read. */
bool foreign_is(const char *path);

/* Imports into out_fd, which is taken over; with progress. format: NULL = by the content. */
TM_MUST_CHECK int foreign_convert(const char *path, int out_fd, const char *format,
				  struct import_result *ret_result, struct tm_error *err);
