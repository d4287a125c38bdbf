/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Front door: the agent into a running process and out again.
 *
 *	inject_open()      looks, judges, plans; the process notices nothing
 *	inject_enter()     one thread is borrowed: agent and islands are mapped, the
 *	                   session begins
 *	inject_patch()     all threads stand still for a moment; entry points lead to us
 *	inject_look()      libraries that were loaded since are patched, too
 *	inject_leave()     all threads stand still for a moment; the code is as it was
 *	inject_close()
 *
 * The agent's code, its memory and the islands stay in the process for good:
 * nobody can know that no thread will ever come back to them. The next session
 * uses them again. All calls from one thread, with SIGCHLD blocked.
 */
#pragma once

#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct inject;
struct plan_hooks;

struct inject_options {
	pid_t pid;
	const char *agent_path;
	const struct plan_hooks *hooks; /* functions of the user's list; may be NULL */
	bool any_session;               /* for leaving: somebody else's session is no obstacle */
};

struct inject_facts {
	pid_t pid;   /* the process, if a thread was named */
	pid_t inner; /* its number in its own namespace */
	size_t threads, objects, functions, refused, patched;
	bool present;            /* an agent of an earlier session is there */
	pid_t collector;         /* who records it now; 0 nobody */
	bool orphan;             /* a session whose recorder was killed is still in place */
	bool seccomp, may_hurry; /* it has filters; we may run ahead of its threads */
	uint64_t enter_pause_ns, leave_pause_ns; /* of all threads; 0 not yet */
	uint64_t borrow_ns;                      /* of the one that was borrowed */
	unsigned moved;                          /* places to come back to that had to be moved */
};

TM_MUST_CHECK int inject_open(const struct inject_options *options, struct inject **ret,
			      struct tm_error *err);
/* Accepts NULL, returns NULL. Lets everything go that is still held. */
struct inject *inject_close(struct inject *inject);
const struct inject_facts *inject_facts(const struct inject *inject);
/* One line per object that has entry points, and per function that cannot be patched. */
void inject_describe(const struct inject *inject, struct text *text);
/* The first thing that keeps allocations from being seen, or "". */
const char *inject_unhooked(const struct inject *inject);

/*
 * fill is called with the path of the shared memory's file, empty as yet, to lay
 * it out; the session begins when it returns 0.
 */
typedef int (*inject_fill_fn)(void *ctx, const char *path, struct tm_error *err);
TM_MUST_CHECK int inject_enter(struct inject *inject, inject_fill_fn fill, void *ctx,
			       struct tm_error *err);
TM_MUST_CHECK int inject_patch(struct inject *inject, struct tm_error *err);
/* How many functions were added, or -errno. Cheap when nothing was loaded. */
TM_MUST_CHECK int inject_look(struct inject *inject, struct tm_error *err);
/* Also for a session whose recorder is gone. -ESRCH: the process is. */
TM_MUST_CHECK int inject_leave(struct inject *inject, struct tm_error *err);
/* Is it still the program that was entered? False after an exec, or its end. */
bool inject_is_same(const struct inject *inject);
