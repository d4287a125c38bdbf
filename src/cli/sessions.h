/* SPDX-License-Identifier: Apache-2.0 */
/* What is being recorded on this machine, as far as this user may know. */
#pragma once

#include "base/error.h"
#include "collector/control.h"

#include <stdbool.h>
#include <stddef.h>

struct session_row {
	size_t peer; /* which session */
	struct control_process process;
	bool is_near; /* process.pid is its number here, too */
};

struct sessions {
	struct control_peer *peers;
	size_t peer_count;
	struct session_row *rows; /* one per recorded process */
	size_t row_count;
	bool no_memory;
};

/* Asks every session of this user (root: of all users). */
TM_MUST_CHECK int sessions_find(struct sessions *ret, struct tm_error *err);
void sessions_done(struct sessions *sessions);

/* Which one is meant by a word of the command line. */
struct sessions_choice {
	size_t peer;
	pid_t pid; /* of the recorded process; 0: all of the session */
};
/*
 * WORD is the pid of a recorded program or of its tidemark, or a program's name.
 * -ENOENT, -ENOTUNIQ with a sentence.
 */
TM_MUST_CHECK int sessions_choose(const struct sessions *sessions, const char *word,
				  struct sessions_choice *ret, struct tm_error *err);
/* Does this row fit the word? By pid or by name. */
bool sessions_fits(const struct session_row *row, const char *word);
const char *sessions_state_name(uint32_t state);
/* The last part of a path. */
const char *sessions_program_name(const char *path);
