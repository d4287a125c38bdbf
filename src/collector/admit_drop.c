/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose trace is thrown away, and who has the name that was asked for: a starter only for as long
 * as nothing else is recorded.
 */
#include "collector/admit_drop.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "collector/output.h"
#include "collector/session.h"

/* ---- names ---- */

static void put_starter_name(struct text *name, const char *wanted, pid_t pid)
{
	text_print(name, "%s.starter-%d", wanted, (int)pid);
}

static int rename_finished(struct session_finished *finished, const char *path)
{
	char *copy = tm_strdup(path);
	if (!copy || rename(finished->trace.path, path)) {
		tm_free(copy);
		return -1;
	}
	tm_free(finished->trace.path);
	finished->trace.path = copy;
	return 0;
}

static void move_finished(struct session_finished *finished, const char *wanted)
{
	struct text name = {0};
	if (finished->role == STARTER_PROGRAM || !finished->trace.path ||
	    strcmp(finished->trace.path, wanted) != 0)
		return;
	put_starter_name(&name, wanted, finished->trace.pid);
	if (!text_error(&name) && !rename_finished(finished, text_string(&name)))
		finished->moved_from = tm_strdup(wanted);
	text_done(&name);
}

void admit_make_way(struct session *session, const char *wanted, enum starter_role role)
{
	if (role != STARTER_PROGRAM || session->options->children)
		return;
	for (size_t i = 0; i < session->finished_count; i++)
		move_finished(&session->finished[i], wanted);
	for (size_t i = 0; i < session->process_count; i++) {
		struct session_process *process = &session->processes[i];
		if (process->role == STARTER_PROGRAM ||
		    strcmp(recording_path(process->recording), wanted) != 0)
			continue;
		struct text name = {0};
		put_starter_name(&name, wanted, process->pid);
		/* Else the new one gets a number. */
		if (!text_error(&name) && !recording_rename(process->recording, text_string(&name)))
			process->moved_from = tm_strdup(wanted);
		text_done(&name);
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
	for (size_t i = 0; i < session->finished_count; i++) {
		struct session_finished *finished = &session->finished[i];
		if (!finished->dropped && finished->moved_from && finished->trace.path &&
		    access(finished->moved_from, F_OK) != 0 &&
		    rename_finished(finished, finished->moved_from))
			finished->moved_from = tm_free(finished->moved_from);
	}
}

/* ---- traces ---- */

/* Who reads the traces that are kept is to know what is in none. */
static void tell_missed(struct session *session, const char *not_entered)
{
	if (not_entered && !session->warning.code)
		tm_fail(&session->warning, -EPERM, "%s", not_entered);
}

void admit_drop(struct session *session, struct session_process *process)
{
	tell_missed(session, process->not_entered);
	recording_remove(process->recording);
	process->dropped = true;
}

static void drop_finished(struct session *session, struct session_finished *finished)
{
	const struct collector_trace *trace = &finished->trace;
	tell_missed(session, finished->not_entered);
	if (!finished->dropped && trace->path)
		output_remove(trace->path, trace->file_device, trace->file_inode);
	finished->dropped = true;
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
	for (size_t i = 0; i < session->finished_count; i++)
		if (session->finished[i].trace.pid != first->pid)
			drop_finished(session, &session->finished[i]);
	return true;
}

static enum starter_role better_role(enum starter_role role, enum starter_role best)
{
	bool better =
		role == STARTER_PROGRAM || (role == STARTER_BUILD_TOOL && best != STARTER_PROGRAM);
	return better ? role : best;
}

static void keep_best_roles(struct session *session)
{
	enum starter_role best = STARTER_STARTER;
	for (size_t i = 0; i < session->process_count; i++)
		best = better_role(session->processes[i].role, best);
	for (size_t i = 0; i < session->finished_count; i++)
		best = better_role(session->finished[i].role, best);
	for (size_t i = 0; i < session->process_count; i++) {
		struct session_process *process = &session->processes[i];
		if (process->role != best && process->role != STARTER_PROGRAM)
			admit_drop(session, process);
	}
	for (size_t i = 0; i < session->finished_count; i++) {
		struct session_finished *finished = &session->finished[i];
		if (finished->role != best && finished->role != STARTER_PROGRAM)
			drop_finished(session, finished);
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
