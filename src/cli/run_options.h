/* SPDX-License-Identifier: Apache-2.0 */
/* How to record: from the command line of 'run', and from the environment. */
#pragma once

#include "cli/run_serve.h"
#include "collector/collector.h"
#include "inject/plan_hook.h"

#include <stdbool.h>

struct run_options {
	struct collector_options run;
	struct plan_hooks hooks; /* what run.hooks points to */
	struct run_servers servers;
	const char *log;
	bool quiet, dormant, daemon, help;
};

/*
 * Each option has a variable: TIDEMARK_TIME_LIMIT is --time-limit. False after a
 * message. Before run_options_parse(), which goes before it.
 */
bool run_options_from_environment(struct run_options *request, const char *command);
/* Options that need one another are both there; false after a message. Done by parse. */
bool run_options_check(const struct run_options *request);
bool run_options_parse(struct run_options *request, int argc, char **argv);
void run_options_help(void);
