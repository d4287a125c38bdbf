/* SPDX-License-Identifier: Apache-2.0 */
/* Long output goes through a pager, as people know it from git and man. */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "cli/out.h"

extern char **environ;

static bool fits(const struct out *out)
{
	const char *text = text_string(&out->text);
	unsigned lines = 0;
	for (const char *at = text; (at = strchr(at, '\n')); at++)
		if (++lines >= out->height)
			return false;
	return true;
}

/* Starts the pager with a pipe as its standard input. Its process, or -errno. */
static pid_t start(int *ret_fd)
{
	const char *wanted = getenv("PAGER");
	int ends[2];
	if (pipe(ends))
		return -errno;
	char shell[] = "sh", option[] = "-c";
	char fallback[] = "exec less 2>/dev/null || exec more", command[4096];
	char *argv[] = {shell, option, fallback, NULL};
	if (wanted && wanted[0] && strlen(wanted) < sizeof command) {
		strcpy(command, wanted);
		argv[2] = command;
	}
	/* Colours pass, a short text ends at once, and the text stays on the screen. */
	setenv("LESS", "FRX", 0);
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
	posix_spawn_file_actions_addclose(&actions, ends[0]);
	posix_spawn_file_actions_addclose(&actions, ends[1]);
	pid_t pid;
	int code = posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[0]);
	if (code) {
		close(ends[1]);
		return -code;
	}
	*ret_fd = ends[1];
	return pid;
}

int out_finish_paged(struct out *out)
{
	const char *wanted = getenv("PAGER");
	bool unwanted = wanted && (!wanted[0] || !strcmp(wanted, "cat"));
	if (!out->height || unwanted || text_error(&out->text) || fits(out))
		return out_finish(out);
	int fd;
	pid_t pid = start(&fd);
	if (pid < 0)
		return out_finish(out);
	/* Ctrl-C belongs to the pager; a pager that ends early is no error. */
	signal(SIGINT, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	int code = io_write(fd, text_string(&out->text), out->text.length);
	close(fd);
	text_done(&out->text);
	int status;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return code && code != -EPIPE;
}
