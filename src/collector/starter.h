/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that are started to start another: shells, env, make, npm. When the
 * first process is one of them, the trace is that of what it starts.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

enum starter_role {
	STARTER_PROGRAM = 0, /* what a user wants to see */
	STARTER_STARTER,     /* starts others */
	STARTER_BUILD_TOOL,  /* compilers and linkers run by make or cargo */
};

/* By the executable's path and the second word of the command line (npm is a script of node);
 * either may be "". */
enum starter_role starter_role(const char *program, const char *first_argument);
/* The same for a running process; PROGRAM when it cannot be looked at. */
enum starter_role starter_role_of(pid_t pid);
