/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket: a session is found, asked and told; one that has ended is not found. */
#include "collector/control.h"

#include "base/memory.h"
#include "harness/tap.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct heard {
	unsigned verbs;
	bool named;
};

static bool tell(void *ctx, size_t index, struct control_process *ret)
{
	(void)ctx;
	if (index >= 2)
		return false;
	*ret = (struct control_process){.pid = 100 + (int)index, .state = CONTROL_PAUSED};
	strcpy(ret->program, "/bin/x");
	return true;
}

static int obey(void *ctx, const struct control_request *request, struct tm_error *err)
{
	struct heard *heard = ctx;
	heard->verbs |= 1u << request->verb;
	heard->named |= !strcmp(request->text, "a name");
	return request->verb == CONTROL_STOP ? tm_fail(err, -EBUSY, "not now")
					     : tm_fail(err, 0, "so it is");
}

static void count(void *ctx, const struct control_process *process)
{
	unsigned *rows = ctx;
	if (process->pid == 100 + (int)*rows && !strcmp(process->program, "/bin/x"))
		++*rows;
}

static bool find(pid_t pid, struct control_peer *ret)
{
	struct control_peer *peers;
	size_t found = 0;
	bool is_there = false;
	REQUIRE(control_peers(&peers, &found, NULL) == 0);
	for (size_t i = 0; i < found; i++)
		if (peers[i].pid == pid) {
			*ret = peers[i];
			is_there = true;
		}
	tm_free(peers);
	return is_there;
}

/* In the child: asks the session of its parent. The number of what went wrong. */
static int ask_all(pid_t session)
{
	struct control_peer peer;
	struct tm_error err = {0};
	unsigned rows = 0;
	struct control_request request = {.verb = CONTROL_STATUS};
	if (!find(session, &peer) || !peer.is_ours)
		return 1;
	if (control_ask(&peer, &request, count, &rows, &err) || rows != 2)
		return 2;
	request.verb = CONTROL_MARK;
	strcpy(request.text, "a name");
	if (control_ask(&peer, &request, NULL, NULL, &err) || strcmp(err.text, "so it is") != 0)
		return 3;
	request.verb = CONTROL_STOP;
	if (control_ask(&peer, &request, NULL, NULL, &err) != -EPERM ||
	    strcmp(err.text, "not now") != 0)
		return 4;
	request.verb = 77;
	if (control_ask(&peer, &request, NULL, NULL, &err) != -EPERM)
		return 5;
	return 0;
}

static void a_session_is_found_and_told(void)
{
	struct control control;
	struct heard heard = {0};
	struct control_peer peer;
	int status = 0;
	REQUIRE(control_open(&control, NULL) == 0);
	const struct control_ops ops = {.process = tell, .obey = obey, .ctx = &heard};
	pid_t session = getpid(), child = fork();
	if (!child)
		_exit(ask_all(session));
	while (waitpid(child, &status, WNOHANG) == 0) {
		struct pollfd knock = {.fd = control.fd, .events = POLLIN};
		if (poll(&knock, 1, 10) > 0)
			control_serve(&control, &ops);
	}
	CHECK(WIFEXITED(status));
	CHECK_EQ_I64(WEXITSTATUS(status), 0);
	CHECK(heard.named);
	CHECK_EQ_U64(heard.verbs, 1u << CONTROL_MARK | 1u << CONTROL_STOP);
	control_close(&control);
	CHECK(!find(session, &peer));
}

static const struct tap_case cases[] = {
	{.name = "a recording cannot be spoken to", .run = a_session_is_found_and_told},
};

TAP_MAIN(cases)
