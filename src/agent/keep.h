/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork in a signal handler that interrupted the agent. Its child comes back
 * from the handler into the middle of our code, so for once it gets all that is
 * ours, and goes on with it, to no effect: it is not recorded, nor is what it
 * forks, until it executes another program.
 */
#pragma once

#include "agent/lane.h"

/* Filled by keep_begin(), small: handlers may have small stacks. */
struct keep {
	struct agent *agent; /* as it was */
	struct wire_control *control;
	uint64_t bytes; /* of the session's memory */
};

/* Before the real fork. True: it is such a one, and keep_end() must follow. */
bool keep_begin(struct keep *ret, struct lane *lane, const struct call_site *site);
/* In the child of another fork: maps that another thread's keeps have come along. */
void keep_nothing(struct lane *lane);
/* After it; pid: what it returned. */
void keep_end(const struct keep *keep, int pid);
