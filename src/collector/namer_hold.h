/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a process, opened while it lives, so that they can be read when it or they are gone. */
#pragma once

#include "trace/records.h"

#include <sys/types.h>

/* The root folder of a process that sees other files than we do (a container); -1 when it is the
 * same or unknown. */
int namer_hold_root(pid_t pid);

/*
 * The file that is mapped as a module: by its path, or, when that is gone or is
 * another file by now, through the process itself. -1 when there is no way.
 */
int namer_hold(pid_t pid, int root_fd, const struct trace_module *module);
