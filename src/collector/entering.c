/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that no loader brings an agent to, and that a recorded one starts:
 * which of them are entered, and in whose trace it is said when one could not be.
 */
#include "collector/session.h"

#include <limits.h>

#include "base/memory.h"
#include "base/text.h"
#include "collector/procfs.h"

enum { CHAIN_MAX = 64 };

/* Who has a trace in which something can be said: the process, or who started it. */
static pid_t find_told(struct session *session, pid_t pid)
{
	for (int i = 0; i < CHAIN_MAX && pid > 0; i++) {
		if (admit_find(session, pid))
			return pid;
		pid = procfs_parent(pid);
	}
	return 0;
}

void entering_admit(struct session *session, struct rendezvous_peer *peer)
{
	bool spawns = peer->hello.forked == WIRE_HELLO_SPAWN;
	struct session_process *own = spawns ? NULL : admit_find(session, peer->pid);
	/* A child is not there yet: it will have this parent. */
	bool wanted = own      ? !recording_closed(own->recording)
		      : spawns ? admit_qualifies(session, INT_MAX, peer->pid)
			       : admit_qualifies(session, peer->pid, procfs_parent(peer->pid));
	if (wanted && session->recording_allowed)
		entrants_add(&session->entrants, peer, find_told(session, peer->pid),
			     &session->entering);
	else
		rendezvous_answer(peer, -1);
}

void entering_tell(struct session *session)
{
	struct tm_error err = {0};
	pid_t pid = 0;
	while (entrants_failed(&session->entrants, &pid, &err)) {
		struct session_process *process = admit_find(session, pid);
		if (process && !process->not_entered)
			process->not_entered = tm_strdup(err.text);
		else if (!session->warning.code)
			session->warning = err;
	}
}

const char *entering_note(struct session_process *process, const char *note)
{
	struct text text = {0};
	if (!note || !process->not_entered)
		return note ? note : process->not_entered;
	if (!process->end_note) {
		text_print(&text, "%s %s", note, process->not_entered);
		if (text_take(&text, &process->end_note))
			process->end_note = NULL;
	}
	return process->end_note ? process->end_note : note;
}

void entering_hand_over(struct session_process *process, struct session_process *next)
{
	next->not_entered = process->not_entered;
	process->not_entered = NULL;
}
