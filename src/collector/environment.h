/* SPDX-License-Identifier: Apache-2.0 */
/* The program's environment: as ours, but for LD_PRELOAD and TIDEMARK_SESSION. */
#pragma once

#include "base/error.h"

struct environment_options {
	char *const *from;
	const char *first; /* a library that must be before the agent; NULL none */
	const char *agent_path;
	const char *session;
};

/*
 * LD_PRELOAD gets the agent first, what was there stays behind it. The array
 * and the two new strings are released with environment_free(); the other
 * strings are borrowed from options->from.
 */
TM_MUST_CHECK int environment_new(const struct environment_options *options,
				  char ***ret_environment, struct tm_error *err);
char **environment_free(char **environment);
