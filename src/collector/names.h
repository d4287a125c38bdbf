/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the functions on the recorded stacks, into the trace. */
#pragma once

#include "collector/feed.h"

#include <sys/types.h>

/* At the end of a section. What has no name is left without: never a failure. */
void names_write(struct feed *feed, pid_t pid);
