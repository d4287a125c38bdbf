/* SPDX-License-Identifier: Apache-2.0 */
/* Is there an agent in a process that came with the program, not through attach? */
#pragma once

#include "base/error.h"

#include <sys/types.h>

enum attach_agent {
	ATTACH_AGENT_NONE,
	ATTACH_AGENT_SLEEPS,  /* it can be woken */
	ATTACH_AGENT_RECORDS, /* a session has it */
};
enum attach_agent attach_agent_of(pid_t pid);

/*
 * Has the session that records a process by its own agent end. -ENOENT: there is
 * none, or the process was attached to by a tracer.
 */
TM_MUST_CHECK int attach_agent_detach(pid_t pid, struct tm_error *err);
