/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts another program and ends as it did:
 *   starter HOW PROGRAM ARGUMENT...
 * HOW: exec execvp fexecve fork vfork spawn spawnp thread; execfail tries something that cannot be
 * executed first; orphan starts it in a child of process 1, and ends with 0 after it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int end_like(pid_t pid)
{
	int status = 0;
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 120;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 121;
}

static int spawn(char **argv, int in_path)
{
	pid_t pid = -1;
	int error = in_path ? posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ)
			    : posix_spawn(&pid, argv[0], NULL, NULL, argv, environ);
	return error ? 122 : end_like(pid);
}

static void *execute(void *argv)
{
	execv(*(char **)argv, argv);
	_exit(123);
}

/* Static, but its arguments are more than the kernel takes: fails, and the program goes on. */
static void fail(char **argv)
{
	size_t bytes = 8u << 20;
	char *large = malloc(bytes);
	if (!large)
		abort();
	memset(large, 'x', bytes - 1);
	large[bytes - 1] = '\0';
	char *const all[] = {argv[0], large, NULL};
	if (execv(argv[0], all) != -1)
		abort();
	free(large);
}

static int orphan(char **argv)
{
	int ends[2];
	char byte;
	pid_t self = getpid();
	if (pipe(ends))
		return 125;
	pid_t pid = fork();
	if (!pid) {
		if (!fork()) {
			close(ends[0]);
			while (getppid() != 1)
				usleep(100);
			execv(argv[0], argv);
		}
		_exit(0);
	}
	close(ends[1]);
	if (pid < 0 || self == 1 || waitpid(pid, NULL, 0) != pid)
		return 126;
	return read(ends[0], &byte, 1) ? 127 : 0; /* until nobody has the other end */
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	const char *how = argv[1];
	argv += 2;
	if (!strcmp(how, "execfail"))
		fail(argv);
	if (!strcmp(how, "exec") || !strcmp(how, "execfail"))
		execve(argv[0], argv, environ);
	if (!strcmp(how, "execvp"))
		execvp(argv[0], argv);
	if (!strcmp(how, "fexecve"))
		fexecve(open(argv[0], O_RDONLY), argv, environ);
	if (!strcmp(how, "spawn") || !strcmp(how, "spawnp"))
		return spawn(argv, how[5] == 'p');
	if (!strcmp(how, "orphan"))
		return orphan(argv);
	if (!strcmp(how, "thread")) {
		pthread_t thread;
		if (!pthread_create(&thread, NULL, execute, argv))
			pthread_join(thread, NULL);
	}
	if (!strcmp(how, "fork") || !strcmp(how, "vfork")) {
		pid_t pid = how[0] == 'v' ? vfork() : fork();
		if (pid)
			return end_like(pid);
		execv(argv[0], argv);
		_exit(123);
	}
	return 124;
}
