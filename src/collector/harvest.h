/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of processes that are done with: what stays of them. Part of the session's state; main
 * thread.
 */
#pragma once

#include "collector/collector.h"
#include "collector/starter.h"

struct session;
struct session_process;

/* What stays of an entry that is done with. */
struct session_finished {
	struct collector_trace trace;
	enum starter_role role;
	char *moved_from;  /* as of an entry; NULL: none */
	char *not_entered; /* likewise */
	bool dropped;      /* its trace was thrown away */
	bool settled;      /* with --keep: it stays */
};

/*
 * Of entries that are done with: what is to be told at the end; all else is given back. `wait`:
 * also of those whose files are still being finished.
 */
void session_harvest(struct session *session, bool wait);
/* Recordings that have ended, and whose files are still being finished. */
size_t session_unfinished(const struct session *session);
/* Takes the entry out, and frees it; those behind it move up. Its recording is finished. */
void session_forget_process(struct session *session, struct session_process *process);
/* Frees what it has, not itself. */
void session_finished_done(struct session_finished *finished);
/* What was recorded, when all is over. */
void session_fill_result(struct session *session, struct collector_result *result);
void session_free_entries(struct session *session);
