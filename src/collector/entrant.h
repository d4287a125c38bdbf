/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that no loader brings an agent to, and that another program starts:
 * the agent of that one asks before the execution (WIRE_HELLO_EXEC, _SPAWN). A
 * thread of ours then traces who asked, until the new program stands at its
 * first instruction; there it is entered, and let go. A thread each, because
 * only the thread that traces may do it, and because the program may take its
 * time (a slow disk, a stop).
 *
 * When the thread ends the kernel lets everything go that it traced.
 */
#pragma once

#include "collector/patching.h"
#include "collector/rendezvous.h"

#include <stdbool.h>
#include <sys/types.h>

struct entrant;

/* All that were asked for and are not yet told of. Main thread only. */
struct entrants {
	struct entrant *first;
	int done_fd; /* eventfd: readable when a thread has ended */
};

struct entrant_options {
	const char *agent_path;
	const struct plan_hooks *hooks;
};

/* Without it (done_fd < 0) nobody is entered. */
void entrants_init(struct entrants *entrants);
/* Waits for the threads. */
void entrants_done(struct entrants *entrants);

/* Takes the connection over. told: comes back if it fails. `options` must live as long. */
void entrants_add(struct entrants *entrants, struct rendezvous_peer *peer, pid_t told,
		  const struct entrant_options *options);
/* Is this process being traced? Then nobody else may wait for it. */
bool entrants_hold(const struct entrants *entrants, pid_t pid);
/* What of the program that this process executes now could not be hooked, or "". */
void entrants_unhooked(struct entrants *entrants, pid_t pid, char ret[PATCHING_UNHOOKED_BYTES]);

/* The next program that could not be entered, and why. False: none (any more). */
bool entrants_failed(struct entrants *entrants, pid_t *ret_told, struct tm_error *ret);
