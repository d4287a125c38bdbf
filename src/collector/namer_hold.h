/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a process, opened while it lives, so that they can be read when it or they are gone. */
#pragma once

#include "trace/records.h"

#include <stddef.h>
#include <sys/types.h>

/* The root folder of a process that sees other files than we do (a container); -1 when it is the
 * same or unknown. */
int namer_hold_root(pid_t pid);

/* Files that were opened before anybody told of their modules. */
struct namer_early {
	char *path;
	int fd;
};
enum { NAMER_EARLY_MAX = 512 };

/*
 * Opens every file that the process has mapped for execution, into list[]; how
 * many. Called when the process says hello, and so waits, or lives at least.
 */
size_t namer_hold_early(pid_t pid, int root_fd, struct namer_early list[NAMER_EARLY_MAX]);

/*
 * The file that is mapped as a module: by its path, or, when that is gone or is
 * another file by now, through the process itself. -1 when there is no way.
 */
int namer_hold(pid_t pid, int root_fd, const struct trace_module *module);
