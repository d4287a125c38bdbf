/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tidemark collect: what the agent starts when a program is to be recorded by
 * its environment alone (LD_PRELOAD and TIDEMARK_OUTPUT). Not for people: it takes
 * no options, and is not in the help.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/run_lines.h"
#include "cli/run_options.h"

enum { USAGE = 2, FAILED = 125, DESCRIPTORS_MAX = 65536 };

struct follower {
	struct run_options options;
	int ready_fd;
};

/* The program's files are its own: only standard error is ours, until all is well. */
static void close_others(int keep)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
	}
	if (keep > 3 && syscall(SYS_close_range, 3, keep - 1, 0) == 0 &&
	    syscall(SYS_close_range, keep + 1, ~0u, 0) == 0)
		return;
	for (int fd = 3; fd < DESCRIPTORS_MAX; fd++)
		if (fd != keep)
			close(fd);
}

/* The program goes on; from here on nobody hears us. */
static void on_start(void *ctx, const char *path)
{
	struct follower *follower = ctx;
	if (!follower->options.record.quiet)
		run_lines_begin(stderr, path);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0)
		dup2(null, STDERR_FILENO);
	if (write(follower->ready_fd, "r", 1) == 1)
		close(follower->ready_fd);
	follower->ready_fd = -1;
}

static int number_of(const char *name)
{
	const char *text = getenv(name);
	return text ? atoi(text) : 0;
}

int cmd_collect(int argc, char **argv)
{
	struct follower follower = {.options.record.run.on_usr1 = COLLECTOR_USR1_TOGGLE};
	struct collector_options *run = &follower.options.record.run;
	struct collector_result result;
	struct tm_error err = {0};
	(void)argv;
	run->session = getenv("TIDEMARK_SESSION");
	run->follow_pid = number_of("TIDEMARK_FOLLOW");
	follower.ready_fd = number_of("TIDEMARK_READY");
	if (argc != 1 || !run->session || run->follow_pid <= 0 || follower.ready_fd <= 2) {
		fputs("tidemark collect: is started by libtidemark.so, not by hand. Set "
		      "LD_PRELOAD=libtidemark.so and TIDEMARK_OUTPUT=FILE for a program.\n",
		      stderr);
		return USAGE;
	}
	close_others(follower.ready_fd);
	fcntl(follower.ready_fd, F_SETFD, FD_CLOEXEC);
	setsid();
	if (!run_options_from_environment(&follower.options, "collect") ||
	    !bounds_check(&run->bounds, "run"))
		return USAGE;
	run->started = on_start;
	run->ctx = &follower;
	int error = collector_follow(run, &result, &err);
	if (error) {
		fprintf(stderr, "tidemark: not recorded: %s\n", err.text);
		return FAILED;
	}
	collector_result_done(&result);
	return 0;
}
