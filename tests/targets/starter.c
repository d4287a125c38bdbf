/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts another program and ends as it did:
 *   starter HOW PROGRAM ARGUMENT...
 * HOW: exec execvp fexecve fork vfork spawn spawnp thread; execfail tries something that cannot be
 * executed first; orphan starts it in a child of process 1, and ends with 0 after it; badenv
 * tries it with an environment that is none first; noenv gives it none; filter forbids by seccomp
 * what starting a program does not take, and forks.
 */
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
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

/* socket and getxattr kill. */
static void filter(void)
{
	const struct {
		unsigned short code;
		unsigned char yes, no;
		unsigned value;
	} program[] = {{0x20, 0, 0, 0}, /* the call's number */
		       {0x15, 2, 0, 41},
		       {0x15, 1, 0, 191},
		       {0x06, 0, 0, 0x7fff0000},
		       {0x06, 0, 0, 0x80000000}};
	const struct {
		unsigned short count;
		const void *program;
	} all = {sizeof program / sizeof program[0], program};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &all, 0, 0))
		exit(119);
}

/* The kernel says EFAULT. The compiler is not to know. */
static void try_bad(char **argv)
{
	char *volatile bad = (char *)16;
	char *volatile none = NULL;
	char *const list[] = {bad, NULL};
	if (execve(argv[0], argv, list) != -1 || execve(argv[0], argv, (char **)bad) != -1 ||
	    execve(none, argv, environ) != -1)
		abort();
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
	if (!strcmp(how, "badenv"))
		try_bad(argv);
	if (!strcmp(how, "noenv"))
		execve(argv[0], argv, NULL);
	if (!strcmp(how, "filter"))
		filter();
	if (!strcmp(how, "exec") || !strcmp(how, "execfail") || !strcmp(how, "badenv"))
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
	if (!strcmp(how, "fork") || !strcmp(how, "vfork") || !strcmp(how, "filter")) {
		pid_t pid = how[0] == 'v' ? vfork() : fork();
		if (pid)
			return end_like(pid);
		execv(argv[0], argv);
		_exit(123);
	}
	return 124;
}
