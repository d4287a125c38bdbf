/* SPDX-License-Identifier: Apache-2.0 */
/* The text of the source lines that symbols name. */
#pragma once

#include "base/error.h"
#include "trace/records.h"

#include <stddef.h>

/* A descriptor of a source file, which is closed here, or -errno. */
typedef int (*sourceline_open_fn)(void *ctx, const char *path);
/* Told of each line once, by file and line. Not 0 ends it with that value. */
typedef int (*sourceline_found_fn)(void *ctx, const struct trace_source_line *line);

/*
 * Files that are not there, no regular files, or larger than 16 MiB are passed
 * over, and so are paths that are not absolute. -ENOMEM, or what found returned.
 */
TM_MUST_CHECK int sourceline_read(const struct trace_symbol *symbols, size_t count,
				  sourceline_open_fn open, sourceline_found_fn found, void *ctx);
