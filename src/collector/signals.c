/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals. Everything that is sent to us is passed on to the program. What the
 * terminal sends (Ctrl-C, Ctrl-Z) reaches the program by itself, because it is
 * in our process group; delivering it again would make it two. So does what
 * anybody sends to the whole group: the witness knows. When the
 * terminal stops the program we stop, too, so that the shell sees its job
 * stopped; when we are continued, so is it.
 */
#include "collector/session.h"

#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "collector/procfs.h"

static bool shares_group(const struct session *session)
{
	return getpgid(session->launch.pid) == getpgrp();
}

/* Did the kernel send it to the whole foreground group, the program included? */
static bool from_terminal(const struct session *session, const struct signalfd_siginfo *info)
{
	return info->ssi_code == SI_KERNEL && shares_group(session);
}

/*
 * Whoever continues us most often means the whole group, the program included:
 * it is told only if it has not heard.
 */
static void continue_program(const struct session *session)
{
	const struct timespec moment = {.tv_nsec = 5 * 1000 * 1000};
	if (shares_group(session))
		nanosleep(&moment, NULL);
	if (procfs_is_stopped(session->launch.pid))
		kill(session->launch.pid, SIGCONT);
}

static void pass_on(struct session *session, const struct signalfd_siginfo *info)
{
	int signal = (int)info->ssi_signo;
	if (session->ended) {
		session->stop_waiting |= signal == SIGINT || signal == SIGTERM ||
					 signal == SIGHUP || signal == SIGQUIT;
		return;
	}
	/* A program that signals its parent does not mean itself. */
	if (from_terminal(session, info) || (pid_t)info->ssi_pid == session->launch.pid)
		return;
	if (info->ssi_code == SI_USER && witness_saw(&session->witness, signal))
		return;
	if (info->ssi_code == SI_QUEUE) {
		union sigval value = {.sival_ptr = (void *)(uintptr_t)info->ssi_ptr};
		sigqueue(session->launch.pid, signal, value);
	} else {
		kill(session->launch.pid, signal);
	}
}

/* Stop as the program has stopped; comes back when we are continued. */
static void stop_likewise(struct session *session, int signal)
{
	const struct timespec now = {0};
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, signal);
	/* Ours from the terminal may still be waiting: it must not stop us a second time. */
	while (sigtimedwait(&set, NULL, &now) > 0)
		;
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(signal);
	sigprocmask(SIG_BLOCK, &set, NULL);
	/* The one that has continued us is answered here, not passed on as well. */
	sigemptyset(&set);
	sigaddset(&set, SIGCONT);
	while (sigtimedwait(&set, NULL, &now) > 0)
		;
	continue_program(session);
}

static void state_changed(struct session *session, int status, const struct rusage *usage)
{
	if (WIFSTOPPED(status)) {
		int signal = WSTOPSIG(status);
		/* SIGSTOP is somebody's business with the program alone. */
		if (signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU)
			stop_likewise(session, signal);
		return;
	}
	session->ended = true;
	session->wait_status = status;
	uint64_t peak_bytes = (uint64_t)usage->ru_maxrss * 1024;
	if (peak_bytes > session->own_rss_bytes)
		session->peak_rss_bytes = peak_bytes;
}

static bool is_end(const siginfo_t *info)
{
	return info->si_code == CLD_EXITED || info->si_code == CLD_KILLED ||
	       info->si_code == CLD_DUMPED;
}

/*
 * As process 1 all orphans are ours to wait for. The kernel shows stops of those
 * that a thread of ours traces whatever is asked for: they are for that thread,
 * which wakes us when it is done.
 */
static void reap_orphans(const struct session *session)
{
	const int flags = WEXITED | WNOHANG | __WNOTHREAD;
	for (;;) {
		siginfo_t info = {0};
		/* The first process is waited for by itself. */
		if (waitid(P_ALL, 0, &info, flags | WNOWAIT) || !info.si_pid || !is_end(&info) ||
		    (info.si_pid == session->launch.pid && !session->ended) ||
		    waitid(P_PID, (id_t)info.si_pid, &info, flags))
			return;
	}
}

void signals_reap(struct session *session)
{
	int status;
	struct rusage usage;
	/* Its stops are for the thread that enters what it executes. */
	while (!session->ended && !entrants_hold(&session->entrants, session->launch.pid) &&
	       wait4(session->launch.pid, &status, WNOHANG | WUNTRACED | __WNOTHREAD, &usage) > 0)
		state_changed(session, status, &usage);
	if (getpid() == 1)
		reap_orphans(session);
}

/* Beside a program that is not our child: they are for us. */
static void obey(struct session *session, int signal)
{
	session->stop_waiting |=
		signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
	if (signal == SIGUSR1)
		command_rotate(session);
}

void signals_handle(struct session *session)
{
	struct signalfd_siginfo info;
	while (read(session->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
		if (session->beside)
			obey(session, (int)info.ssi_signo);
		else if (info.ssi_signo == SIGCHLD)
			signals_reap(session);
		else
			pass_on(session, &info);
	}
}
