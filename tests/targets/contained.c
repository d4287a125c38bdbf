/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program in a container does that concerns its process 1.
 *
 *   contained status N    exits with N
 *   contained term        says "ready", exits with 42 on SIGTERM
 *   contained orphans N   leaves N orphans behind, and exits 0 when somebody has waited for
 *                         all of them
 *   contained forever     says "ready" and allocates until it is killed
 */
#include "ledger.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

enum { ORPHANS_MAX = 64, WATCHDOG_S = 50 };

static volatile sig_atomic_t asked;

static void on_term(int signal)
{
	(void)signal;
	asked = 1;
}

static void doze(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
}

static int wait_for_term(void)
{
	signal(SIGTERM, on_term);
	say("ready\n");
	for (int i = 0; !asked && i < WATCHDOG_S * 1000; i++)
		doze();
	return asked ? 42 : 4;
}

/* The child's child outlives it, so it is process 1's. */
static pid_t make_orphan(void)
{
	int ends[2];
	pid_t orphan = -1;
	if (pipe(ends))
		return -1;
	pid_t child = fork();
	if (child == 0) {
		orphan = fork();
		if (orphan == 0)
			_exit(0);
		_exit(write(ends[1], &orphan, sizeof orphan) != sizeof orphan);
	}
	waitpid(child, NULL, 0);
	if (read(ends[0], &orphan, sizeof orphan) != sizeof orphan)
		orphan = -1;
	close(ends[0]);
	close(ends[1]);
	return orphan;
}

static int leave_orphans(int count)
{
	pid_t orphans[ORPHANS_MAX];
	count = count < ORPHANS_MAX ? count : ORPHANS_MAX;
	for (int i = 0; i < count; i++)
		orphans[i] = make_orphan();
	for (int tries = 0; tries < WATCHDOG_S * 1000; tries++) {
		int left = 0;
		for (int i = 0; i < count; i++)
			left += kill(orphans[i], 0) == 0;
		if (!left)
			return 0;
		doze();
	}
	return 9;
}

__attribute__((noreturn)) static void forever(void)
{
	say("ready\n");
	for (;;) {
		void *block = malloc(100);
		KEEP(block);
		doze();
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	free(malloc(1000));
	if (!strcmp(mode, "status") && argc > 2)
		return atoi(argv[2]);
	if (!strcmp(mode, "term"))
		return wait_for_term();
	if (!strcmp(mode, "orphans") && argc > 2)
		return leave_orphans(atoi(argv[2]));
	if (!strcmp(mode, "forever"))
		forever();
	return 2;
}
