/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting the program. It is forked first and held back until the trace file
 * (whose name has its pid) is open; then it executes with the streams, signals,
 * limits, process group and terminal that we were given.
 */
#pragma once

#include "base/error.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

/* How we were started: what the program must find as it was. */
struct launch_origin {
	sigset_t mask;
	struct sigaction child; /* SIGCHLD: ignored means that nobody may wait */
	struct rlimit files;    /* open ones: we may have as many as the hard limit allows */
};

/*
 * Blocks all signals in this thread (and those it makes) so that they can be
 * read from a signalfd, takes SIGCHLD's default, raises the limit of open files
 * (each process that is recorded takes some), and fills closed standard streams
 * so that no file of ours becomes one of them. Before any thread exists.
 */
void launch_prepare(struct launch_origin *ret_origin);

struct launch {
	pid_t pid;
	int go_fd;     /* held back until a byte comes */
	int status_fd; /* errno of a failed exec comes here */
};

struct launch_options {
	const char *path;
	char *const *argv;
	char *const *environment;       /* for a recorded run */
	char *const *plain_environment; /* when it must run unrecorded */
	const struct launch_origin *origin;
};
TM_MUST_CHECK int launch_fork(struct launch *launch, const struct launch_options *options,
			      struct tm_error *err);

enum launch_order { LAUNCH_RECORDED = 'r', LAUNCH_PLAIN = 'p', LAUNCH_CANCEL = 'c' };
/* Lets it go, or has it end. 0, or -errno of a failed exec (the child is then gone, not yet waited
 * for). */
TM_MUST_CHECK int launch_go(struct launch *launch, enum launch_order order);

/* The same in two steps: let it go, and later ask how the exec went. */
void launch_release(struct launch *launch, enum launch_order order);
TM_MUST_CHECK int launch_result(struct launch *launch);

/* Executes in this process, unrecorded. Returns only on failure: -errno. */
int launch_replace(const struct launch_options *options);
