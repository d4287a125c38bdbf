/* SPDX-License-Identifier: Apache-2.0 */
/* All threads of a child stand still, and run on. */
#include "harness/tap.h"
#include "inject/proc.h"
#include "inject/stop.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"

enum { THREADS = 5 };

static void *spin(void *unused)
{
	for (;;)
		sched_yield();
	return unused;
}

/* Says by a byte when all its threads are there. */
static pid_t start_child(void)
{
	int ends[2];
	char byte;
	REQUIRE(!pipe(ends));
	pid_t child = fork();
	REQUIRE(child >= 0);
	if (!child) {
		pthread_t thread;
		for (int i = 1; i < THREADS; i++)
			pthread_create(&thread, NULL, spin, NULL);
		if (write(ends[1], "r", 1) == 1)
			spin(NULL);
		_exit(1);
	}
	REQUIRE(read(ends[0], &byte, 1) == 1);
	close(ends[0]);
	close(ends[1]);
	return child;
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void block_child_signal(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

/* How many threads are in that state. */
static size_t count_in(pid_t pid, char state)
{
	pid_t *tids = NULL;
	size_t count = 0, found = 0;
	REQUIRE(!proc_threads(pid, &tids, &count));
	for (size_t i = 0; i < count; i++)
		found += proc_thread_state(pid, tids[i]) == state;
	tm_free(tids);
	return found;
}

static bool may_hurry(void)
{
	struct sched_param first = {.sched_priority = 1}, none = {0};
	bool may = !sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first);
	sched_setscheduler(0, SCHED_OTHER, &none);
	return may;
}

static void stops_all(void)
{
	struct stop stop;
	struct tm_error err = {0};
	block_child_signal();
	pid_t child = start_child();
	stop_init(&stop, child, false);
	int error = stop_all(&stop, 0, &err);
	if (error == -EPERM)
		tap_skip("this machine does not let us trace");
	CHECK_EQ_I64(error, 0);
	CHECK_EQ_U64(count_in(child, 't'), THREADS);
	stop_release(&stop);
	CHECK_EQ_U64(count_in(child, 't'), 0);
	stop_done(&stop);
	end_child(child);
}

/* Ahead of everybody while they stand still, and not a moment longer. */
static void hurries_only_while_they_stand(void)
{
	struct stop stop;
	struct tm_error err = {0};
	block_child_signal();
	if (!may_hurry())
		tap_skip("no right to run ahead of others");
	pid_t child = start_child();
	stop_init(&stop, child, false);
	CHECK_EQ_I64(sched_getscheduler(0), SCHED_OTHER);
	int error = stop_all(&stop, 0, &err);
	if (error == -EPERM)
		tap_skip("this machine does not let us trace");
	CHECK_EQ_I64(sched_getscheduler(0) & ~SCHED_RESET_ON_FORK, SCHED_FIFO);
	stop_release(&stop);
	CHECK_EQ_I64(sched_getscheduler(0), SCHED_OTHER);
	stop_done(&stop);
	end_child(child);
	/* Also when there is nothing to stop. */
	stop_init(&stop, child, false);
	CHECK_EQ_I64(stop_all(&stop, 0, &err), -ESRCH);
	CHECK_EQ_I64(sched_getscheduler(0), SCHED_OTHER);
	stop_done(&stop);
}

static void repairs_results(void)
{
	const uint64_t interrupted = (uint64_t)-EINTR, again = (uint64_t)-514;
	CHECK_EQ_U64(stop_repair_result(SYS_epoll_wait, interrupted), again);
	CHECK_EQ_U64(stop_repair_result(SYS_epoll_wait, 0), 0);
	CHECK_EQ_U64(stop_repair_result(SYS_read, (uint64_t)-512), (uint64_t)-512);
	CHECK_EQ_U64(stop_repair_result(SYS_read, (uint64_t)-EAGAIN), (uint64_t)-EAGAIN);
	/* Not in a system call: that is a value of the program's. */
	CHECK_EQ_U64(stop_repair_result((uint64_t)-1, interrupted), interrupted);
}

static const struct tap_case cases[] = {
	{.name = "no thread runs while code is changed", .run = stops_all},
	{.name = "threads stand still no longer than they must",
	 .run = hurries_only_while_they_stand},
	{.name = "no system call ends because of us", .run = repairs_results},
};
TAP_MAIN(cases)
