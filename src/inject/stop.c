/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/stop.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "inject/proc.h"

enum {
	DEADLINE_NS = 20 * 1000 * 1000, /* longer no thread stands still for others */
	STEP_NS = 1000 * 1000,
	RESTART_UNLESS_HANDLED = 514, /* the kernel's ERESTARTNOHAND */
	LAST_STEPS = 200,
};
#define PATIENCE_NS (15 * 1000000000ull) /* in which nothing stands still */

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

void stop_init(struct stop *stop, pid_t pid, bool suspend_seccomp)
{
	*stop = (struct stop){.pid = pid, .suspend_seccomp = suspend_seccomp};
}

uint64_t stop_repair_result(uint64_t number, uint64_t result)
{
	return (int64_t)number >= 0 && (int64_t)result == -EINTR
		       ? (uint64_t) - (int64_t)RESTART_UNLESS_HANDLED
		       : result;
}

struct stop_thread *stop_find(struct stop *stop, pid_t tid)
{
	for (size_t i = 0; i < stop->count; i++)
		if (stop->threads[i].tid == tid && !stop->threads[i].gone)
			return &stop->threads[i];
	return NULL;
}

/* ---- running ahead ---- */

/*
 * Only while threads stand still: else we lose the processor to those we have
 * not stopped yet. Without the right to it, it goes without.
 */
static void run_ahead(struct stop *stop)
{
	struct sched_param first = {.sched_priority = 1}, old = {0};
	if (stop->ahead)
		return;
	stop->old_policy = sched_getscheduler(0);
	sched_getparam(0, &old);
	stop->old_priority = old.sched_priority;
	stop->ahead = !sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first);
}

static void run_as_before(struct stop *stop)
{
	struct sched_param old = {.sched_priority = stop->old_priority};
	if (stop->ahead)
		sched_setscheduler(0, stop->old_policy & ~SCHED_RESET_ON_FORK, &old);
	stop->ahead = false;
}

/* ---- threads ---- */

static struct stop_thread *add(struct stop *stop, pid_t tid)
{
	if (stop->count == stop->room) {
		size_t room = stop->room ? stop->room * 2 : 64;
		struct stop_thread *grown = tm_grow_array(stop->threads, room, sizeof *grown);
		if (!grown)
			return NULL;
		stop->threads = grown;
		stop->room = room;
	}
	struct stop_thread *thread = &stop->threads[stop->count++];
	*thread = (struct stop_thread){.tid = tid};
	return thread;
}

static bool has_ended(pid_t pid, pid_t tid)
{
	char state = proc_thread_state(pid, tid);
	return state == 0 || strchr("ZXx", state) != NULL;
}

int stop_seize(struct stop *stop, pid_t tid, struct tm_error *err)
{
	unsigned long options = stop->suspend_seccomp ? PTRACE_O_SUSPEND_SECCOMP : 0;
	if (stop_find(stop, tid))
		return 0;
	options |= PTRACE_O_TRACESYSGOOD;
	if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)options)) {
		int error = -errno;
		if (error == -ESRCH || has_ended(stop->pid, tid))
			return -ESRCH;
		return tm_fail(err, error, "cannot trace thread %d of process %d: %s", (int)tid,
			       (int)stop->pid, strerror(-error));
	}
	return add(stop, tid) ? 0 : tm_fail(err, -ENOMEM, "out of memory");
}

static void resume(struct stop_thread *thread, int signal)
{
	thread->stopped = false;
	if (ptrace(thread->job && !signal ? PTRACE_LISTEN : PTRACE_CONT, thread->tid, NULL,
		   (void *)(intptr_t)signal) &&
	    errno == ESRCH)
		thread->gone = true;
}

/* The registers as they must be when it goes on. */
static void take_registers(struct stop_thread *thread)
{
	struct user_regs_struct *regs = &thread->registers;
	if (ptrace(PTRACE_GETREGS, thread->tid, NULL, regs)) {
		thread->gone = errno == ESRCH;
		return;
	}
	uint64_t repaired = stop_repair_result(regs->orig_rax, regs->rax);
	if (repaired != regs->rax) {
		regs->rax = repaired;
		ptrace(PTRACE_SETREGS, thread->tid, NULL, regs);
	}
}

/*
 * Something happened to a thread that was asked to stop. A signal that was on
 * its way to the thread is delivered; the stop comes after it.
 */
static void take_event(struct stop_thread *thread, int status)
{
	if (!WIFSTOPPED(status)) {
		thread->gone = true;
		return;
	}
	bool is_stop = status >> 16 == PTRACE_EVENT_STOP;
	take_registers(thread);
	thread->job = is_stop && WSTOPSIG(status) != SIGTRAP && (thread->asked || !thread->works);
	if (is_stop && thread->asked) {
		thread->stopped = true;
		thread->asked = false;
		return;
	}
	resume(thread, status >> 16 ? 0 : WSTOPSIG(status) & 0x7f);
}

/* What has happened to it since. Has it yet to stop? */
static bool look_at(struct stop_thread *thread)
{
	int status;
	while (!thread->gone && !thread->stopped) {
		pid_t got = waitpid(thread->tid, &status, __WALL | WNOHANG);
		if (got == thread->tid)
			take_event(thread, status);
		else if (got < 0)
			thread->gone = true;
		else
			break;
	}
	return !thread->gone && !thread->stopped && thread->asked;
}

/* The same for all. Returns how many threads have yet to stop. */
static size_t look(struct stop *stop)
{
	size_t outstanding = 0;
	for (size_t i = 0; i < stop->count; i++)
		outstanding += look_at(&stop->threads[i]);
	return outstanding;
}

/* Until a child or a traced thread changes its state, or the time is over. */
static void wait_for_change(uint64_t at_most_ns)
{
	sigset_t child;
	struct timespec length = {.tv_sec = (time_t)(at_most_ns / 1000000000u),
				  .tv_nsec = (long)(at_most_ns % 1000000000u)};
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigtimedwait(&child, NULL, &length);
}

/*
 * One after the other, so that each is asked about once or twice, not with each
 * change of any other: they stop at the same time all the same.
 */
static size_t wait_until(struct stop *stop, uint64_t end_ns)
{
	for (size_t i = 0; i < stop->count; i++) {
		while (look_at(&stop->threads[i])) {
			uint64_t now = clock_steady_ns();
			if (now >= end_ns)
				return look(stop);
			wait_for_change(end_ns - now < STEP_NS ? end_ns - now : STEP_NS);
		}
	}
	return 0;
}

static void ask(struct stop_thread *thread)
{
	if (thread->gone || thread->stopped || thread->asked)
		return;
	if (ptrace(PTRACE_INTERRUPT, thread->tid, NULL, NULL))
		thread->gone = errno == ESRCH;
	else
		thread->asked = true;
}

int stop_one(struct stop *stop, pid_t tid, uint64_t patience_ns, struct tm_error *err)
{
	struct stop_thread *thread = stop_find(stop, tid);
	if (!thread)
		return -ESRCH;
	ask(thread);
	uint64_t end_ns = clock_steady_ns() + (patience_ns ? patience_ns : DEADLINE_NS);
	do {
		if (!look(stop) || thread->stopped || thread->gone)
			break;
		wait_for_change(STEP_NS);
	} while (clock_steady_ns() < end_ns);
	if (thread->gone)
		return -ESRCH;
	if (thread->stopped)
		return 0;
	thread->asked = false; /* when it stops it will be let go */
	return tm_fail(err, -ETIMEDOUT, "thread %d cannot be stopped now", (int)tid);
}

void stop_continue(struct stop *stop, pid_t tid)
{
	struct stop_thread *thread = stop_find(stop, tid);
	if (!thread || !thread->stopped)
		return;
	thread->job = false;
	thread->works = true;
	resume(thread, 0);
}

void stop_resume(struct stop *stop, pid_t tid)
{
	struct stop_thread *thread = stop_find(stop, tid);
	if (!thread || !thread->stopped)
		return;
	thread->works = false;
	resume(thread, 0);
}

void stop_attend(struct stop *stop)
{
	look(stop);
}

/* Seizes threads that are not yet. 1: there were some. */
static int seize_new(struct stop *stop, struct tm_error *err)
{
	pid_t *tids = NULL;
	size_t count = 0, alive = 0;
	int error = proc_threads(stop->pid, &tids, &count), result = 0;
	for (size_t i = 0; !error && i < count; i++) {
		if (stop_find(stop, tids[i])) {
			alive++;
			continue;
		}
		int seized = stop_seize(stop, tids[i], err);
		if (seized == -ESRCH)
			continue;
		error = seized;
		alive++;
		result = 1;
	}
	tm_free(tids);
	if (!error && !alive)
		error = -ESRCH;
	return error ? error : result;
}

static void forget_gone(struct stop *stop)
{
	size_t kept = 0;
	for (size_t i = 0; i < stop->count; i++)
		if (!stop->threads[i].gone)
			stop->threads[kept++] = stop->threads[i];
	stop->count = kept;
}

/* One attempt. 0: all stand still. -EAGAIN: not in time. */
static int attempt(struct stop *stop, struct tm_error *err)
{
	run_ahead(stop);
	stop->attempts++;
	stop->first_ns = clock_steady_ns();
	uint64_t end_ns = stop->first_ns + DEADLINE_NS;
	for (;;) {
		for (size_t i = 0; i < stop->count; i++)
			ask(&stop->threads[i]);
		if (wait_until(stop, end_ns))
			return -EAGAIN;
		forget_gone(stop);
		/* A thread that was made meanwhile by one that had yet to stop. */
		int added = seize_new(stop, err);
		if (added < 0)
			return added;
		if (!added)
			return 0;
	}
}

/* Nothing stands still, but what was asked is still to come. */
static void let_run(struct stop *stop)
{
	for (size_t i = 0; i < stop->count; i++)
		if (stop->threads[i].stopped && !stop->threads[i].gone)
			resume(&stop->threads[i], 0);
	run_as_before(stop);
	stop->pause_ns = clock_steady_ns() - stop->first_ns;
}

/* Until those that were late have come, each for itself; nobody waits for them. */
static void wait_for_late(struct stop *stop, uint64_t end_ns)
{
	while (look(stop) && clock_steady_ns() < end_ns) {
		for (size_t i = 0; i < stop->count; i++)
			if (stop->threads[i].stopped && !stop->threads[i].gone)
				resume(&stop->threads[i], 0);
		wait_for_change(STEP_NS);
	}
}

static pid_t straggler(const struct stop *stop)
{
	for (size_t i = 0; i < stop->count; i++)
		if (!stop->threads[i].gone && !stop->threads[i].stopped)
			return stop->threads[i].tid;
	return 0;
}

int stop_all(struct stop *stop, uint64_t patience_ns, struct tm_error *err)
{
	uint64_t end_ns = clock_steady_ns() + (patience_ns ? patience_ns : PATIENCE_NS);
	stop->attempts = 0;
	int error = seize_new(stop, err);
	if (error < 0) {
		stop_release(stop);
		return error;
	}
	for (;;) {
		error = attempt(stop, err);
		if (!error)
			return 0;
		pid_t late = straggler(stop);
		let_run(stop);
		if (error == -EAGAIN && clock_steady_ns() < end_ns) {
			wait_for_late(stop, end_ns);
			continue;
		}
		stop_release(stop);
		if (error != -EAGAIN)
			return error;
		return tm_fail(err, -ETIMEDOUT,
			       "thread %d of process %d cannot be stopped: it waits for the kernel "
			       "(a vfork, a disk, a network file system); try again later",
			       (int)late, (int)stop->pid);
	}
}

int stop_set_pc(struct stop *stop, struct stop_thread *thread, uint64_t pc)
{
	(void)stop;
	thread->registers.rip = pc;
	if (ptrace(PTRACE_SETREGS, thread->tid, NULL, &thread->registers))
		return -errno;
	return 0;
}

static void detach(struct stop_thread *thread)
{
	if (!thread->gone && thread->stopped)
		ptrace(PTRACE_DETACH, thread->tid, NULL, NULL);
	thread->gone = thread->gone || thread->stopped;
}

void stop_release(struct stop *stop)
{
	for (size_t i = stop->count; i-- > 0;)
		detach(&stop->threads[i]);
	if (stop->first_ns)
		stop->pause_ns = clock_steady_ns() - stop->first_ns;
	run_as_before(stop);
	forget_gone(stop);
	for (int i = 0; !stop_settle(stop) && i < LAST_STEPS; i++)
		wait_for_change(STEP_NS);
}

bool stop_settle(struct stop *stop)
{
	/* Those that run can only be let go while they stand still. */
	for (size_t i = 0; i < stop->count; i++)
		ask(&stop->threads[i]);
	look(stop);
	for (size_t i = 0; i < stop->count; i++)
		detach(&stop->threads[i]);
	forget_gone(stop);
	return !stop->count;
}

void stop_done(struct stop *stop)
{
	stop_release(stop);
	tm_free(stop->threads);
	*stop = (struct stop){0};
}
