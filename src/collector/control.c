/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/control.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.h"
#include "collector/control_name.h"

enum { WAIT_MS = 300, KNOCKS = 16, BACKLOG = 16 };

static void limit_waiting(int fd)
{
	const struct timeval limit = {.tv_usec = WAIT_MS * 1000};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

int control_open(struct control *control, struct tm_error *err)
{
	char name[100];
	uint64_t random = 0;
	struct sockaddr_un address;
	*control = (struct control){.fd = -1};
	if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
		random = (uint64_t)getpid();
	snprintf(name, sizeof name, CONTROL_PREFIX "%u-%d-%016llx", (unsigned)geteuid(),
		 (int)getpid(), (unsigned long long)random);
	socklen_t length = control_address(name, &address);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return tm_fail(err, -errno, "cannot make a unix socket: %s", strerror(errno));
	if (bind(fd, (struct sockaddr *)&address, length) || listen(fd, BACKLOG)) {
		int error = -errno;
		close(fd);
		return tm_fail(err, error, "cannot make a unix socket: %s", strerror(-error));
	}
	control->fd = fd;
	return 0;
}

void control_close(struct control *control)
{
	if (control->fd >= 0)
		close(control->fd);
	control->fd = -1;
}

static bool is_friend(int fd)
{
	struct ucred who = {0};
	socklen_t length = sizeof who;
	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) &&
	       (who.uid == geteuid() || who.uid == 0);
}

static bool send_reply(int fd, struct control_reply *reply)
{
	reply->magic = CONTROL_MAGIC;
	reply->version = CONTROL_VERSION;
	return send(fd, reply, sizeof *reply, MSG_NOSIGNAL) == (ssize_t)sizeof *reply;
}

static void send_end(int fd, enum control_kind kind, const char *text)
{
	struct control_reply reply = {.kind = kind};
	snprintf(reply.text, sizeof reply.text, "%s", text);
	if (!send_reply(fd, &reply))
		shutdown(fd, SHUT_RDWR);
}

static void answer(int fd, const struct control_ops *ops)
{
	struct control_request request;
	struct tm_error err = {0};
	limit_waiting(fd);
	if (!is_friend(fd)) {
		send_end(fd, CONTROL_REFUSED, "the session belongs to another user");
		return;
	}
	if (recv(fd, &request, sizeof request, 0) != (ssize_t)sizeof request ||
	    request.magic != CONTROL_MAGIC)
		return;
	if (request.version != CONTROL_VERSION || request.verb >= CONTROL_VERBS) {
		send_end(fd, CONTROL_REFUSED,
			 "the session is of another version of tidemark, which does not know this");
		return;
	}
	request.text[CONTROL_TEXT_MAX] = '\0';
	int error = request.verb == CONTROL_STATUS ? 0 : ops->obey(ops->ctx, &request, &err);
	struct control_reply reply = {.kind = CONTROL_PROCESS};
	for (size_t i = 0; ops->process(ops->ctx, i, &reply.process); i++)
		if (!send_reply(fd, &reply))
			return;
	send_end(fd, error ? CONTROL_REFUSED : CONTROL_DONE, err.text);
}

void control_serve(struct control *control, const struct control_ops *ops)
{
	for (int i = 0; i < KNOCKS; i++) {
		int fd = accept4(control->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			return;
		answer(fd, ops);
		close(fd);
	}
}
