/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the functions on the recorded stacks, into the trace. */
#pragma once

#include "collector/feed.h"

#include <sys/types.h>

/*
 * The root folder of a process that sees other files than we do (a container),
 * so that they can be read when it is gone; -1 when it is the same or unknown.
 */
int names_hold_root(pid_t pid);
/* At the end of a section. What has no name is left without: never a failure. */
void names_write(struct feed *feed, int root_fd);
