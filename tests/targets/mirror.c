/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what a program can see of its surroundings: environment, arguments,
 * process group, session, terminal, descriptors, signals, limits. Run with and
 * without the profiler the output must be the same, but for the environment
 * variables of the profiler. Pids are printed as relations, not as numbers.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static void show_signals(void)
{
	for (int i = 1; i < NSIG; i++) {
		struct sigaction action;
		if (sigaction(i, NULL, &action) == 0)
			printf("signal %d %s %x\n", i,
			       action.sa_handler == SIG_DFL   ? "default"
			       : action.sa_handler == SIG_IGN ? "ignored"
							      : "handled",
			       (unsigned)action.sa_flags);
	}
	sigset_t mask;
	sigprocmask(SIG_BLOCK, NULL, &mask);
	for (int i = 1; i < NSIG; i++)
		if (sigismember(&mask, i) == 1)
			printf("blocked %d\n", i);
}

static void show_descriptors(void)
{
	for (int fd = 0; fd < 256; fd++) {
		struct stat st;
		if (fstat(fd, &st) == 0)
			printf("fd %d type %o flags %x access %x\n", fd, st.st_mode & S_IFMT,
			       (unsigned)fcntl(fd, F_GETFD), (unsigned)fcntl(fd, F_GETFL));
	}
}

static void show_limits(void)
{
	for (int i = 0; i < (int)RLIM_NLIMITS; i++) {
		struct rlimit limit;
		if (getrlimit((__rlimit_resource_t)i, &limit) == 0)
			printf("limit %d %llu %llu\n", i, (unsigned long long)limit.rlim_cur,
			       (unsigned long long)limit.rlim_max);
	}
}

int main(int argc, char **argv)
{
	mode_t mask = umask(0);
	char name[32] = "", folder[4096] = "", link[4096] = "";
	umask(mask);
	prctl(PR_GET_NAME, name);
	if (!getcwd(folder, sizeof folder) || readlink("/proc/self/exe", link, sizeof link - 1) < 0)
		return 1;
	for (int i = 0; i < argc; i++)
		printf("argument %d '%s'\n", i, argv[i]);
	for (char **at = environ; *at; at++)
		printf("env %s\n", *at);
	printf("name %s\nfolder %s\nexe %s\numask %o\n", name, folder, link, (unsigned)mask);
	printf("group leader %d session leader %d foreground %d\n", getpgrp() == getpid(),
	       getsid(0) == getpid(), tcgetpgrp(0) == getpgrp());
	printf("group %d session %d\n", (int)getpgrp(), (int)getsid(0));
	printf("nice %d dumpable %d no_new_privs %d tsc %d\n", getpriority(PRIO_PROCESS, 0),
	       prctl(PR_GET_DUMPABLE), prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 0);
	int death = -1;
	prctl(PR_GET_PDEATHSIG, &death);
	printf("death signal %d tty %d%d%d\n", death, isatty(0), isatty(1), isatty(2));
	printf("uid %d %d gid %d %d\n", getuid(), geteuid(), getgid(), getegid());
	show_signals();
	show_descriptors();
	show_limits();
	return 0;
}
