/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/entrant.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/memory.h"
#include "collector/preflight.h"
#include "collector/procfs.h"
#include "inject/enter.h"
#include "inject/proc.h"

enum {
	ASK_MS = 2000,        /* for the rest of the question */
	STEP_NS = 100 * 1000, /* between two looks */
	STEP_MAX_NS = 5 * 1000 * 1000,
	PATIENCE_S = 60, /* then it is let go as it is */
};

#define NANOSECONDS 1000000000ull

struct entrant {
	struct entrant *next;
	const struct entrant_options *options;
	struct rendezvous_peer peer;
	pid_t told; /* whose trace is to say what went wrong */
	int done_fd;
	pthread_t thread;
	bool joined; /* main thread */
	_Atomic bool over;
	_Atomic bool unwanted; /* set by the main thread: let it go as it is */
	/* Set by the thread before it lets the program go on. */
	_Atomic pid_t entered; /* the process that was; 0: none */
	_Atomic bool failed;   /* problem says why; false again when that was told */
	bool started;          /* a child was, which will execute the program */
	char program[sizeof((struct wire_ask *)0)->program];
	enum wire_unfit unfit; /* why it is not to be entered */
	char unhooked[PATCHING_UNHOOKED_BYTES];
	struct tm_error problem;
};

/* ---- the thread ---- */

static bool await_readable(int fd, int timeout_ms)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	return poll(&poll_fd, 1, timeout_ms) > 0;
}

static bool read_ask(struct entrant *entrant)
{
	struct wire_ask ask = {0};
	size_t got = 0;
	while (got < sizeof ask) {
		ssize_t bytes =
			await_readable(entrant->peer.fd, ASK_MS)
				? read(entrant->peer.fd, (char *)&ask + got, sizeof ask - got)
				: -1;
		if (bytes <= 0)
			return false;
		got += (size_t)bytes;
	}
	ask.program[sizeof ask.program - 1] = '\0';
	memcpy(entrant->program, ask.program, sizeof entrant->program);
	entrant->unfit = (enum wire_unfit)ask.unfit;
	return true;
}

/* why: about the program, which is its subject. */
static void fail(struct entrant *entrant, const char *why)
{
	tm_fail(&entrant->problem, -EPERM, "Not recorded: %s", why);
	atomic_store(&entrant->failed, true);
}

/* The agent saw that the program will not be recorded. */
static void fail_unfit(struct entrant *entrant)
{
	static const char *const reasons[] = {
		[WIRE_UNFIT_NOT] = "for a reason that this version does not know",
		[WIRE_UNFIT_32_BIT] = "it is a 32-bit program, and this version records x86-64 "
				      "programs only: build it for x86-64",
		[WIRE_UNFIT_FOREIGN] = "it is a foreign program, and this version records x86-64 "
				       "programs only",
		[WIRE_UNFIT_PRIVILEGED] =
			"it is setuid, setgid or has file capabilities, so the loader refuses the "
			"agent: run it as the user it changes to, or a copy without these rights",
		[WIRE_UNFIT_NO_AGENT] = "the agent's file is not there in its root folder: put it "
					"there, under the same path",
	};
	char why[400];
	size_t known = sizeof reasons / sizeof reasons[0];
	snprintf(why, sizeof why, "'%.80s': %s", entrant->program,
		 reasons[entrant->unfit < known ? entrant->unfit : WIRE_UNFIT_NOT]);
	fail(entrant, why);
}

/* The thread that asked, as we see it; 0: gone. */
static pid_t find_thread(const struct entrant *entrant)
{
	pid_t pid = entrant->peer.pid, inner = (pid_t)entrant->peer.hello.pid, found = 0;
	pid_t *tids = NULL;
	size_t count = 0;
	if (proc_threads(pid, &tids, &count))
		return 0;
	for (size_t i = 0; i < count && !found; i++) {
		struct proc_status status;
		if (!proc_status_read(tids[i], &status) &&
		    (status.inner ? status.inner : tids[i]) == inner)
			found = tids[i];
	}
	tm_free(tids);
	return found;
}

static bool seize(struct entrant *entrant)
{
	long options = PTRACE_O_TRACEEXEC;
	char why[400];
	if (entrant->peer.hello.forked == WIRE_HELLO_SPAWN)
		options |= PTRACE_O_TRACEVFORK | PTRACE_O_TRACEFORK | PTRACE_O_TRACECLONE;
	pid_t tid = find_thread(entrant);
	if (tid && !ptrace(PTRACE_SEIZE, tid, NULL, (void *)options))
		return true;
	snprintf(why, sizeof why,
		 "'%.80s' is statically linked and could only be entered by ptrace, which is "
		 "forbidden here (%s): allow it (in a container: --cap-add SYS_PTRACE), or link it "
		 "dynamically",
		 entrant->program, strerror(tid ? errno : ESRCH));
	fail(entrant, why);
	return false;
}

/* Its path where that leads to it from here, too; else where the kernel shows it. */
static void name_program(pid_t pid, char *ret, size_t room)
{
	char link[64];
	struct stat here, there;
	snprintf(link, sizeof link, "/proc/%d/exe", (int)pid);
	ssize_t bytes = readlink(link, ret, room - 1);
	ret[bytes > 0 ? bytes : 0] = '\0';
	if (stat(ret, &here) || stat(link, &there) || here.st_ino != there.st_ino ||
	    here.st_dev != there.st_dev)
		snprintf(ret, room, "%s", link);
}

static void fail_filtered(struct entrant *entrant)
{
	char why[400];
	snprintf(why, sizeof why,
		 "'%.80s' is statically linked, and a seccomp filter that it was started with may "
		 "forbid what entering it takes: start it without, or link it dynamically",
		 entrant->program);
	fail(entrant, why);
}

/* It stands at its first instruction. */
static void enter(struct entrant *entrant, pid_t pid)
{
	struct enter_options options = {.pid = pid,
					.agent_path = entrant->options->agent_path,
					.hooks = entrant->options->hooks};
	struct preflight facts;
	struct tm_error err = {0};
	char path[4096];
	/* Its maker's agent may not know, and what the filter does to our calls nobody does. */
	if (procfs_seccomp_added(pid)) {
		fail_filtered(entrant);
		return;
	}
	name_program(pid, path, sizeof path);
	enum preflight_verdict verdict = preflight_check(path, options.hooks, &facts, &err);
	if (verdict != PREFLIGHT_GOOD) {
		fail(entrant, err.text);
	} else if (facts.is_static) {
		memcpy(entrant->unhooked, facts.unhooked, sizeof entrant->unhooked);
		if (enter_program(&options, &err))
			fail(entrant, err.text); /* "cannot enter the program: ..." */
		else
			atomic_store(&entrant->entered, pid);
	}
	preflight_done(&facts);
}

/* False: all that there was to see has been. */
static bool handle_stop(struct entrant *entrant, pid_t pid, int stop)
{
	int event = stop >> 8, signal = stop & 0xff;
	if (event == PTRACE_EVENT_EXEC) {
		enter(entrant, pid);
		ptrace(PTRACE_DETACH, pid, NULL, NULL);
		return false;
	}
	entrant->started |= event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_FORK ||
			    event == PTRACE_EVENT_CLONE;
	if (event == PTRACE_EVENT_STOP && signal != SIGTRAP)
		ptrace(PTRACE_LISTEN, pid, NULL, NULL);
	else
		ptrace(PTRACE_CONT, pid, NULL, (void *)(long)(event ? 0 : signal));
	return true;
}

/* What the traced ones do. False: it is over. */
static bool handle_events(struct entrant *entrant, bool *ret_any)
{
	const int flags = WNOHANG | __WALL | __WNOTHREAD;
	for (;;) {
		siginfo_t info = {0}, stop = {0};
		/* An end is left to whoever waits for the process. */
		if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOWAIT | flags))
			return errno == EINTR;
		if (!info.si_pid)
			return true;
		*ret_any = true;
		if (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED ||
		    info.si_code == CLD_DUMPED)
			return false;
		/* Stops only: it may have been killed since. */
		if (waitid(P_PID, (id_t)info.si_pid, &stop, WSTOPPED | flags))
			return false;
		if (stop.si_pid && !handle_stop(entrant, stop.si_pid, stop.si_status))
			return false;
	}
}

/* Until the program is there, or the agent says that there is none. */
static void follow(struct entrant *entrant)
{
	uint64_t end = clock_steady_ns() + PATIENCE_S * NANOSECONDS, step = STEP_NS;
	bool connected = true;
	while (clock_steady_ns() < end && !atomic_load(&entrant->unwanted)) {
		bool any = false;
		char byte;
		if (!handle_events(entrant, &any))
			return;
		step = any ? STEP_NS : step < STEP_MAX_NS ? step + step / 4 : step;
		const struct timespec pause = {.tv_nsec = (long)step};
		struct pollfd poll_fd = {.fd = connected ? entrant->peer.fd : -1, .events = POLLIN};
		if (ppoll(&poll_fd, 1, &pause, NULL) <= 0)
			continue;
		if (read(entrant->peer.fd, &byte, 1) == 1 && !entrant->started)
			return;    /* it has failed */
		connected = false; /* the execution is on its way */
	}
}

static void *run(void *ctx)
{
	struct entrant *entrant = ctx;
	uint64_t one = 1;
	bool asked = read_ask(entrant);
	if (asked && entrant->unfit != WIRE_UNFIT_NOT)
		fail_unfit(entrant);
	if (asked && entrant->unfit == WIRE_UNFIT_NOT && seize(entrant)) {
		rendezvous_consent(&entrant->peer);
		follow(entrant);
		close(entrant->peer.fd);
	} else {
		rendezvous_answer(&entrant->peer, -1);
	}
	atomic_store(&entrant->over, true);
	int ignored = io_write(entrant->done_fd, &one, sizeof one);
	(void)ignored; /* full: it is readable */
	return NULL;
}

/* ---- main thread ---- */

void entrants_init(struct entrants *entrants)
{
	*entrants = (struct entrants){.done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
}

void entrants_done(struct entrants *entrants)
{
	while (entrants->first) {
		struct entrant *entrant = entrants->first;
		entrants->first = entrant->next;
		atomic_store(&entrant->unwanted, true);
		if (!entrant->joined)
			pthread_join(entrant->thread, NULL);
		tm_free(entrant);
	}
	if (entrants->done_fd >= 0)
		close(entrants->done_fd);
	entrants->done_fd = -1;
}

void entrants_add(struct entrants *entrants, struct rendezvous_peer *peer, pid_t told,
		  const struct entrant_options *options)
{
	struct entrant *entrant = entrants->done_fd < 0 ? NULL : tm_alloc(sizeof *entrant);
	if (entrant) {
		*entrant = (struct entrant){.next = entrants->first,
					    .options = options,
					    .peer = *peer,
					    .told = told,
					    .done_fd = entrants->done_fd};
		if (pthread_create(&entrant->thread, NULL, run, entrant))
			entrant = tm_free(entrant);
	}
	if (!entrant) {
		rendezvous_answer(peer, -1);
		return;
	}
	entrants->first = entrant;
	peer->fd = -1;
}

bool entrants_hold(const struct entrants *entrants, pid_t pid)
{
	for (const struct entrant *e = entrants->first; e; e = e->next)
		if (e->peer.pid == pid && !atomic_load(&e->over))
			return true;
	return false;
}

void entrants_unhooked(struct entrants *entrants, pid_t pid, char ret[PATCHING_UNHOOKED_BYTES])
{
	for (struct entrant *e = entrants->first; e; e = e->next)
		if (atomic_load(&e->entered) == pid) {
			memcpy(ret, e->unhooked, sizeof e->unhooked);
			return; /* the latest is first */
		}
}

/* Another program has taken the place of what was entered, or none has. */
static bool is_gone(const struct entrants *entrants, const struct entrant *entrant)
{
	pid_t pid = atomic_load(&entrant->entered);
	for (const struct entrant *e = entrants->first; e != entrant; e = e->next)
		if (atomic_load(&e->entered) == pid)
			return true;
	return !pid || (kill(pid, 0) && errno == ESRCH);
}

static void join_over(struct entrants *entrants)
{
	for (struct entrant *e = entrants->first; e; e = e->next) {
		if (!e->joined && atomic_load(&e->over)) {
			pthread_join(e->thread, NULL);
			e->joined = true;
		}
		if (e->joined && *e->unhooked && is_gone(entrants, e))
			*e->unhooked = '\0';
	}
}

/* Those of which there is nothing left to tell. */
static void forget_spent(struct entrants *entrants)
{
	join_over(entrants);
	for (struct entrant **at = &entrants->first; *at;) {
		struct entrant *entrant = *at;
		if (!entrant->joined || atomic_load(&entrant->failed) || *entrant->unhooked) {
			at = &entrant->next;
			continue;
		}
		*at = entrant->next;
		tm_free(entrant);
	}
}

bool entrants_failed(struct entrants *entrants, pid_t *ret_told, struct tm_error *ret)
{
	forget_spent(entrants);
	for (struct entrant *e = entrants->first; e; e = e->next)
		if (atomic_load(&e->failed)) {
			*ret_told = e->told;
			*ret = e->problem;
			atomic_store(&e->failed, false);
			return true;
		}
	return false;
}
