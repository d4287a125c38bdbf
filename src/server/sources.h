/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the text of source files is: beside the trace in other folders, under
 * other names. A trace is hostile: only regular files with the suffix of a
 * source file are read, of bounded size.
 */
#pragma once

#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

struct sources {
	const char *const *maps; /* "FROM=TO": what begins with FROM is at TO */
	size_t map_count;
	const char *const *folders; /* looked into by the ends of the path */
	size_t folder_count;
	const char *editor; /* "vscode://file/{file}:{line}"; NULL = none */
};

/*
 * The whole text of a file as a trace names it, and where it was found. -ENOENT
 * with a sentence: it is not at hand; -EPERM: it is no source file.
 */
TM_MUST_CHECK int sources_read(const struct sources *sources, const char *file,
			       struct text *ret_text, struct text *ret_path, struct tm_error *err);
