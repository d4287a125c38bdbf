/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that multiply, change their image, and end in every way. Modes:
 *   fork_threads  fork while other threads allocate; threads in the children
 *   fork_plain    children that allocate and end; each writes its own ledger
 *   vfork         children that borrow the memory: their blocks are the parent's
 *   fork_vfork    a child whose first act is a child that borrows its memory
 *   spawn         posix_spawn of this program's mode "leaf"
 *   commands      3 children by system, 4 by popen
 *   exec N        N images after each other; the last writes the ledger
 *   exec_fail     an exec that fails; the program goes on
 *   daemon        leaves the group and the parent behind, then works on
 *   grow          allocates and touches memory until it is killed
 *   end HOW       exit _exit quick_exit abort segv term kill thread_exit
 */
#define LEDGER_THREADS
#include "ledger.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;
static const char *self;
static volatile int *volatile nowhere = (volatile int *)8;

LEDGER_SITE(parent_malloc);
LEDGER_SITE(child_malloc);

SITE void *parent_malloc(size_t n)
{
	return ledger_alloc(&parent_malloc_site, malloc(n), n);
}

SITE void *child_malloc(size_t n)
{
	return ledger_alloc(&child_malloc_site, malloc(n), n);
}

static void parent_work(size_t rounds)
{
	for (size_t i = 1; i <= rounds; i++) {
		void *kept = parent_malloc(i % 50);
		void *gone = parent_malloc(i % 300);
		ledger_free(&parent_malloc_site, gone, i % 300);
		free(gone);
		KEEP(kept);
	}
}

static void child_work(size_t rounds)
{
	for (size_t i = 1; i <= rounds; i++) {
		void *kept = child_malloc(i);
		void *gone = child_malloc(2 * i);
		ledger_free(&child_malloc_site, gone, 2 * i);
		free(gone);
		KEEP(kept);
	}
}

static void wait_for(pid_t child)
{
	int status = 0;
	check(child > 0 && waitpid(child, &status, 0) == child, "no child");
	check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child failed");
}

static volatile int stop;

static void *parent_thread(void *arg)
{
	for (int i = 0; i < 10000 && !stop; i++)
		parent_work(10);
	return arg;
}

static void *child_thread(void *arg)
{
	child_work(200);
	return arg;
}

static void forked_with_threads(void)
{
	pthread_t threads[2];
	for (int i = 0; i < 2; i++)
		check(!pthread_create(&threads[i], NULL, child_thread, NULL), "no thread");
	child_work(200);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

static void mode_fork_threads(void)
{
	pthread_t threads[3];
	for (int i = 0; i < 3; i++)
		check(!pthread_create(&threads[i], NULL, parent_thread, NULL), "no thread");
	for (int i = 0; i < 20; i++) {
		pid_t child = fork();
		if (child == 0) {
			forked_with_threads();
			_exit(0);
		}
		parent_work(50);
		wait_for(child);
	}
	stop = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

static void mode_fork_plain(void)
{
	parent_work(100);
	for (int i = 0; i < 3; i++) {
		char suffix[] = ".child0";
		suffix[6] = (char)('0' + i);
		pid_t child = fork();
		if (child == 0) {
			ledger_open(suffix);
			child_work(100 * (size_t)(i + 1));
			ledger_print("child", LEDGER_FUZZY);
			exit(i);
		}
		int status = 0;
		check(waitpid(child, &status, 0) == child, "no child");
		check(WIFEXITED(status) && WEXITSTATUS(status) == i, "a child failed");
		parent_work(10);
	}
}

SITE void vfork_and_exit(void)
{
	pid_t child = vfork();
	if (child == 0) {
		child_work(5);
		_exit(0);
	}
	wait_for(child);
}

SITE void vfork_and_exec(void)
{
	pid_t child = vfork();
	if (child == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(9);
	}
	wait_for(child);
}

static void mode_vfork(void)
{
	for (volatile int i = 0; i < 50; i++) {
		parent_work(3);
		vfork_and_exit();
		vfork_and_exec();
	}
	parent_work(20);
}

static void mode_fork_vfork(void)
{
	parent_work(10);
	pid_t child = fork();
	if (child == 0) {
		vfork_and_exec();
		child_work(100);
		exit(0);
	}
	wait_for(child);
}

static void mode_spawn(void)
{
	for (int i = 0; i < 10; i++) {
		pid_t child = 0;
		char *arguments[] = {(char *)self, "leaf", NULL};
		parent_work(5);
		check(!posix_spawn(&child, self, NULL, NULL, arguments, environ), "no spawn");
		wait_for(child);
	}
	parent_work(20);
}

static void mode_commands(void)
{
	for (int i = 0; i < 3; i++)
		check(system("exit 5") == 5 << 8, "no system");
	check(system(NULL), "no shell");
	for (int i = 0; i < 4; i++) {
		FILE *stream = popen("exit 6", "r");
		check(stream && pclose(stream) == 6 << 8, "no popen");
	}
}

/* The exec family, one form per image. */
static void exec_form(long form, const char *text)
{
	char *arguments[] = {(char *)self, "exec", (char *)text, NULL};
	switch (form) {
	case 0:
		execl(self, self, "exec", text, (char *)NULL);
		break;
	case 1:
		execlp(self, self, "exec", text, (char *)NULL);
		break;
	case 2:
		execle(self, self, "exec", text, (char *)NULL, environ);
		break;
	case 3:
		execv(self, arguments);
		break;
	case 4:
		execvp(self, arguments);
		break;
	case 5:
		execvpe(self, arguments, environ);
		break;
	case 6:
		execve(self, arguments, environ);
		break;
	default:
		fexecve(open(self, O_RDONLY | O_CLOEXEC), arguments, environ);
	}
}

/* Each image allocates as often as images are still to come, then the next takes over. */
static void mode_exec(const char *count)
{
	long left = atol(count);
	char text[] = "0";
	parent_work(100 * (size_t)(left + 1));
	if (left == 0)
		return;
	text[0] = (char)('0' + left - 1);
	exec_form(left - 1, text);
	check(0, "exec failed");
}

static void mode_exec_fail(void)
{
	parent_work(10);
	for (int i = 0; i < 5; i++) {
		check(execl("/nonexistent/program", "x", (char *)NULL) < 0, "exec worked");
		parent_work(10);
	}
}

/* The parent ends at once; the ledger is the daemon's. */
static void mode_daemon(void)
{
	parent_work(100);
	if (fork() > 0)
		_exit(0);
	setsid();
	if (fork() > 0)
		_exit(0);
	child_work(2000);
}

static void mode_grow(void)
{
	for (;;) {
		char *block = parent_malloc(1 << 20);
		check(block != NULL, "out of memory before the limit");
		memset(block, 1, 1 << 20);
	}
}

static void mode_end(const char *how)
{
	parent_work(50);
	/* pthread_exit() loads a library, which allocates. */
	ledger_print(how, strcmp(how, "thread_exit") ? LEDGER_EXACT : 0);
	if (!strcmp(how, "exit"))
		exit(3);
	else if (!strcmp(how, "_exit"))
		_exit(4);
	else if (!strcmp(how, "quick_exit"))
		quick_exit(5);
	else if (!strcmp(how, "abort"))
		abort();
	else if (!strcmp(how, "segv"))
		*nowhere = 1;
	else if (!strcmp(how, "term"))
		raise(SIGTERM);
	else if (!strcmp(how, "kill"))
		kill(getpid(), SIGKILL);
	else if (!strcmp(how, "thread_exit"))
		pthread_exit(NULL);
	check(0, "usage: process end HOW");
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	self = argv[0];
	if (!strcmp(mode, "leaf")) {
		child_work(7);
		return 0;
	}
	ledger_open("");
	if (!strcmp(mode, "end"))
		mode_end(argc > 2 ? argv[2] : "");
	else if (!strcmp(mode, "fork_threads"))
		mode_fork_threads();
	else if (!strcmp(mode, "fork_plain"))
		mode_fork_plain();
	else if (!strcmp(mode, "fork_vfork"))
		mode_fork_vfork();
	else if (!strcmp(mode, "vfork"))
		mode_vfork();
	else if (!strcmp(mode, "spawn"))
		mode_spawn();
	else if (!strcmp(mode, "commands"))
		mode_commands();
	else if (!strcmp(mode, "exec"))
		mode_exec(argc > 2 ? argv[2] : "0");
	else if (!strcmp(mode, "exec_fail"))
		mode_exec_fail();
	else if (!strcmp(mode, "daemon"))
		mode_daemon();
	else if (!strcmp(mode, "grow"))
		mode_grow();
	else
		check(0, "usage: process MODE");
	ledger_print(mode, strcmp(mode, "fork_threads") ? LEDGER_EXACT : 0);
	return 0;
}
