/* SPDX-License-Identifier: Apache-2.0 */
/* How to record: from the command line of 'run', and from the environment. */
#pragma once

#include "cli/record_options.h"

#include <stdbool.h>

struct run_options {
	struct record_options record; /* run.hooks points to its hooks */
	bool dormant;
	bool attaches; /* -p PID was met: the command line is one of 'attach' */
};

/*
 * Each option has a variable: TIDEMARK_TIME_LIMIT is --time-limit. False after a
 * message. Before run_options_parse(), which goes before it.
 */
bool run_options_from_environment(struct run_options *request, const char *command);
bool run_options_parse(struct run_options *request, int argc, char **argv);
void run_options_help(void);
