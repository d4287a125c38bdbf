/* SPDX-License-Identifier: Apache-2.0 */
/* Suppressions on the command line, and in the output: what they took is always shown. */
#pragma once

#include "base/json.h"
#include "cli/out.h"
#include "views/suppress.h"

enum { SUPPRESSED_FILES_MAX = 16 };

struct suppressed_options {
	const char *files[SUPPRESSED_FILES_MAX];
	size_t file_count;
	bool no_builtin;
};

/* --suppressions FILE. False after a message. */
bool suppressed_take_file(struct suppressed_options *options, const char *command,
			  const char *path);

struct suppressed {
	struct suppressions *list;
	char note[300]; /* about what could not be read; "" = nothing */
};
/* Reads them all: files, the built-in set, the program's own. suppressed_done() in any case. */
TM_MUST_CHECK int suppressed_init(struct suppressed *suppressed,
				  const struct suppressed_options *options,
				  const struct view_input *input, struct tm_error *err);
void suppressed_done(struct suppressed *suppressed);

/* Bytes and blocks, and each pattern that took some. Nothing if none did. */
void suppressed_text(const struct suppressed *suppressed, struct out *out);
/* suppressed_bytes, suppressed_allocations, suppressions, into the open object. */
void suppressed_json(const struct suppressed *suppressed, struct json *json);
