/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/memory.h"

void launch_prepare(struct launch_origin *ret_origin)
{
	sigset_t all;
	struct sigaction by_default = {.sa_handler = SIG_DFL};
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR | O_CLOEXEC) != fd)
			break;
	if (!getrlimit(RLIMIT_NOFILE, &ret_origin->files)) {
		struct rlimit all_files = ret_origin->files;
		all_files.rlim_cur = all_files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &all_files);
	}
	sigaction(SIGCHLD, &by_default, &ret_origin->child);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &ret_origin->mask);
}

static void restore_origin(const struct launch_origin *origin)
{
	if (origin->files.rlim_max)
		setrlimit(RLIMIT_NOFILE, &origin->files);
	sigaction(SIGCHLD, &origin->child, NULL);
	sigprocmask(SIG_SETMASK, &origin->mask, NULL);
}

/* As execvp does with a script that has no #! line. */
static int exec_by_shell(const struct launch_options *options, char *const *environment)
{
	size_t count = 0;
	while (options->argv[count])
		count++;
	char **argv = tm_alloc_array(count + 2, sizeof *argv);
	if (!argv)
		return -ENOMEM;
	argv[0] = options->argv[0];
	argv[1] = (char *)options->path;
	for (size_t i = 1; i < count; i++)
		argv[i + 1] = options->argv[i];
	execve("/bin/sh", argv, environment);
	int error = -errno;
	tm_free(argv);
	return error;
}

static int exec_program(const struct launch_options *options, char *const *environment)
{
	execve(options->path, options->argv, environment);
	return errno == ENOEXEC ? exec_by_shell(options, environment) : -errno;
}

int launch_replace(const struct launch_options *options)
{
	restore_origin(options->origin);
	return exec_program(options, options->plain_environment);
}

static _Noreturn void run_child(const struct launch_options *options, int go_fd, int status_fd)
{
	char order = LAUNCH_CANCEL;
	size_t got = 0;
	/* Signals stay blocked meanwhile: one that comes now is delivered to the program. */
	if (io_read(go_fd, &order, 1, &got) || got != 1 || order == LAUNCH_CANCEL)
		_exit(125);
	restore_origin(options->origin);
	int error = exec_program(options, order == LAUNCH_RECORDED ? options->environment
								   : options->plain_environment);
	if (io_write(status_fd, &error, sizeof error))
		_exit(125);
	_exit(error == -ENOENT ? 127 : 126);
}

int launch_fork(struct launch *launch, const struct launch_options *options, struct tm_error *err)
{
	int go[2], status[2];
	if (pipe2(go, O_CLOEXEC))
		return tm_fail(err, -errno, "cannot make a pipe: %s", strerror(errno));
	if (pipe2(status, O_CLOEXEC)) {
		int error = -errno;
		close(go[0]);
		close(go[1]);
		return tm_fail(err, error, "cannot make a pipe: %s", strerror(-error));
	}
	pid_t pid = fork();
	if (pid == 0) {
		close(go[1]);
		close(status[0]);
		run_child(options, go[0], status[1]);
	}
	int error = -errno;
	close(go[0]);
	close(status[1]);
	if (pid < 0) {
		close(go[1]);
		close(status[0]);
		return tm_fail(err, error, "cannot start a process: %s", strerror(-error));
	}
	*launch = (struct launch){.pid = pid, .go_fd = go[1], .status_fd = status[0]};
	return 0;
}

void launch_release(struct launch *launch, enum launch_order order)
{
	char byte = (char)order;
	/* If it was killed meanwhile, waiting for it tells. */
	int ignored = io_write(launch->go_fd, &byte, 1);
	(void)ignored;
	close(launch->go_fd);
	launch->go_fd = -1;
}

int launch_result(struct launch *launch)
{
	int error = 0;
	size_t got = 0;
	if (io_read(launch->status_fd, &error, sizeof error, &got) || got != sizeof error)
		error = 0;
	close(launch->status_fd);
	launch->status_fd = -1;
	return error;
}

int launch_go(struct launch *launch, enum launch_order order)
{
	launch_release(launch, order);
	return launch_result(launch);
}
