/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/namer_serve.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "collector/namer_stream.h"

enum { STREAMS_MAX = 4096, IDLE_MS = 60 * 1000 };

struct server {
	int control;
	struct namer_stream **streams;
	struct pollfd *polls; /* control; then each stream's two */
	size_t count, room;
};

static bool make_room(struct server *server)
{
	if (server->count < server->room)
		return true;
	size_t room = server->room ? server->room * 2 : 8;
	void *streams = tm_grow_array(server->streams, room, sizeof *server->streams);
	if (!streams || room > STREAMS_MAX)
		return false;
	server->streams = streams;
	void *polls = tm_grow_array(server->polls, room * 2 + 1, sizeof *server->polls);
	if (!polls)
		return false;
	server->polls = polls;
	server->room = room;
	return true;
}

static void add_stream(struct server *server, int fd, const struct names_stream *begin)
{
	struct namer_stream *stream = make_room(server) ? tm_alloc(sizeof *stream) : NULL;
	if (!stream || namer_stream_init(stream, fd, begin)) {
		tm_free(stream);
		close(fd);
		return;
	}
	server->streams[server->count++] = stream;
}

/* A new stream; false when the collector is gone. */
static bool read_control(struct server *server)
{
	struct names_stream message;
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = {.iov_base = &message, .iov_len = sizeof message};
	struct msghdr header = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = &control,
				.msg_controllen = sizeof control.room};
	ssize_t got = recvmsg(server->control, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR;
	struct cmsghdr *first = CMSG_FIRSTHDR(&header);
	if (got == (ssize_t)sizeof message && first && first->cmsg_type == SCM_RIGHTS) {
		int fd;
		memcpy(&fd, CMSG_DATA(first), sizeof fd);
		add_stream(server, fd, &message);
	}
	return got > 0;
}

static void drop_closed(struct server *server)
{
	size_t kept = 0;
	for (size_t i = 0; i < server->count; i++) {
		if (server->streams[i]->closed) {
			namer_stream_done(server->streams[i]);
			tm_free(server->streams[i]);
		} else {
			server->streams[kept++] = server->streams[i];
		}
	}
	server->count = kept;
}

static bool wait_and_read(struct server *server, uint64_t now_ns, uint64_t next_ns)
{
	size_t count = server->count;
	uint64_t wait_ms = next_ns > now_ns ? (next_ns - now_ns + 999999) / 1000000 : 0;
	server->polls[0] = (struct pollfd){.fd = server->control, .events = POLLIN};
	for (size_t i = 0; i < count; i++) {
		server->polls[1 + 2 * i] =
			(struct pollfd){.fd = server->streams[i]->fd, .events = POLLIN};
		server->polls[2 + 2 * i] =
			(struct pollfd){.fd = server->streams[i]->worker_fd, .events = POLLIN};
	}
	if (poll(server->polls, 1 + 2 * count, (int)(wait_ms < IDLE_MS ? wait_ms : IDLE_MS)) < 0)
		return true;
	for (size_t i = 0; i < count; i++) {
		if (server->polls[1 + 2 * i].revents)
			namer_stream_read(server->streams[i]);
		if (server->polls[2 + 2 * i].revents)
			namer_stream_reap(server->streams[i], clock_steady_ns());
	}
	return !server->polls[0].revents || read_control(server);
}

void namer_serve(int control_fd)
{
	struct server server = {.control = control_fd};
	if (!make_room(&server))
		return;
	bool more = true;
	while (more) {
		uint64_t now_ns = clock_steady_ns(), next_ns = UINT64_MAX;
		for (size_t i = 0; i < server.count; i++)
			namer_stream_work(server.streams[i], now_ns, &next_ns);
		drop_closed(&server);
		more = wait_and_read(&server, now_ns, next_ns);
	}
}
