/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waking a program in which an agent sleeps. It calls us at its next allocation,
 * and its thread waits some seconds for its memory: when we are slower (stopped,
 * or without a processor) it goes on unrecorded and says so in its page. It has
 * seen nothing of that memory: it is woken again, and gets the same.
 */
#include "collector/session.h"

#include <errno.h>
#include <unistd.h>

#include "collector/admit_drop.h"

enum { WAKE_TRIES = 5 };

/* Its section, if it has called. */
static struct section *section_of(struct session *session)
{
	struct session_process *process = admit_find(session, session->launch.pid);
	return process ? recording_section(process->recording) : NULL;
}

static bool may_try_again(struct session *session)
{
	return atomic_load(&session->dormant.page.refused) == WIRE_REFUSED_UNREACHED &&
	       session->waking.tries < WAKE_TRIES && section_of(session);
}

static bool has_come(struct session *session)
{
	struct waking *waking = &session->waking;
	const struct section *section = section_of(session);
	if (!waking->came && section && section_agent_ready(section)) {
		waking->came = true;
		waking_done(session);
	}
	return waking->came;
}

bool waking_waits(struct session *session)
{
	return session->dormant.fd >= 0 && !has_come(session);
}

void waking_look(struct session *session)
{
	struct tm_error ignored = {0};
	if (!waking_waits(session))
		return;
	if (!dormant_read(&session->dormant)) {
		session->ended |= !session->process_count;
		return;
	}
	if (!may_try_again(session))
		return;
	session->waking.tries++;
	/* If that fails it still says that it has not come. */
	if (dormant_wake(&session->dormant, session->rendezvous.session, &ignored))
		session->waking.tries = WAKE_TRIES;
}

const char *waking_refusal(struct session *session)
{
	const struct section *section = section_of(session);
	bool recorded = session->process_count + session->finished_count > 0;
	if (!waking_waits(session) || may_try_again(session) || (recorded && !section))
		return NULL;
	const char *why = dormant_refusal(&session->dormant);
	if (why && section && session->waking.tries)
		why = "it was answered too late each time it called; is the machine too busy? "
		      "Try again";
	return why;
}

bool waking_answer(struct session *session, struct rendezvous_peer *peer)
{
	if (session->waking.memory_fd < 0 || peer->hello.forked != WIRE_HELLO_WOKEN ||
	    peer->pid != session->launch.pid || !waking_waits(session))
		return false;
	rendezvous_answer(peer, session->waking.memory_fd);
	return true;
}

void waking_keep(struct session *session, pid_t pid, int memory_fd)
{
	if (pid != session->launch.pid || session->waking.memory_fd >= 0 || !waking_waits(session))
		close(memory_fd);
	else
		session->waking.memory_fd = memory_fd;
}

void waking_done(struct session *session)
{
	if (session->waking.memory_fd >= 0)
		close(session->waking.memory_fd);
	session->waking.memory_fd = -1;
}

int waking_check(struct session *session, struct tm_error *err)
{
	int pid = (int)session->launch.pid;
	const char *why = waking_refusal(session);
	if (session->dormant.fd < 0 ||
	    (!why && session->process_count + session->finished_count > 0))
		return 0;
	dormant_hush(&session->dormant);
	for (size_t i = 0; i < session->process_count; i++)
		admit_drop(session, &session->processes[i]);
	if (why)
		return tm_fail(err, -EPERM, "process %d was not recorded: %s", pid, why);
	return tm_fail(err, -ENODATA,
		       session->ended ? "process %d ended before it allocated anything"
				      : "process %d allocated nothing: there is no trace",
		       pid);
}
