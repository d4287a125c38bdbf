/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line from a terminal, with editing and a history that outlives the session.
 * The history lies in $XDG_STATE_HOME/tidemark (else ~/.local/state/tidemark),
 * readable by its owner alone; without such a folder it lasts for the session.
 */
#pragma once

#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

enum { SQL_HISTORY_MAX = 500 };

struct sql_line {
	char *history[SQL_HISTORY_MAX];
	size_t history_count;
	char *history_path; /* NULL = none */
};

void sql_line_init(struct sql_line *line);
void sql_line_done(struct sql_line *line);
/*
 * Shows the prompt and reads a line into *text, without its end. -ENODATA: no more input;
 * -EINTR: Ctrl-C, the line is given up.
 */
TM_MUST_CHECK int sql_line_read(struct sql_line *line, const char *prompt, struct text *text);
/* Remembers a statement, unless it is the last one again. */
void sql_line_remember(struct sql_line *line, const char *statement);
