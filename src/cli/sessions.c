/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sessions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "inject/proc.h"

struct gathering {
	struct sessions *sessions;
	size_t peer;
};

static void add_row(void *ctx, const struct control_process *process)
{
	struct gathering *gathering = ctx;
	struct sessions *sessions = gathering->sessions;
	struct session_row *grown =
		tm_grow_array(sessions->rows, sessions->row_count + 1, sizeof *grown);
	if (!grown) {
		sessions->no_memory = true;
		return;
	}
	sessions->rows = grown;
	struct session_row *row = &grown[sessions->row_count++];
	row->peer = gathering->peer;
	row->process = *process;
	/* In its own namespace it may have another number. */
	pid_t tool_pid = sessions->peers[gathering->peer].pid;
	row->is_near = process->tool_pid == tool_pid;
	if (tool_pid)
		row->process.tool_pid = tool_pid;
}

int sessions_find(struct sessions *ret, struct tm_error *err)
{
	*ret = (struct sessions){0};
	int error = control_peers(&ret->peers, &ret->peer_count, err);
	const struct control_request status = {.verb = CONTROL_STATUS};
	for (size_t i = 0; !error && i < ret->peer_count; i++) {
		struct gathering gathering = {.sessions = ret, .peer = i};
		struct tm_error why;
		if (ret->peers[i].is_ours &&
		    control_ask(&ret->peers[i], &status, add_row, &gathering, &why))
			ret->peers[i].is_ours = why.code != -EPERM; /* it ended, or is not ours */
	}
	if (!error && ret->no_memory)
		error = tm_fail(err, -ENOMEM, "out of memory");
	if (error)
		sessions_done(ret);
	return error;
}

void sessions_done(struct sessions *sessions)
{
	tm_free(sessions->peers);
	tm_free(sessions->rows);
	*sessions = (struct sessions){0};
}

const char *sessions_program_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

const char *sessions_state_name(uint32_t state)
{
	static const char *const names[] = {
		[CONTROL_WAITING] = "waiting",
		[CONTROL_RECORDING] = "recording",
		[CONTROL_PAUSED] = "paused",
		[CONTROL_OFF] = "off",
	};
	return state < sizeof names / sizeof names[0] ? names[state] : "?";
}

static bool is_number(const char *word, long *ret)
{
	char *end;
	errno = 0;
	*ret = strtol(word, &end, 10);
	return !errno && *word >= '0' && *word <= '9' && !*end;
}

bool sessions_fits(const struct session_row *row, const char *word)
{
	long number;
	if (is_number(word, &number) &&
	    (number == row->process.pid || number == row->process.tool_pid))
		return true;
	return !strcmp(sessions_program_name(row->process.program), word) ||
	       !strcmp(row->process.program, word) ||
	       /* By a link to the program: redis-server, busybox. */
	       (row->is_near && proc_is_named(row->process.pid, word));
}

int sessions_choose(const struct sessions *sessions, const char *word, struct sessions_choice *ret,
		    struct tm_error *err)
{
	const struct session_row *found = NULL;
	size_t count = 0, peers = 0;
	long number;
	bool by_number = is_number(word, &number);
	for (size_t i = 0; i < sessions->row_count; i++) {
		const struct session_row *row = &sessions->rows[i];
		if (!sessions_fits(row, word))
			continue;
		peers += !found || found->peer != row->peer;
		found = row;
		count++;
	}
	if (!found)
		return tm_fail(err, -ENOENT,
			       "nothing that fits '%s' is being recorded; 'tidemark list' shows "
			       "what is",
			       word);
	bool by_tool = by_number && number == found->process.tool_pid;
	if (count > 1 && !(by_tool && peers == 1))
		return tm_fail(err, -ENOTUNIQ, "'%s' fits %zu recorded processes; name one by pid",
			       word, count);
	*ret = (struct sessions_choice){.peer = found->peer,
					.pid = by_tool ? 0 : (pid_t)found->process.pid};
	return 0;
}
