/* SPDX-License-Identifier: Apache-2.0 */
/* What 'tidemark ctl' and SIGUSR1 ask of a session. */
#include "collector/session.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/units.h"
#include "collector/procfs.h"
#include "collector/rate.h"

static struct section *open_section(const struct session_process *process)
{
	struct section *section = process->recording ? recording_section(process->recording) : NULL;
	return process->alive && section && section_state(section) != WIRE_OFF ? section : NULL;
}

/* ---- telling ---- */

/* The end of a path says more than its begin. */
static void put_tail(char *to, size_t room, const char *text)
{
	size_t bytes = strlen(text);
	size_t skip = bytes >= room ? bytes - room + 1 : 0;
	memcpy(to, text + skip, bytes - skip + 1);
}

static void put_executable(char *to, size_t room, pid_t pid)
{
	char link[64], path[PATH_MAX];
	snprintf(link, sizeof link, "/proc/%d/exe", (int)pid);
	ssize_t bytes = readlink(link, path, sizeof path - 1);
	path[bytes > 0 ? bytes : 0] = '\0';
	put_tail(to, room, path);
}

static void put_file(struct control_process *ret, const char *path)
{
	char whole[PATH_MAX];
	struct stat facts;
	put_tail(ret->file, sizeof ret->file, realpath(path, whole) ? whole : path);
	if (stat(path, &facts) == 0)
		ret->file_bytes = io_held_bytes(&facts);
}

static void put_cost(struct control_process *ret)
{
	ret->cpu_ns = clock_cpu_ns();
	ret->memory_bytes = procfs_peak_bytes(getpid());
}

static enum control_state state_of(const struct section *section)
{
	switch (section ? section_state(section) : WIRE_OFF) {
	case WIRE_IDLE:
		return CONTROL_WAITING;
	case WIRE_RECORD:
	case WIRE_SAMPLED:
	case WIRE_SAMPLED_ALL:
		return CONTROL_RECORDING;
	case WIRE_PAUSED:
		return CONTROL_PAUSED;
	case WIRE_OFF:
		break;
	}
	return CONTROL_OFF;
}

/* Entries that count: those that live, and the first process where none does. */
static const struct session_process *entry_at(const struct session *session, size_t index)
{
	size_t seen = 0;
	for (size_t i = 0; i < session->process_count; i++)
		if (session->processes[i].alive && seen++ == index)
			return &session->processes[i];
	return NULL;
}

static bool tell_process(void *ctx, size_t index, struct control_process *ret)
{
	const struct session *session = ctx;
	const struct session_process *process = entry_at(session, index);
	if (!process && (index || session->ended))
		return false;
	const struct collector_options *options = session->options;
	*ret = (struct control_process){.tool_pid = (int32_t)getpid(),
					.pid = (int32_t)session->launch.pid,
					.state = CONTROL_OFF};
	snprintf(ret->source, sizeof ret->source, "%s",
		 options->pid          ? "attach"
		 : options->follow_pid ? "self"
				       : "run");
	if (options->argv)
		put_tail(ret->program, sizeof ret->program, options->argv[0]);
	else
		put_executable(ret->program, sizeof ret->program, session->launch.pid);
	if (!process)
		return true;
	struct section *section = open_section(process);
	struct section_figures figures = {.piece = process->piece};
	if (section)
		section_figures(section, &figures);
	ret->pid = (int32_t)process->pid;
	ret->state = state_of(section);
	ret->piece = process->piece;
	ret->sample_bytes = section ? section_sample_bytes(section) : 0;
	ret->events = figures.events;
	ret->live_bytes = figures.live_bytes;
	ret->peak_bytes = figures.peak_bytes;
	ret->lost_events = figures.lost_events;
	ret->age_ns = figures.age_ns;
	if (process->program && *process->program)
		put_tail(ret->program, sizeof ret->program, process->program);
	ret->waited_ns = figures.waited_ns;
	put_file(ret, recording_path(process->recording));
	uint64_t written = recording_written(process->recording);
	ret->folded_events = recording_folded(process->recording);
	struct collector_rate rate = rate_of(options, ret->file, written, ret->age_ns);
	ret->bytes_per_hour = rate.bytes_per_hour;
	ret->disk_free_bytes = rate.disk_free_bytes;
	ret->left_ns = rate.left_ns;
	put_cost(ret);
	return true;
}

/* ---- doing ---- */

void command_stop(struct session *session, struct session_process *process, const char *note)
{
	struct section *section = recording_section(process->recording);
	entering_tell(session);
	if (section) {
		section_set_state(section, WIRE_OFF);
		section_end(section, &(struct section_ending){.cause = TRACE_END_STOPPED,
							      .children_recorded =
								      process->children_recorded,
							      .note = entering_note(process, note),
							      .still_runs = true});
	}
	recording_close(process->recording);
	process->alive = false;
	process->replaced = true;
	if (process->pidfd >= 0)
		close(process->pidfd);
	process->pidfd = -1;
}

static int switch_state(struct section *section, enum wire_state from, enum wire_state to,
			struct tm_error *err)
{
	enum wire_state now = section_state(section);
	if (now == to)
		return tm_fail(err, 0, "it was so already");
	if (now != from)
		return tm_fail(err, -EBUSY, "recording has not begun yet (--delay)");
	section_set_state(section, to);
	return tm_fail(err, 0, to == WIRE_PAUSED ? "paused: only frees are recorded" : "recording");
}

static int mark(struct section *section, const char *text, struct tm_error *err)
{
	int error = section_mark(section, text);
	if (error == -EAGAIN)
		return tm_fail(err, error, "too many marks at once: try again in a moment");
	return error ? tm_fail(err, error, "%s", strerror(-error)) : tm_fail(err, 0, "marked");
}

/* text: the interval in bytes, a power of two; 0: all blocks. */
static int sample(struct section *section, const char *text, struct tm_error *err)
{
	uint64_t bytes = strtoull(text, NULL, 10);
	unsigned log2 = bytes ? 63 - (unsigned)__builtin_clzll(bytes) : 0;
	if (bytes && (log2 < TRACE_INTERVAL_LOG2_MIN || log2 > TRACE_INTERVAL_LOG2_MAX))
		return tm_fail(err, -EINVAL, "no such interval");
	if (section_state(section) == WIRE_IDLE)
		return tm_fail(err, -EBUSY, "recording has not begun yet (--delay)");
	if (section_sample_bytes(section) == bytes)
		return tm_fail(err, 0, "it was so already");
	section_set_sampling(section, log2, "");
	return bytes ? tm_fail(err, 0, "samples a block every %s bytes", units_grouped(bytes).text)
		     : tm_fail(err, 0, "records every block");
}

static int obey_one(struct session *session, struct session_process *process,
		    const struct control_request *request, struct tm_error *err)
{
	struct section *section = open_section(process);
	switch ((enum control_verb)request->verb) {
	case CONTROL_PAUSE:
		return switch_state(section, WIRE_RECORD, WIRE_PAUSED, err);
	case CONTROL_RESUME:
		return switch_state(section, WIRE_PAUSED, WIRE_RECORD, err);
	case CONTROL_MARK:
		return mark(section, request->text, err);
	case CONTROL_SAMPLE:
		return sample(section, request->text, err);
	case CONTROL_ROTATE: {
		int error = admit_rotate(session, process, err);
		return error ? error : tm_fail(err, 0, "goes on in a new file");
	}
	case CONTROL_STOP:
		command_stop(session, process, "Recording was stopped by 'tidemark ctl'.");
		return tm_fail(err, 0, "recording ends; the program goes on");
	case CONTROL_STATUS:
	case CONTROL_STOP_PROGRAM:
	case CONTROL_VERBS:
		break;
	}
	return 0;
}

static int stop_program(struct session *session, pid_t pid, struct tm_error *err)
{
	pid = pid ? pid : session->launch.pid ? session->launch.pid : session->options->pid;
	if (pid <= 1)
		return tm_fail(err, -ESRCH, "there is no program that could be told");
	if (kill(pid, SIGTERM))
		return tm_fail(err, -errno, "cannot end process %d: %s", (int)pid, strerror(errno));
	return tm_fail(err, 0, "told the program to end (SIGTERM)");
}

static int obey(void *ctx, const struct control_request *request, struct tm_error *err)
{
	struct session *session = ctx;
	size_t count = session->process_count, obeyed = 0;
	int error = 0;
	if (request->verb == CONTROL_STOP_PROGRAM)
		return stop_program(session, request->pid, err);
	/* Those that come with a rotation are behind `count`. */
	for (size_t i = 0; i < count && !error; i++) {
		struct session_process *process = &session->processes[i];
		if (!open_section(process) || (request->pid && request->pid != process->pid))
			continue;
		error = obey_one(session, process, request, err);
		obeyed++;
	}
	if (request->verb == CONTROL_STOP && (!request->pid || request->pid == session->launch.pid))
		session->recording_allowed = false;
	return error || obeyed ? error : tm_fail(err, -ESRCH, "nothing is being recorded now");
}

void command_serve(struct session *session)
{
	const struct control_ops ops = {.process = tell_process, .obey = obey, .ctx = session};
	control_serve(&session->control, &ops);
}

/* ---- SIGUSR1 ---- */

void command_rotate(struct session *session)
{
	size_t count = session->process_count;
	for (size_t i = 0; i < count; i++) {
		struct tm_error err = {0};
		if (open_section(&session->processes[i]) &&
		    admit_rotate(session, &session->processes[i], &err) && !session->warning.code)
			session->warning = err;
	}
}

static void answer_usr1(struct session *session, struct session_process *process, uint32_t count)
{
	struct tm_error err = {0};
	/* Off and on again at once is a new file, too, and loses nothing. */
	bool rotate = session->options->on_usr1 == COLLECTOR_USR1_ROTATE || count % 2 == 0;
	if (rotate && admit_rotate(session, process, &err) && !session->warning.code)
		session->warning = err;
	if (!rotate)
		command_stop(session, process, "Recording was switched off by SIGUSR1.");
}

void command_usr1(struct session *session)
{
	uint64_t told;
	if (read(session->usr1_fd, &told, sizeof told) != sizeof told)
		return;
	size_t count = session->process_count;
	for (size_t i = 0; i < count; i++) {
		struct session_process *process = &session->processes[i];
		struct section *section = open_section(process);
		struct section_figures figures;
		if (!section)
			continue;
		section_figures(section, &figures);
		uint32_t came = figures.usr1 - process->usr1_seen;
		process->usr1_seen = figures.usr1;
		if (came && session->options->on_usr1)
			answer_usr1(session, process, came);
	}
}
