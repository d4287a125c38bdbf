/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/rendezvous.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/version.h"

static int random_hex(char *out, size_t digits)
{
	uint8_t bytes[64];
	if (getrandom(bytes, digits / 2, 0) != (ssize_t)(digits / 2))
		return -EIO;
	for (size_t i = 0; i < digits / 2; i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

static int bind_abstract(int fd, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t bytes = strlen(name);
	/* A leading NUL makes it abstract: no file, gone with the socket. */
	memcpy(address.sun_path + 1, name, bytes);
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes);
	return bind(fd, (struct sockaddr *)&address, length) || listen(fd, 128) ? -errno : 0;
}

/* "name:token", as the agent would write it. */
static int take_session(struct rendezvous *rendezvous, const char *session, char *ret_name,
			size_t room)
{
	const char *colon = strrchr(session, ':');
	size_t bytes = colon ? (size_t)(colon - session) : 0;
	if (!bytes || bytes >= room || strlen(colon + 1) != RENDEZVOUS_TOKEN_BYTES)
		return -EINVAL;
	memcpy(ret_name, session, bytes);
	ret_name[bytes] = '\0';
	memcpy(rendezvous->token, colon + 1, RENDEZVOUS_TOKEN_BYTES);
	return 0;
}

static int make_session(struct rendezvous *rendezvous, char *ret_name, size_t room)
{
	char random_part[17] = "";
	if (random_hex(random_part, 16) || random_hex(rendezvous->token, RENDEZVOUS_TOKEN_BYTES))
		return -EIO;
	snprintf(ret_name, room, "tidemark-%d-%s", (int)getpid(), random_part);
	return 0;
}

int rendezvous_open(struct rendezvous *rendezvous, const char *session, struct tm_error *err)
{
	char name[64];
	*rendezvous = (struct rendezvous){.fd = -1};
	if (session && take_session(rendezvous, session, name, sizeof name))
		return tm_fail(err, -EINVAL, "'%.60s' is not the name of a session", session);
	if (!session && make_session(rendezvous, name, sizeof name))
		return tm_fail(err, -EIO, "cannot get random numbers from the kernel");
	snprintf(rendezvous->session, sizeof rendezvous->session, "%s:%s", name, rendezvous->token);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error = fd < 0 ? -errno : bind_abstract(fd, name);
	if (error) {
		if (fd >= 0)
			close(fd);
		return tm_fail(err, error, "cannot make a unix socket: %s", strerror(-error));
	}
	rendezvous->fd = fd;
	return 0;
}

void rendezvous_close(struct rendezvous *rendezvous)
{
	if (rendezvous->fd >= 0)
		close(rendezvous->fd);
	rendezvous->fd = -1;
}

int rendezvous_accept(struct rendezvous *rendezvous, struct rendezvous_peer *ret_peer)
{
	int fd = accept4(rendezvous->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return -errno;
	struct ucred who = {0};
	socklen_t length = sizeof who;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length))
		who.pid = 0;
	*ret_peer =
		(struct rendezvous_peer){.fd = fd, .pid = who.pid, .since_ns = clock_steady_ns()};
	return 0;
}

/* In a time that does not tell how much of it was right. */
static bool token_matches(const char *a, const char *b)
{
	unsigned different = 0;
	for (size_t i = 0; i < RENDEZVOUS_TOKEN_BYTES; i++)
		different |= (unsigned)(a[i] ^ b[i]);
	return different == 0;
}

static int check_hello(const struct rendezvous *rendezvous, struct wire_hello *hello,
		       struct tm_error *err)
{
	hello->agent_version[sizeof hello->agent_version - 1] = '\0';
	if (hello->magic != WIRE_MAGIC || !token_matches(hello->token, rendezvous->token))
		return tm_fail(err, -EPROTO, "somebody unknown knocked at the session's socket");
	if (hello->version != WIRE_VERSION || strcmp(hello->agent_version, TIDEMARK_VERSION) != 0)
		return tm_fail(err, -EPROTONOSUPPORT,
			       "the agent is version %.23s (protocol %u), this tool is version %s "
			       "(protocol %u): use the agent that came with the tool",
			       hello->agent_version, hello->version, TIDEMARK_VERSION,
			       (unsigned)WIRE_VERSION);
	return 1;
}

int rendezvous_greet(const struct rendezvous *rendezvous, struct rendezvous_peer *peer,
		     struct tm_error *err)
{
	char *into = (char *)&peer->hello;
	ssize_t bytes = recv(peer->fd, into + peer->got, sizeof peer->hello - peer->got, 0);
	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (bytes <= 0)
		return tm_fail(err, -EPROTO, "a greeting at the session's socket was cut off");
	peer->got += (size_t)bytes;
	if (peer->got < sizeof peer->hello)
		return 0;
	return check_hello(rendezvous, &peer->hello, err);
}

void rendezvous_answer(struct rendezvous_peer *peer, int memory_fd)
{
	struct wire_welcome welcome = {.magic = WIRE_MAGIC,
				       .version = WIRE_VERSION,
				       .tool_version = TIDEMARK_VERSION,
				       .accept = memory_fd >= 0};
	struct iovec part = {.iov_base = &welcome, .iov_len = sizeof welcome};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	if (memory_fd >= 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof control.bytes;
		struct cmsghdr *head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(head), &memory_fd, sizeof memory_fd);
	}
	/* A new connection has room for this; a peer that has gone is its own affair. */
	if (sendmsg(peer->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		shutdown(peer->fd, SHUT_RDWR);
	close(peer->fd);
	peer->fd = -1;
}

void rendezvous_consent(const struct rendezvous_peer *peer)
{
	const struct wire_welcome welcome = {.magic = WIRE_MAGIC,
					     .version = WIRE_VERSION,
					     .tool_version = TIDEMARK_VERSION,
					     .accept = 1};
	if (send(peer->fd, &welcome, sizeof welcome, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		shutdown(peer->fd, SHUT_RDWR);
}
