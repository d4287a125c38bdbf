/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a user wants every time: where sources are, and which editor. One setting
 * per line in $XDG_CONFIG_HOME/tidemark/settings (else ~/.config/...), as the
 * options are called:
 *
 *	# comment
 *	source-map /build=/home/me/src
 *	source-dir /home/me/other
 *	editor vscode://file/{file}:{line}
 */
#pragma once

#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

enum { SETTINGS_SOURCES_MAX = 32 };

struct settings {
	const char *maps[SETTINGS_SOURCES_MAX]; /* "FROM=TO" */
	const char *folders[SETTINGS_SOURCES_MAX];
	const char *editor; /* NULL = none */
	size_t map_count, folder_count;
	struct text kept; /* what the names point into, after settings_read() */
};

/* Whether this is "FROM=TO". */
bool settings_is_map(const char *text);
/* The file's place. -ENOENT: neither XDG_CONFIG_HOME nor HOME says where. */
TM_MUST_CHECK int settings_path(struct text *ret_path, struct tm_error *err);
/* What stands in the file; nothing if there is none. -EINVAL names the line that is wrong. */
TM_MUST_CHECK int settings_read(const char *path, struct settings *ret, struct tm_error *err);
/* Writes the file anew, with its folder if need be. */
TM_MUST_CHECK int settings_write(const char *path, const struct settings *settings,
				 struct tm_error *err);
void settings_done(struct settings *settings);
