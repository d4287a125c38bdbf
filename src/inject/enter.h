/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Into a program that no loader can bring the agent to (statically linked), at
 * its first instruction:
 *
 *	enter_seize()    a child that has not executed the program yet
 *	enter_wait()     until it has, or has ended
 *	enter_program()  map the agent, patch the entry points
 *	enter_leave()    let it run
 *
 * There is one thread, and nothing has run: what can go wrong in a process that
 * lives (attach) cannot here. The agent calls the collector itself, at the first
 * allocation.
 */
#pragma once

#include "base/error.h"
#include "inject/plan_hook.h"

#include <stdbool.h>
#include <sys/types.h>

TM_MUST_CHECK int enter_seize(pid_t pid, struct tm_error *err);

/* True: it stands at its first instruction. False: it has ended, and is still to be waited for. */
bool enter_wait(pid_t pid);

struct enter_options {
	pid_t pid;
	const char *agent_path;
	const struct plan_hooks *hooks; /* may be NULL */
};

/* On failure the program is as it was. */
TM_MUST_CHECK int enter_program(const struct enter_options *options, struct tm_error *err);

void enter_leave(pid_t pid);
