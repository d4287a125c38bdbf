/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose trace is thrown away, and who has the name that was asked for: a starter only for as long
 * as nothing else is recorded.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "collector/session.h"

void admit_make_way(struct session *session, const char *wanted, enum starter_role role)
{
	for (size_t i = 0; i < session->process_count && role == STARTER_PROGRAM; i++) {
		struct session_process *process = &session->processes[i];
		if (process->role == STARTER_PROGRAM || session->options->children ||
		    strcmp(recording_path(process->recording), wanted) != 0)
			continue;
		struct text name = {0};
		text_print(&name, "%s.starter-%d", wanted, (int)process->pid);
		if (text_error(&name) || recording_rename(process->recording, text_string(&name)))
			break; /* then the new one gets a number */
		process->moved_from = tm_strdup(wanted);
		text_done(&name);
	}
}

void admit_drop(struct session *session, struct session_process *process)
{
	/* Who reads the traces that are kept is to know what is in none. */
	if (process->not_entered && !session->warning.code)
		tm_fail(&session->warning, -EPERM, "%s", process->not_entered);
	recording_finish(process->recording, NULL);
	unlink(recording_path(process->recording));
	process->dropped = true;
}

/*
 * The first process began as a starter and became an ordinary program itself
 * (a script that ends in exec): that is the program meant, and what the script
 * called on its way is dropped.
 */
static bool keep_first_only(struct session *session)
{
	struct session_process *first = NULL;
	for (size_t i = 0; i < session->process_count; i++)
		if (session->processes[i].pid == session->launch.pid)
			first = &session->processes[i];
	if (!first || first->role != STARTER_PROGRAM)
		return false;
	for (size_t i = 0; i < session->process_count; i++)
		if (session->processes[i].pid != first->pid)
			admit_drop(session, &session->processes[i]);
	return true;
}

static void keep_best_roles(struct session *session)
{
	enum starter_role best = STARTER_STARTER;
	for (size_t i = 0; i < session->process_count; i++) {
		enum starter_role role = session->processes[i].role;
		if (role == STARTER_PROGRAM ||
		    (role == STARTER_BUILD_TOOL && best != STARTER_PROGRAM))
			best = role;
	}
	for (size_t i = 0; i < session->process_count; i++) {
		struct session_process *process = &session->processes[i];
		if (process->role != best && process->role != STARTER_PROGRAM)
			admit_drop(session, process);
	}
}

/* Who made way for a program of which nothing is left has the name that was asked for again. */
static void give_names_back(struct session *session)
{
	for (size_t i = 0; i < session->process_count; i++) {
		struct session_process *process = &session->processes[i];
		if (!process->dropped && process->moved_from &&
		    access(process->moved_from, F_OK) != 0 &&
		    recording_rename(process->recording, process->moved_from))
			process->moved_from = tm_free(process->moved_from); /* it keeps its own */
	}
}

void admit_drop_starters(struct session *session)
{
	if (session->options->children)
		return;
	if (!keep_first_only(session))
		keep_best_roles(session);
	give_names_back(session);
}
