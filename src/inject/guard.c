/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inject/state.h"
#include "inject/work.h"

enum { LEAVE_TRIES = 3, SETTLE_MS = 5 };

struct message {
	uint32_t what; /* enum guard_what */
	int32_t result;
	struct tm_error err;
	struct inject_facts facts;
	uint64_t base, block, glue;
	bool inside;
	char unhooked[sizeof((struct inject *)0)->unhooked];
	char path[64];
};

/* False: the other side is gone. */
static bool send_message(int fd, const struct message *message)
{
	ssize_t sent;
	do
		sent = send(fd, message, sizeof *message, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent == (ssize_t)sizeof *message;
}

static bool receive(int fd, struct message *ret)
{
	ssize_t got;
	do
		got = recv(fd, ret, sizeof *ret, 0);
	while (got < 0 && errno == EINTR);
	return got == (ssize_t)sizeof *ret;
}

/* ---- the guard ---- */

struct guard {
	struct inject *inject;
	int fd; /* to the recorder */
};

/* The recorder lays the memory out. */
static int ask_to_fill(void *ctx, const char *path, struct tm_error *err)
{
	const struct guard *guard = ctx;
	struct message message = {.what = GUARD_FILL};
	snprintf(message.path, sizeof message.path, "%s", path);
	if (!send_message(guard->fd, &message) || !receive(guard->fd, &message))
		return tm_fail(err, -EPIPE, "tidemark was killed");
	*err = message.err;
	return message.result;
}

static int obey(struct guard *guard, uint32_t what, struct tm_error *err)
{
	switch ((enum guard_what)what) {
	case GUARD_ENTER:
		return work_enter(guard->inject, ask_to_fill, guard, err);
	case GUARD_PATCH:
		return work_patch(guard->inject, err);
	case GUARD_LOOK:
		return work_look(guard->inject, err);
	case GUARD_LEAVE:
		return work_leave(guard->inject, err);
	case GUARD_FILL:
	case GUARD_FILLED:
	case GUARD_DONE:
		break;
	}
	return -EPROTO;
}

static bool answer(const struct guard *guard, int result, const struct tm_error *err)
{
	const struct inject *inject = guard->inject;
	struct message message = {
		.what = GUARD_DONE,
		.result = result,
		.err = *err,
		.facts = inject->facts,
		.base = inject->base,
		.block = inject->block,
		.glue = inject->glue,
		.inside = inject->inside,
	};
	memcpy(message.unhooked, inject->unhooked, sizeof message.unhooked);
	return send_message(guard->fd, &message);
}

/* Threads that could not be let go at once (in vfork) are, while we wait for orders. */
static void wait_for_order(const struct guard *guard)
{
	struct pollfd order = {.fd = guard->fd, .events = POLLIN};
	while (!stop_settle(&guard->inject->stop))
		if (poll(&order, 1, SETTLE_MS))
			return;
}

/* Nothing of the recorder's is kept open: neither its file nor its sockets. */
static void close_others(int one, int other)
{
	unsigned low = (unsigned)(one < other ? one : other),
		 high = (unsigned)(one < other ? other : one);
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int i = 0; i < 3; i++)
		dup2(nothing, i);
	syscall(SYS_close_range, 3, low - 1, 0);
	syscall(SYS_close_range, low + 1, high - 1, 0);
	syscall(SYS_close_range, high + 1, ~0u, 0);
}

static _Noreturn void serve(struct guard *guard)
{
	struct inject *inject = guard->inject;
	struct message message;
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	prctl(PR_SET_NAME, GUARD_NAME);
	close_others(guard->fd, inject->memory_fd);
	steps_init(&inject->stop.steps, inject->facts.pid, inject->recorder, guard->fd);
	for (;;) {
		struct tm_error err = {0};
		wait_for_order(guard);
		if (!receive(guard->fd, &message) ||
		    !answer(guard, obey(guard, message.what, &err), &err))
			break;
	}
	if (inject->inside)
		work_switch_off(inject);
	for (int i = 0; inject->inside && i < LEAVE_TRIES; i++)
		if (work_leave(inject, &(struct tm_error){0}) == -ESRCH)
			break;
	stop_done(&inject->stop);
	_exit(0);
}

/* ---- the recorder ---- */

static int start(struct inject *inject, struct tm_error *err)
{
	int ends[2];
	inject->recorder = getpid();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return tm_fail(err, -errno, "cannot make a socket: %s", strerror(errno));
	/* Above standard input and output, which the guard gives up. */
	int own = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);
	pid_t pid = own < 0 ? -1 : fork();
	if (!pid) {
		close(ends[0]);
		serve(&(struct guard){.inject = inject, .fd = own});
	}
	int code = -errno;
	close(ends[1]);
	if (own >= 0)
		close(own);
	if (pid < 0) {
		close(ends[0]);
		return tm_fail(err, code, "cannot start the process that traces: %s",
			       strerror(-code));
	}
	inject->guard_pid = pid;
	inject->guard_fd = ends[0];
	return 0;
}

void guard_end(struct inject *inject)
{
	if (!inject->guard_pid)
		return;
	close(inject->guard_fd);
	while (waitpid(inject->guard_pid, NULL, 0) < 0 && errno == EINTR)
		;
	inject->guard_pid = 0;
}

static void take_answer(struct inject *inject, const struct message *message)
{
	inject->facts = message->facts;
	inject->base = message->base;
	inject->block = message->block;
	inject->glue = message->glue;
	inject->inside = message->inside;
	memcpy(inject->unhooked, message->unhooked, sizeof inject->unhooked);
}

static int lost(struct inject *inject, struct tm_error *err)
{
	guard_end(inject);
	inject->guard_lost = true;
	/* It may have got as far as the patches. */
	inject->inside = inject->base != 0;
	return tm_fail(err, -EPIPE,
		       "the process of tidemark's that traces process %d (" GUARD_NAME
		       ") was killed",
		       (int)inject->facts.pid);
}

int guard_do(struct inject *inject, const struct guard_order *order, struct tm_error *err)
{
	struct message message = {.what = order->what};
	int error = inject->guard_pid ? 0 : start(inject, err);
	if (error)
		return error;
	if (!send_message(inject->guard_fd, &message))
		return lost(inject, err);
	while (receive(inject->guard_fd, &message)) {
		if (message.what == GUARD_DONE) {
			take_answer(inject, &message);
			if (message.result < 0 && err)
				*err = message.err;
			return message.result;
		}
		message.path[sizeof message.path - 1] = '\0';
		message.err = (struct tm_error){0};
		message.result =
			order->fill ? order->fill(order->ctx, message.path, &message.err) : -EPROTO;
		message.what = GUARD_FILLED;
		if (!send_message(inject->guard_fd, &message))
			break;
	}
	return lost(inject, err);
}
