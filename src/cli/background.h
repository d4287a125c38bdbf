/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --daemon: the recording goes on in a process of its own session, without a
 * terminal, and the one that was started ends when it is under way.
 *
 *	if (background_enter(&background, log, &err)) ...	only the new process comes back
 *	fputs("recording ...", background.front);		passed on to the terminal
 *	background_leave(&background, 0);			the first process exits with 0
 *
 * The new process and what it starts have /dev/null as standard input, and as
 * standard output and error, too, unless these are files: then they stay. The
 * current folder stays as well, since programs are named and write relative to it.
 */
#pragma once

#include "base/error.h"

#include <stdio.h>

struct background {
	FILE *front; /* where to say what the user sees; stderr when there is no background */
};

/* log: both outputs go there, behind what it has; NULL = none. Before any thread exists. */
TM_MUST_CHECK int background_enter(struct background *background, const char *log,
				   struct tm_error *err);
/* The first process exits with that status. Nothing when it was not entered, or left before. */
void background_leave(struct background *background, int status);
