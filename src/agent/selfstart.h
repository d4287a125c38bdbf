/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recording without a tool in front: only the environment says so (a service
 * file, a container image). The agent starts the collector, in a way that the
 * program cannot notice: not its child, no signal, nothing to wait for.
 */
#pragma once

#include "agent/environment.h"
#include "wire/page.h"

#include <stdbool.h>

/* Not empty: where the trace goes, and that there is to be one. */
#define SELFSTART_ENV "TIDEMARK_OUTPUT"
/* For the collector: which process started it, and where to say that it listens. */
#define SELFSTART_PID_ENV   "TIDEMARK_FOLLOW"
#define SELFSTART_READY_ENV "TIDEMARK_READY"

/*
 * Starts the collector and waits until it listens at *ret_session. What this
 * program starts later finds the session in its environment. False: it cannot be
 * (a sentence was written to standard error).
 */
bool selfstart(const struct environment *environment, char ret_session[WIRE_PAGE_SESSION_BYTES]);
