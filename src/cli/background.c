/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/background.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DIED = 125 };

/* What is said passes through a pipe: text, then a NUL and the status. */
static _Noreturn void relay(int fd)
{
	char piece[4096];
	bool is_over = false;
	int status = DIED;
	ssize_t got;
	while (status == DIED && (got = read(fd, piece, sizeof piece)) != 0) {
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			break;
		char *end = is_over ? piece : memchr(piece, '\0', (size_t)got);
		size_t text = end ? (size_t)(end - piece) : (size_t)got;
		fwrite(piece, 1, text, stderr);
		size_t skip = is_over ? 0 : text + 1;
		is_over = end != NULL;
		if (is_over && skip < (size_t)got)
			status = (unsigned char)piece[skip];
	}
	if (!is_over)
		fputs("tidemark: the recording in the background has ended before it began\n",
		      stderr);
	fflush(stderr);
	_exit(status);
}

static bool is_file(int fd)
{
	struct stat facts;
	return fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode);
}

static int open_log(const char *path, struct tm_error *err)
{
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600)
		      : open("/dev/null", O_RDWR | O_CLOEXEC);
	return fd < 0 ? tm_fail(err, -errno, "cannot write to '%s': %s", path ? path : "/dev/null",
				strerror(errno))
		      : fd;
}

static void redirect(int null, int log, bool all)
{
	dup2(null, STDIN_FILENO);
	for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
		if (all || !is_file(fd))
			dup2(log, fd);
}

/* The child of a child that leads a session: no terminal can become its own. */
static bool detach(void)
{
	pid_t pid = -1;
	if (setsid() >= 0)
		pid = fork();
	if (pid > 0)
		_exit(0);
	return pid == 0;
}

int background_enter(struct background *background, const char *log_path, struct tm_error *err)
{
	int ends[2], null = open_log(NULL, err);
	int log = null < 0 ? null : open_log(log_path, err);
	if (log < 0)
		return log;
	if (pipe2(ends, O_CLOEXEC))
		return tm_fail(err, -errno, "cannot make a pipe: %s", strerror(errno));
	fflush(NULL);
	pid_t pid = fork();
	if (pid < 0)
		return tm_fail(err, -errno, "cannot start a process: %s", strerror(errno));
	if (pid > 0) {
		close(ends[1]);
		waitpid(pid, NULL, 0); /* the one between the two */
		relay(ends[0]);
	}
	close(ends[0]);
	background->front = fdopen(ends[1], "w");
	if (!background->front || !detach())
		_exit(DIED);
	redirect(null, log, log_path != NULL);
	close(null);
	close(log);
	return 0;
}

void background_leave(struct background *background, int status)
{
	if (!background->front || background->front == stderr)
		return;
	fputc('\0', background->front);
	fputc(status, background->front);
	fclose(background->front);
	background->front = stderr;
}
