/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping all threads of a process for some microseconds, and letting them go
 * as if nothing had been.
 *
 *	stop_init(&stop, pid, options);
 *	stop_all(&stop, err)        every thread stands still; its registers are here
 *	...                         stop_set_pc(), writing to its memory
 *	stop_release(&stop)         the last that has changed goes first
 *
 * All calls from one thread: the kernel takes that one for the tracer. A thread
 * that cannot stop at once (in vfork, in uninterruptible sleep) does not keep the
 * others waiting: they run on, seized, until it can.
 */
#pragma once

#include "base/error.h"
#include "inject/steps.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct stop_thread {
	pid_t tid;
	bool stopped; /* else it runs, seized */
	bool gone;
	bool asked; /* an interruption is on its way */
	bool job;   /* it stands still by job control, and must when it is let go */
	bool works; /* it works for us, whatever job control says */
	struct user_regs_struct registers; /* while it is stopped */
};

struct stop {
	pid_t pid;
	bool suspend_seccomp;
	struct stop_thread *threads;
	size_t count, room;
	int old_policy, old_priority; /* of this thread, while it runs ahead of all others */
	bool ahead;
	uint64_t first_ns; /* when the first thread was asked to stop, in this attempt */
	uint64_t pause_ns; /* of the last stop: from then until the last one was let go */
	unsigned attempts;
	struct steps steps; /* for tests */
};

/* suspend_seccomp: filters of the process do not hold while it is traced. */
void stop_init(struct stop *stop, pid_t pid, bool suspend_seccomp);
/* Seizes one thread and nothing else: nobody else can trace the process from now on. */
TM_MUST_CHECK int stop_seize(struct stop *stop, pid_t tid, struct tm_error *err);
/* One seized thread stands still, with its registers. patience_ns 0: some milliseconds. */
TM_MUST_CHECK int stop_one(struct stop *stop, pid_t tid, uint64_t patience_ns,
			   struct tm_error *err);
/* And runs, seized: also where job control has it stand still. */
void stop_continue(struct stop *stop, pid_t tid);
/* As it would without us, seized. */
void stop_resume(struct stop *stop, pid_t tid);
/* Signals to seized threads that run pass by us: to be called every now and then. */
void stop_attend(struct stop *stop);
/* -ESRCH: the process is gone. -ETIMEDOUT: a thread cannot be stopped. Nothing stands still then.
 */
TM_MUST_CHECK int stop_all(struct stop *stop, uint64_t patience_ns, struct tm_error *err);
/* The thread will go on at pc. While it is stopped. */
TM_MUST_CHECK int stop_set_pc(struct stop *stop, struct stop_thread *thread, uint64_t pc);
struct stop_thread *stop_find(struct stop *stop, pid_t tid);
/*
 * Lets all threads go. One that was asked to stop and still cannot (in vfork) is
 * let go when it does: by stop_settle(), to be called until it says true.
 */
void stop_release(struct stop *stop);
bool stop_settle(struct stop *stop);
/* After stop_release(). */
void stop_done(struct stop *stop);

/*
 * A stop makes some system calls fail with EINTR that no signal handler has
 * interrupted (epoll_wait, sigtimedwait, semtimedop, recv with a time-out). The
 * value that has the kernel begin them again instead, unless a handler runs.
 */
uint64_t stop_repair_result(uint64_t number, uint64_t result);
