/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session with a process that runs already. The main thread enters it, waits,
 * looks for libraries that it loads, and leaves it; everything else is as with a
 * program that was started.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "collector/admit_drop.h"
#include "collector/procfs.h"
#include "collector/session.h"
#include "inject/inject.h"

enum { LOOK_MS = 250, LEAVE_TRIES = 3, WAITER_STEP_US = 500, WAITER_STEPS = 10 * 1000 };

struct attached {
	struct session session;
	struct inject *inject;
	struct shm shm;               /* until the section has it */
	struct wire_control *control; /* of that memory; the section's */
	pid_t pid;
	int pidfd;
	bool told; /* by a signal */
};

/* Called while the process has the file open, empty. */
static int fill_memory(void *ctx, const char *path, struct tm_error *err)
{
	struct attached *attached = ctx;
	struct shm_options memory =
		admit_memory(&attached->session, attached->session.options->sample_log2);
	int error = shm_open_at(&attached->shm, &memory, path, err);
	shm_close_fd(&attached->shm);
	return error;
}

static int open_file(struct attached *attached, struct tm_error *err)
{
	char link[64], path[4096];
	snprintf(link, sizeof link, "/proc/%d/exe", (int)attached->pid);
	ssize_t bytes = readlink(link, path, sizeof path - 1);
	path[bytes > 0 ? bytes : 0] = '\0';
	return admit_open_file(&attached->session, attached->pid, *path ? path : "program",
			       &attached->session.first_recording, err);
}

/* The entry of the piece that is written now, or was last; NULL: none yet. */
static struct session_process *entry_of(const struct attached *attached)
{
	const struct session *session = &attached->session;
	return session->process_count ? &session->processes[session->process_count - 1] : NULL;
}

static struct section *section_of(const struct attached *attached)
{
	const struct session_process *entry = entry_of(attached);
	return entry ? recording_section(entry->recording) : NULL;
}

/* In: from here on the process must be left again. */
static int enter(struct attached *attached, struct tm_error *err)
{
	struct session *session = &attached->session;
	/* Without names the recording is still worth having. */
	if (!session->options->no_symbols && namer_start(&session->namer, &session->warning))
		session->namer = (struct namer){.fd = -1};
	int error = open_file(attached, err);
	if (!error)
		error = inject_enter(attached->inject, fill_memory, attached, err);
	if (error) {
		shm_close(&attached->shm);
		return error;
	}
	attached->control = attached->shm.map.control;
	error = admit_entered(session, attached->pid, &attached->shm,
			      inject_unhooked(attached->inject), err);
	if (!error) {
		session->start_ns = clock_steady_ns();
		section_set_state(section_of(attached), WIRE_RECORD);
		error = inject_patch(attached->inject, err);
	}
	return error;
}

/* ---- while it is recorded ---- */

static void read_signals(struct attached *attached)
{
	struct signalfd_siginfo info;
	while (read(attached->session.signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
		attached->told |= info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM ||
				  info.ssi_signo == SIGHUP || info.ssi_signo == SIGQUIT;
		if (info.ssi_signo == SIGUSR1)
			command_rotate(&attached->session);
	}
}

static bool time_is_over(const struct attached *attached)
{
	const struct collector_options *options = attached->session.options;
	return options->time_limit_ns &&
	       clock_steady_ns() - attached->session.start_ns >= options->time_limit_ns;
}

static int wait_ms(const struct attached *attached)
{
	const struct collector_options *options = attached->session.options;
	uint64_t passed = clock_steady_ns() - attached->session.start_ns;
	if (!options->time_limit_ns)
		return LOOK_MS;
	uint64_t left = options->time_limit_ns > passed ? options->time_limit_ns - passed : 0;
	return left / 1000000 < LOOK_MS ? (int)(left / 1000000) + 1 : LOOK_MS;
}

/* Until it is over. What became of the process: TRACE_END_*. */
static uint32_t wait_for_end(struct attached *attached)
{
	for (;;) {
		struct pollfd polls[3] = {
			{.fd = attached->session.signal_fd, .events = POLLIN},
			{.fd = attached->pidfd, .events = POLLIN},
			{.fd = attached->session.control.fd, .events = POLLIN},
		};
		struct tm_error ignored = {0};
		poll(polls, 3, wait_ms(attached));
		read_signals(attached);
		if (polls[2].revents)
			command_serve(&attached->session);
		rotate_tick(&attached->session);
		session_harvest(&attached->session, false);
		rotate_prune(&attached->session);
		if (polls[1].revents || (attached->pidfd < 0 && kill(attached->pid, 0)))
			return TRACE_END_EXIT;
		if (!inject_is_same(attached->inject))
			return TRACE_END_EXEC;
		if (attached->told || time_is_over(attached) || !entry_of(attached) ||
		    recording_closed(entry_of(attached)->recording) ||
		    section_state(section_of(attached)) == WIRE_OFF)
			return TRACE_END_DETACHED;
		if (inject_look(attached->inject, &ignored) < 0 && !attached->session.warning.code)
			attached->session.warning = ignored;
	}
}

/* ---- out ---- */

static struct section_ending ending_of(struct attached *attached, uint32_t cause)
{
	struct section_ending ending = {.cause = cause};
	int status;
	if (cause == TRACE_END_DETACHED) {
		ending.still_runs = true;
		if (time_is_over(attached) && !attached->told)
			ending.note = "The time limit was reached.";
		return ending;
	}
	if (cause == TRACE_END_EXEC) {
		ending.note = "The program executed another one, which is not recorded: attach to "
			      "it anew.";
		return ending;
	}
	if (!procfs_exit_status(attached->pid, attached->pidfd, &status)) {
		ending.status = -1;
		ending.status_unknown = true;
	} else if (WIFSIGNALED(status)) {
		ending.cause = TRACE_END_SIGNAL;
		ending.status = WTERMSIG(status);
	} else {
		ending.status = WEXITSTATUS(status);
	}
	return ending;
}

/* A thread that waits for room has an event to tell: no new ones come. */
static void wait_for_waiters(const struct attached *attached)
{
	for (int i = 0; i < WAITER_STEPS && atomic_load(&attached->control->pool_waiters); i++)
		usleep(WAITER_STEP_US);
}

static void leave(struct attached *attached, uint32_t cause)
{
	struct session *session = &attached->session;
	struct tm_error err = {0};
	int error = cause == TRACE_END_DETACHED ? -EAGAIN : 0;
	for (int i = 0; error && error != -ESRCH && i < LEAVE_TRIES; i++)
		error = inject_leave(attached->inject, &err);
	if (error && error != -ESRCH)
		session->warning = err;
	struct session_process *entry = entry_of(attached);
	if (!entry)
		return;
	if (error == -ESRCH)
		cause = TRACE_END_EXIT;
	struct section *section = section_of(attached);
	struct section_ending ending = ending_of(attached, cause);
	if (section) {
		if (section_state(section) != WIRE_OFF) {
			if (cause == TRACE_END_DETACHED)
				wait_for_waiters(attached);
			section_set_state(section, WIRE_OFF);
		}
		section_end(section, &ending);
	}
	entry->alive = false;
	recording_finish(entry->recording, NULL);
}

static int open_session(struct attached *attached, struct tm_error *err)
{
	struct session *session = &attached->session;
	sigset_t all;
	sigfillset(&all);
	/* SIGCHLD tells the tracer of stops: it takes that one itself. */
	sigdelset(&all, SIGCHLD);
	session->signal_fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	if (session->signal_fd < 0)
		return tm_fail(err, -errno, "cannot listen to signals: %s", strerror(errno));
	attached->pidfd = (int)syscall(SYS_pidfd_open, attached->pid, 0);
	session->tsc = stamp_tsc_usable();
	/* Without it the session cannot be spoken to; it can still record. */
	if (control_open(&session->control, &session->warning))
		session->control.fd = -1;
	return 0;
}

int collector_attach(const struct collector_options *options, struct inject *inject,
		     struct collector_result *ret_result, struct tm_error *err)
{
	struct attached attached = {
		.session = {.options = options,
			    .signal_fd = -1,
			    .control.fd = -1,
			    .follow_fd = -1,
			    .dormant.fd = -1,
			    .waking.memory_fd = -1,
			    .rendezvous.fd = -1,
			    .namer.fd = -1,
			    .entrants.done_fd = -1,
			    .earlier = stamp_pair_read(),
			    .recording_allowed = true,
			    .start_ns = clock_steady_ns(),
			    .start_unix_ns = clock_wall_ns()},
		.inject = inject,
		.shm.fd = -1,
		.pid = inject_facts(inject)->pid,
		.pidfd = -1,
	};
	struct session *session = &attached.session;
	for (int i = 0; i < SESSION_PEERS; i++)
		session->peers[i].fd = -1;
	*ret_result = (struct collector_result){.exit_status = 1};
	launch_prepare(&session->origin);
	int error = open_session(&attached, err);
	if (!error)
		error = enter(&attached, err);
	if (!error && options->started)
		options->started(options->ctx, recording_path(session->processes[0].recording));
	if (!error) {
		leave(&attached, wait_for_end(&attached));
		session_fill_result(session, ret_result);
		ret_result->exit_status = 0;
	} else if (session->process_count) {
		leave(&attached, TRACE_END_DETACHED);
		admit_drop(session, &session->processes[0]);
	}
	if (attached.pidfd >= 0)
		close(attached.pidfd);
	session_close(session);
	return error;
}
