/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tracer does, step by step: in, and out again. It may be killed after
 * each of them; the block in the process says what is to be undone.
 */
#include "inject/work.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "inject/change.h"
#include "inject/state.h"

enum {
	BUSY_TRIES = 200,
	BUSY_PAUSE_US = 2 * 1000,
	BUSY_STAY = 4, /* then another thread is borrowed */
	LOOK_NS = 500 * 1000 * 1000,
	LOOK_SHARE = 100, /* looking takes at most that part of the time */
};

/* ---- entering ---- */

static int note_collector(struct inject *inject, bool present)
{
	uint32_t pid = present ? (uint32_t)inject->recorder : 0;
	uint64_t start = present ? proc_start_ticks(inject->recorder) : 0;
	int error = session_write(inject, offsetof(struct wire_attach_block, collector_start),
				  &start, sizeof start);
	return error ? error
		     : session_write(inject, offsetof(struct wire_attach_block, collector_pid),
				     &pid, sizeof pid);
}

/* The thread that is in the middle of something may be the very one that was borrowed. */
static int let_them_work(struct inject *inject, int round, struct tm_error *err)
{
	if (round % BUSY_STAY) {
		usleep(BUSY_PAUSE_US);
		return 0;
	}
	remote_return(&inject->remote);
	usleep(BUSY_PAUSE_US);
	return session_borrow(inject, err);
}

/* A thread may still be writing an event of the session before; not for long. */
static int begin(struct inject *inject, int fd, struct tm_error *err)
{
	for (int i = 0; i <= BUSY_TRIES; i++) {
		int64_t result = 0;
		int error = remote_order(&inject->remote, WIRE_ATTACH_BEGIN, (uint64_t)fd,
					 i == BUSY_TRIES, &result, err);
		if (error)
			return error;
		if (result == -EPERM)
			return tm_fail(err, -EPERM,
				       "process %d has forbidden itself to read the time-stamp "
				       "counter (PR_SET_TSC), which the agent needs; start it with "
				       "'tidemark run'",
				       (int)inject->facts.pid);
		if (result != -EBUSY)
			return result ? tm_fail(err, (int)result,
						"the agent cannot begin in process %d: %s (a "
						"limit on its memory?)",
						(int)inject->facts.pid, strerror((int)-result))
				      : 0;
		error = let_them_work(inject, i, err);
		if (error)
			return error;
	}
	return -EBUSY;
}

/* To switch the agent off when the recorder is killed; without it, it finds out by itself. */
static void watch_session(struct inject *inject, const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *page = fd < 0 ? MAP_FAILED
			    : mmap(NULL, sizeof *inject->control, PROT_READ | PROT_WRITE,
				   MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	inject->control = page == MAP_FAILED ? NULL : page;
}

void work_switch_off(struct inject *inject)
{
	struct wire_control *control = inject->control;
	uint32_t none = WIRE_OFF_NONE;
	if (!control)
		return;
	atomic_compare_exchange_strong(&control->off_reason, &none, WIRE_OFF_COLLECTOR_DEAD);
	atomic_store(&control->state, WIRE_OFF);
	syscall(SYS_futex, &control->pool_seq, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* It did not come to a session. The thread may have been given back: then by another. */
static void close_memory(struct inject *inject, int64_t fd)
{
	struct tm_error ignored = {0};
	int64_t result;
	if (!inject->remote.serving && session_borrow(inject, &ignored))
		return;
	if (remote_order(&inject->remote, WIRE_ATTACH_CLOSE, (uint64_t)fd, 0, &result, &ignored))
		return; /* nor does it close anything any more */
}

/* With a thread that serves. */
static int enter(struct inject *inject, inject_fill_fn fill, void *ctx, struct tm_error *err)
{
	struct steps *steps = &inject->stop.steps;
	char name[32], path[64];
	int64_t fd = -1;
	int error = remote_order(&inject->remote, WIRE_ATTACH_OPEN, 0, 0, &fd, err);
	if (!error && fd < 0)
		return tm_fail(err, (int)fd,
			       "process %d cannot open another descriptor, which is needed for a "
			       "moment: %s",
			       (int)inject->facts.pid, strerror((int)-fd));
	if (error)
		return error;
	snprintf(name, sizeof name, "fd/%d", (int)fd);
	proc_path(path, sizeof path, inject->facts.pid, inject->remote.tid, name);
	steps_reach(steps, "opened");
	error = fill(ctx, path, err);
	if (!error)
		watch_session(inject, path);
	steps_reach(steps, "filled");
	if (!error)
		error = islands_map(inject, err);
	steps_reach(steps, "islands");
	if (!error)
		error = begin(inject, (int)fd, err);
	steps_reach(steps, "begun");
	if (error)
		close_memory(inject, fd);
	return error;
}

int work_enter(struct inject *inject, inject_fill_fn fill, void *ctx, struct tm_error *err)
{
	int error = inject->facts.orphan ? change_undo(inject, err) : 0;
	if (error)
		return error;
	uint64_t began = clock_steady_ns();
	error = session_borrow(inject, err);
	if (error)
		return error;
	error = enter(inject, fill, ctx, err);
	remote_return(&inject->remote);
	inject->facts.borrow_ns = clock_steady_ns() - began;
	if (!error && note_collector(inject, true))
		error = tm_fail(err, -ESRCH, "process %d has ended", (int)inject->facts.pid);
	inject->inside = !error;
	steps_reach(&inject->stop.steps, "entered");
	if (error)
		stop_release(&inject->stop);
	return error;
}

int work_patch(struct inject *inject, struct tm_error *err)
{
	int error = islands_note(inject, err);
	steps_reach(&inject->stop.steps, "noted");
	if (!error)
		error = change_do(inject, err);
	stop_release(&inject->stop);
	steps_reach(&inject->stop.steps, "released");
	inject->facts.enter_pause_ns = inject->stop.pause_ns;
	return error;
}

int work_look(struct inject *inject, struct tm_error *err)
{
	uint64_t began = clock_steady_ns();
	if (!stop_settle(&inject->stop) || began < inject->next_look_ns)
		return 0;
	size_t before = inject->facts.functions;
	int found = islands_plan(inject, err);
	uint64_t cost = (clock_steady_ns() - began) * LOOK_SHARE;
	inject->next_look_ns = began + (cost > LOOK_NS ? cost : LOOK_NS);
	if (found <= 0)
		return found;
	int error = session_borrow(inject, err);
	if (error)
		return error;
	error = islands_map(inject, err);
	remote_return(&inject->remote);
	if (!error)
		error = islands_note(inject, err);
	if (!error)
		error = change_do(inject, err);
	stop_release(&inject->stop);
	return error ? error : (int)(inject->facts.functions - before);
}

int work_leave(struct inject *inject, struct tm_error *err)
{
	int error = inject->facts.present || inject->base ? change_undo(inject, err) : 0;
	if (!error && inject->base && note_collector(inject, false))
		error = -ESRCH;
	inject->inside &= error != 0;
	steps_reach(&inject->stop.steps, "left");
	return error;
}
