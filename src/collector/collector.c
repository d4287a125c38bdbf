/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/collector.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "collector/environment.h"
#include "collector/plain.h"
#include "collector/procfs.h"
#include "collector/session.h"
#include "inject/enter.h"

/* ---- before the program runs ---- */

static int open_session(struct session *session, struct tm_error *err)
{
	sigset_t all;
	sigfillset(&all);
	session->signal_fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	if (session->signal_fd < 0)
		return tm_fail(err, -errno, "cannot listen to signals: %s", strerror(errno));
	session->usr1_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	entrants_init(&session->entrants);
	session->entering = (struct entrant_options){.agent_path = session->options->agent_path,
						     .hooks = session->options->hooks};
	/* Without it the session cannot be spoken to; it can still record. */
	if (control_open(&session->control, &session->warning))
		session->control.fd = -1;
	int error = rendezvous_open(&session->rendezvous, session->options->session, err);
	if (error || session->beside)
		return error;
	struct environment_options environment = {
		.from = environ,
		.first = *session->preflight.sanitizer ? session->preflight.sanitizer : NULL,
		.agent_path = session->options->agent_path,
		.session = session->rendezvous.session,
	};
	return environment_new(&environment, &session->environment, err);
}

static struct launch_options launch_options(const struct session *session)
{
	return (struct launch_options){.path = session->preflight.path,
				       .argv = session->options->argv,
				       .environment = session->environment,
				       .plain_environment = environ,
				       .origin = &session->origin};
}

/* Forks and opens the file. The program waits until it is told. */
static int prepare_run(struct session *session, enum launch_order *ret_order, struct tm_error *err)
{
	struct launch_options launch = launch_options(session);
	struct procfs_memory own;
	session->own_rss_bytes = procfs_resident(getpid(), &own) ? own.rss_bytes : UINT64_MAX;
	int error = launch_fork(&session->launch, &launch, err);
	if (error)
		return error;
	/* After the program, for debuggers that follow our first child; without names the recording
	 * is still worth having. */
	if (!session->options->no_symbols && namer_start(&session->namer, &session->warning))
		session->namer = (struct namer){.fd = -1};
	*ret_order = LAUNCH_RECORDED;
	error = admit_open_file(session, session->launch.pid, session->options->argv[0],
				&session->first_recording, err);
	if (!error)
		return 0;
	if (session->options->or_run) {
		plain_tell(session, err);
		*ret_order = LAUNCH_PLAIN;
		return 0;
	}
	if (launch_go(&session->launch, LAUNCH_CANCEL))
		error = -ECANCELED;
	waitpid(session->launch.pid, NULL, 0);
	return error;
}

/* The program is no loader's: goes in when it stands at its first instruction. */
static int enter(struct session *session, struct tm_error *err)
{
	const struct enter_options options = {.pid = session->launch.pid,
					      .agent_path = session->options->agent_path,
					      .hooks = session->options->hooks};
	if (!enter_wait(options.pid))
		return 0; /* it has ended before: how, will be seen */
	int error = enter_program(&options, err);
	session->unrecordable = error != 0;
	if (error && session->options->or_run) {
		plain_tell(session, err);
		error = 0;
	}
	if (error)
		kill(options.pid, SIGKILL);
	enter_leave(options.pid);
	return error;
}

/* Lets the program go; *ret_failed: -errno of its exec. */
static int release(struct session *session, enum launch_order order, int *ret_failed,
		   struct tm_error *err)
{
	bool enters = session->preflight.is_static && order == LAUNCH_RECORDED;
	int error = enters ? enter_seize(session->launch.pid, err) : 0;
	session->unrecordable = error != 0;
	if (error && session->options->or_run) {
		plain_tell(session, err);
		order = LAUNCH_PLAIN;
		enters = false;
		error = 0;
	}
	launch_release(&session->launch, error ? LAUNCH_CANCEL : order);
	if (enters && !error)
		error = enter(session, err);
	int failed = launch_result(&session->launch);
	*ret_failed = error ? 0 : failed;
	return error;
}

static int start(struct session *session, int *ret_exit_status, struct tm_error *err)
{
	enum launch_order order;
	int error = prepare_run(session, &order, err);
	if (error)
		return error;
	/* After the program's: a debugger that is to follow the first child follows that. */
	witness_start(&session->witness);
	if (session->first_recording && session->options->started)
		session->options->started(session->options->ctx,
					  recording_path(session->first_recording));
	int failed = 0;
	error = release(session, order, &failed, err);
	if (!error && !failed) {
		if (session->options->running)
			session->options->running(session->options->ctx, session->launch.pid);
		return 0;
	}
	waitpid(session->launch.pid, NULL, 0);
	session->first_recording = recording_discard(session->first_recording);
	if (error)
		return error;
	*ret_exit_status = failed == -ENOENT ? SESSION_NOT_FOUND : SESSION_NOT_EXECUTABLE;
	return tm_fail(err, failed, "cannot execute '%s': %s", session->preflight.path,
		       strerror(-failed));
}

void session_close(struct session *session)
{
	for (int i = 0; i < SESSION_PEERS; i++)
		if (session->peers[i].fd >= 0)
			rendezvous_answer(&session->peers[i], -1);
	entrants_done(&session->entrants);
	session_free_entries(session);
	recording_discard(session->first_recording);
	giveway_free(session->giveway);
	namer_stop(&session->namer);
	environment_free(session->environment);
	rendezvous_close(&session->rendezvous);
	witness_stop(&session->witness);
	control_close(&session->control);
	if (session->follow_fd >= 0)
		close(session->follow_fd);
	if (session->usr1_fd > 0)
		close(session->usr1_fd);
	if (session->signal_fd >= 0)
		close(session->signal_fd);
	preflight_done(&session->preflight);
}

/* Is it there, can it be recorded, and is there an agent for it? */
static int check_program(struct session *session, int *ret_exit_status, struct tm_error *err)
{
	const struct collector_options *options = session->options;
	enum preflight_verdict verdict =
		preflight_check(options->argv[0], options->hooks, &session->preflight, err);
	switch (verdict) {
	case PREFLIGHT_GOOD:
		break;
	case PREFLIGHT_NOT_FOUND:
		*ret_exit_status = SESSION_NOT_FOUND;
		return err->code;
	case PREFLIGHT_NOT_EXECUTABLE:
		*ret_exit_status = SESSION_NOT_EXECUTABLE;
		return err->code;
	case PREFLIGHT_UNRECORDABLE:
		session->unrecordable = true;
		return err->code;
	}
	if (options->no_agent)
		*err = *options->no_agent;
	return options->no_agent ? err->code : 0;
}

static void init_session(struct session *session, const struct collector_options *options)
{
	*session = (struct session){
		.options = options,
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
		.recording_now = options->delay_ns == 0,
		.start_unix_ns = clock_wall_ns(),
	};
	for (int i = 0; i < SESSION_PEERS; i++)
		session->peers[i].fd = -1;
}

int collector_run(const struct collector_options *options, struct collector_result *ret_result,
		  struct tm_error *err)
{
	struct session session;
	struct tm_error own = {0};
	err = err ? err : &own;
	init_session(&session, options);
	*ret_result = (struct collector_result){.exit_status = SESSION_FAILED};
	launch_prepare(&session.origin);
	session.tsc = stamp_tsc_usable();
	int error = check_program(&session, &ret_result->exit_status, err);
	if (!error)
		error = open_session(&session, err);
	session.start_ns = clock_steady_ns();
	if (!error)
		error = start(&session, &ret_result->exit_status, err);
	ret_result->unrecordable = session.unrecordable;
	if (error && options->or_run && !session.launch.pid &&
	    ret_result->exit_status == SESSION_FAILED)
		error = plain_replace(&session, &ret_result->exit_status, err);
	if (!error) {
		loop_run(&session);
		session_fill_result(&session, ret_result);
	}
	session_close(&session);
	return error;
}

/* ---- a program that started us ---- */

static int begin_beside(struct session *session, pid_t pid, struct tm_error *err)
{
	char link[64], program[4096];
	const struct collector_options *options = session->options;
	session->beside = true;
	session->launch.pid = pid;
	session->follow_fd = (int)syscall(SYS_pidfd_open, pid, 0);
	int error = open_session(session, err);
	if (error)
		return error;
	if (!options->no_symbols && namer_start(&session->namer, &session->warning))
		session->namer = (struct namer){.fd = -1};
	snprintf(link, sizeof link, "/proc/%d/exe", (int)pid);
	ssize_t bytes = readlink(link, program, sizeof program - 1);
	program[bytes > 0 ? bytes : 0] = '\0';
	return admit_open_file(session, pid, program, &session->first_recording, err);
}

/* From here on the program is told, or tells, that it may go on. */
static int begin_recording(struct session *session, struct tm_error *err)
{
	const struct collector_options *options = session->options;
	int error = session->dormant.fd >= 0
			    ? dormant_wake(&session->dormant, session->rendezvous.session, err)
			    : 0;
	if (!error && options->started)
		options->started(options->ctx, recording_path(session->first_recording));
	return error;
}

static int record_beside(struct session *session, pid_t pid, struct collector_result *ret_result,
			 struct tm_error *err)
{
	*ret_result = (struct collector_result){.exit_status = SESSION_FAILED};
	launch_prepare(&session->origin);
	session->tsc = stamp_tsc_usable();
	session->start_ns = clock_steady_ns();
	int error = begin_beside(session, pid, err);
	if (!error)
		error = begin_recording(session, err);
	if (!error) {
		loop_run(session);
		error = waking_check(session, err);
	}
	if (!error)
		session_fill_result(session, ret_result);
	waking_done(session);
	dormant_close(&session->dormant);
	session_close(session);
	return error;
}

int collector_follow(const struct collector_options *options, struct collector_result *ret_result,
		     struct tm_error *err)
{
	struct session session;
	init_session(&session, options);
	return record_beside(&session, options->follow_pid, ret_result, err);
}

int collector_wake(const struct collector_options *options, struct collector_result *ret_result,
		   struct tm_error *err)
{
	struct session session;
	init_session(&session, options);
	*ret_result = (struct collector_result){.exit_status = SESSION_FAILED};
	if (!dormant_open(options->pid, &session.dormant))
		return tm_fail(err, -ENOENT, "there is no agent in process %d that could be woken",
			       (int)options->pid);
	return record_beside(&session, options->pid, ret_result, err);
}

/* What a program that an agent is to sleep in gets. */
static int sleeper_environment(struct session *session, struct tm_error *err)
{
	const struct environment_options environment = {
		.from = environ,
		.agent_path = session->options->agent_path,
		.first = *session->preflight.sanitizer ? session->preflight.sanitizer : NULL,
	};
	if (session->preflight.is_static)
		return tm_fail(
			err, -ENOEXEC,
			"'%s' is statically linked, so no agent can sleep in it: start it as it "
			"is, and go in when it is wanted (tidemark attach)",
			session->preflight.image);
	return environment_new(&environment, &session->environment, err);
}

int collector_sleep(const struct collector_options *options, struct tm_error *err)
{
	struct session session;
	int status = SESSION_FAILED;
	init_session(&session, options);
	launch_prepare(&session.origin);
	int error = check_program(&session, &status, err);
	if (!error)
		error = sleeper_environment(&session, err);
	if (!error) {
		struct launch_options launch = launch_options(&session);
		launch.plain_environment = session.environment;
		error = launch_replace(&launch);
		tm_fail(err, error, "cannot execute '%s': %s", session.preflight.path,
			strerror(-error));
		status = error == -ENOENT ? SESSION_NOT_FOUND : SESSION_NOT_EXECUTABLE;
	} else if (options->or_run && status == SESSION_FAILED) {
		error = plain_replace(&session, &status, err);
	}
	assert(error); /* else another program runs here */
	session_close(&session);
	return status;
}

void collector_result_done(struct collector_result *result)
{
	for (size_t i = 0; i < result->trace_count; i++) {
		tm_free(result->traces[i].path);
		tm_free(result->traces[i].program);
	}
	tm_free(result->traces);
	*result = (struct collector_result){0};
}

void collector_exit_like(int wait_status)
{
	if (WIFSIGNALED(wait_status)) {
		int signal = WTERMSIG(wait_status);
		struct sigaction by_default = {.sa_handler = SIG_DFL};
		struct rlimit no_core = {0, 0};
		sigset_t set;
		/* The program's core is the one that matters. */
		setrlimit(RLIMIT_CORE, &no_core);
		sigaction(signal, &by_default, NULL);
		sigemptyset(&set);
		sigaddset(&set, signal);
		sigprocmask(SIG_UNBLOCK, &set, NULL);
		raise(signal);
		_exit(128 + signal);
	}
	exit(WEXITSTATUS(wait_status));
}
