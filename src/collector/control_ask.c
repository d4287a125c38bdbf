/* SPDX-License-Identifier: Apache-2.0 */
/* The asking side of control.h. */
#include "collector/control.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/memory.h"
#include "base/text.h"
#include "collector/control_name.h"

enum { LIST_BYTES_MAX = 64 << 20, WAIT_S = 5, REPLIES_MAX = 100000 };

/* The connected socket, or -errno; -EAGAIN: many stand before a recorder that does not answer. */
static int reach(const char *name, int flags, struct ucred *ret_who)
{
	struct sockaddr_un address;
	socklen_t length = control_address(name, &address), who_bytes = sizeof *ret_who;
	const struct timeval limit = {.tv_sec = WAIT_S};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	if (connect(fd, (struct sockaddr *)&address, length) ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret_who, &who_bytes)) {
		int error = -errno;
		close(fd);
		return error;
	}
	return fd;
}

static int add_peer(struct control_peer **peers, size_t *count, const char *name, size_t bytes)
{
	struct control_peer peer = {0};
	struct ucred who;
	if (bytes >= sizeof peer.name)
		return 0;
	memcpy(peer.name, name, bytes);
	for (size_t i = 0; i < *count; i++)
		if (!strcmp((*peers)[i].name, peer.name))
			return 0; /* an accepted connection has the same name */
	int fd = reach(peer.name, SOCK_NONBLOCK, &who);
	if (fd < 0)
		return 0; /* it has ended, or is stopped with all its places taken */
	close(fd);
	peer.pid = who.pid;
	peer.uid = who.uid;
	peer.is_ours = who.uid == geteuid() || geteuid() == 0;
	struct control_peer *grown = tm_grow_array(*peers, *count + 1, sizeof *grown);
	if (!grown)
		return -ENOMEM;
	*peers = grown;
	grown[(*count)++] = peer;
	return 0;
}

int control_peers(struct control_peer **ret, size_t *ret_count, struct tm_error *err)
{
	static const char sign[] = " @" CONTROL_PREFIX;
	struct text list = {0};
	struct control_peer *peers = NULL;
	size_t count = 0;
	int error = io_read_file("/proc/net/unix", LIST_BYTES_MAX, &list);
	if (error)
		return tm_fail(err, error, "cannot read /proc/net/unix: %s", strerror(-error));
	const char *at = text_string(&list);
	while (!error && (at = strstr(at, sign))) {
		at += 2;
		error = add_peer(&peers, &count, at, strcspn(at, "\n"));
	}
	text_done(&list);
	if (error) {
		tm_free(peers);
		return tm_fail(err, error, "out of memory");
	}
	*ret = peers;
	*ret_count = count;
	return 0;
}

static int converse(int fd, const struct control_request *request, control_process_fn fn, void *ctx,
		    struct tm_error *err)
{
	struct control_request own = *request;
	struct control_reply reply;
	own.magic = CONTROL_MAGIC;
	own.version = CONTROL_VERSION;
	if (send(fd, &own, sizeof own, MSG_NOSIGNAL) != (ssize_t)sizeof own)
		return tm_fail(err, -ECONNREFUSED, "the session has ended");
	for (int i = 0; i < REPLIES_MAX; i++) {
		if (recv(fd, &reply, sizeof reply, 0) != (ssize_t)sizeof reply ||
		    reply.magic != CONTROL_MAGIC || reply.version != CONTROL_VERSION)
			return tm_fail(err, -EPROTO,
				       "the session does not answer: it has ended, is stopped, or "
				       "is of another version of tidemark");
		reply.text[sizeof reply.text - 1] = '\0';
		reply.process.source[sizeof reply.process.source - 1] = '\0';
		reply.process.program[sizeof reply.process.program - 1] = '\0';
		reply.process.file[sizeof reply.process.file - 1] = '\0';
		if (reply.kind == CONTROL_REFUSED)
			return tm_fail(err, -EPERM, "%s", reply.text);
		if (reply.kind == CONTROL_DONE) {
			tm_fail(err, 0, "%s", reply.text);
			return 0;
		}
		if (fn)
			fn(ctx, &reply.process);
	}
	return tm_fail(err, -EPROTO, "the session says too much");
}

int control_ask(const struct control_peer *peer, const struct control_request *request,
		control_process_fn fn, void *ctx, struct tm_error *err)
{
	struct ucred who;
	int fd = reach(peer->name, 0, &who);
	if (fd < 0)
		return tm_fail(err, -ECONNREFUSED, "the session has ended");
	int error = who.uid == geteuid() || geteuid() == 0
			    ? converse(fd, request, fn, ctx, err)
			    : tm_fail(err, -EPERM, "the session belongs to another user");
	close(fd);
	return error;
}
