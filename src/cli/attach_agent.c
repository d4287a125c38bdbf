/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/attach_agent.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "cli/sessions.h"
#include "collector/dormant.h"

#define PATIENCE_NS (30 * 1000000000ull)

/* The session that records this very process, at present. */
static const struct session_row *row_of(const struct sessions *sessions, pid_t pid)
{
	for (size_t i = 0; i < sessions->row_count; i++)
		if (sessions->rows[i].process.pid == pid &&
		    sessions->rows[i].process.state != CONTROL_OFF)
			return &sessions->rows[i];
	return NULL;
}

enum attach_agent attach_agent_of(pid_t pid)
{
	struct dormant dormant;
	struct sessions sessions;
	struct tm_error ignored;
	if (!dormant_open(pid, &dormant))
		return ATTACH_AGENT_NONE;
	dormant_close(&dormant);
	if (sessions_find(&sessions, &ignored))
		return ATTACH_AGENT_SLEEPS;
	bool recorded = row_of(&sessions, pid) != NULL;
	sessions_done(&sessions);
	return recorded ? ATTACH_AGENT_RECORDS : ATTACH_AGENT_SLEEPS;
}

/* Until the session is no more: then the trace is whole. */
static int await_end(const struct control_peer *peer, struct tm_error *err)
{
	const struct control_request status = {.verb = CONTROL_STATUS};
	const struct timespec step = {.tv_nsec = 5 * 1000 * 1000};
	uint64_t end_ns = clock_steady_ns() + PATIENCE_NS;
	struct tm_error ignored;
	while (clock_steady_ns() < end_ns) {
		if (control_ask(peer, &status, NULL, NULL, &ignored) == -ECONNREFUSED)
			return 0;
		nanosleep(&step, NULL);
	}
	return tm_fail(err, -ETIMEDOUT, "the tidemark that records it (process %d) does not end",
		       (int)peer->pid);
}

int attach_agent_detach(pid_t pid, struct tm_error *err)
{
	struct dormant dormant;
	struct sessions sessions;
	if (!dormant_open(pid, &dormant))
		return -ENOENT;
	dormant_close(&dormant);
	int error = sessions_find(&sessions, err);
	if (error)
		return error;
	const struct session_row *row = row_of(&sessions, pid);
	if (!row) {
		error = tm_fail(err, -ESRCH, "process %d is not being recorded", (int)pid);
	} else {
		const struct control_peer *peer = &sessions.peers[row->peer];
		const struct control_request stop = {.verb = CONTROL_STOP, .pid = (int32_t)pid};
		error = control_ask(peer, &stop, NULL, NULL, err);
		if (!error && row->process.source[0] == 'a') /* "attach": it ends with that */
			error = await_end(peer, err);
	}
	sessions_done(&sessions);
	return error;
}
