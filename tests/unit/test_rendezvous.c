/* SPDX-License-Identifier: Apache-2.0 */
#include "base/version.h"
#include "collector/rendezvous.h"
#include "harness/tap.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* As the agent does it. */
static int dial(const struct rendezvous *rendezvous)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t bytes = (size_t)(strchr(rendezvous->session, ':') - rendezvous->session);
	memcpy(address.sun_path + 1, rendezvous->session, bytes);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes);
	REQUIRE(connect(fd, (struct sockaddr *)&address, length) == 0);
	return fd;
}

static struct wire_hello good_hello(const struct rendezvous *rendezvous)
{
	struct wire_hello hello = {.magic = WIRE_MAGIC,
				   .version = WIRE_VERSION,
				   .agent_version = TIDEMARK_VERSION,
				   .pid = (uint32_t)getpid()};
	memcpy(hello.token, strchr(rendezvous->session, ':') + 1, sizeof hello.token);
	return hello;
}

static void meet(struct rendezvous *rendezvous, int *ret_fd, struct rendezvous_peer *ret_peer)
{
	struct tm_error err;
	REQUIRE(rendezvous_open(rendezvous, NULL, &err) == 0);
	*ret_fd = dial(rendezvous);
	REQUIRE(!rendezvous_accept(rendezvous, ret_peer));
}

static void hands_over_the_memory(void)
{
	struct rendezvous rendezvous;
	struct rendezvous_peer peer;
	struct tm_error err = {0};
	int fd;
	meet(&rendezvous, &fd, &peer);
	CHECK_EQ_I64(peer.pid, getpid());
	CHECK_EQ_I64(rendezvous_greet(&rendezvous, &peer, &err), 0);
	struct wire_hello hello = good_hello(&rendezvous);
	/* In two pieces: a slow writer is not an error. */
	REQUIRE(send(fd, &hello, 10, 0) == 10);
	CHECK_EQ_I64(rendezvous_greet(&rendezvous, &peer, &err), 0);
	REQUIRE(send(fd, (char *)&hello + 10, sizeof hello - 10, 0) == sizeof hello - 10);
	CHECK_EQ_I64(rendezvous_greet(&rendezvous, &peer, &err), 1);
	int memory = memfd_create("test", 0);
	REQUIRE(write(memory, "tide", 4) == 4);
	rendezvous_answer(&peer, memory);
	struct wire_welcome welcome = {0};
	char control[CMSG_SPACE(sizeof(int))], text[4] = "";
	struct iovec part = {.iov_base = &welcome, .iov_len = sizeof welcome};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof control};
	CHECK_EQ_I64(recvmsg(fd, &message, 0), (ssize_t)sizeof welcome);
	CHECK_EQ_U64(welcome.accept, 1);
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	REQUIRE(head && head->cmsg_type == SCM_RIGHTS);
	int got;
	memcpy(&got, CMSG_DATA(head), sizeof got);
	CHECK_EQ_I64(pread(got, text, 4, 0), 4);
	CHECK_MEM(text, "tide", 4);
	rendezvous_close(&rendezvous);
}

static void check_refused(struct wire_hello hello, struct rendezvous *rendezvous, int fd,
			  struct rendezvous_peer *peer, int want, struct tm_error *err)
{
	REQUIRE(send(fd, &hello, sizeof hello, 0) == sizeof hello);
	CHECK_EQ_I64(rendezvous_greet(rendezvous, peer, err), want);
	rendezvous_answer(peer, -1);
	struct wire_welcome welcome = {0};
	CHECK_EQ_I64(recv(fd, &welcome, sizeof welcome, 0), (ssize_t)sizeof welcome);
	CHECK_EQ_U64(welcome.accept, 0);
	rendezvous_close(rendezvous);
}

static void refuses_strangers(void)
{
	struct rendezvous rendezvous;
	struct rendezvous_peer peer;
	struct tm_error err = {0};
	int fd;
	meet(&rendezvous, &fd, &peer);
	struct wire_hello hello = good_hello(&rendezvous);
	hello.token[31] ^= 1;
	check_refused(hello, &rendezvous, fd, &peer, -EPROTO, &err);
}

static void names_both_versions(void)
{
	struct rendezvous rendezvous;
	struct rendezvous_peer peer;
	struct tm_error err = {0};
	int fd;
	meet(&rendezvous, &fd, &peer);
	struct wire_hello hello = good_hello(&rendezvous);
	/* Not terminated: what the other side sends is not believed. */
	memset(hello.agent_version, '9', sizeof hello.agent_version);
	check_refused(hello, &rendezvous, fd, &peer, -EPROTONOSUPPORT, &err);
	CHECK_HAS(err.text, "99999");
	CHECK_HAS(err.text, TIDEMARK_VERSION);
}

static void survives_hanging_up(void)
{
	struct rendezvous rendezvous;
	struct rendezvous_peer peer;
	struct tm_error err = {0};
	int fd;
	meet(&rendezvous, &fd, &peer);
	REQUIRE(send(fd, "x", 1, 0) == 1);
	close(fd);
	CHECK_EQ_I64(rendezvous_greet(&rendezvous, &peer, &err), 0);
	CHECK_EQ_I64(rendezvous_greet(&rendezvous, &peer, &err), -EPROTO);
	rendezvous_answer(&peer, -1);
	CHECK_EQ_I64(peer.fd, -1);
	rendezvous_close(&rendezvous);
}

static void names_are_not_guessable(void)
{
	struct rendezvous a, b;
	struct tm_error err;
	REQUIRE(rendezvous_open(&a, NULL, &err) == 0 && rendezvous_open(&b, NULL, &err) == 0);
	CHECK(strcmp(a.session, b.session) != 0);
	CHECK(strcmp(a.token, b.token) != 0);
	CHECK_EQ_U64(strlen(a.token), RENDEZVOUS_TOKEN_BYTES);
	struct rendezvous_peer peer;
	CHECK_EQ_I64(rendezvous_accept(&a, &peer), -EAGAIN);
	rendezvous_close(&a);
	rendezvous_close(&b);
}

static const struct tap_case cases[] = {
	{.name = "the agent gets the session's memory", .run = hands_over_the_memory},
	{.name = "a process that does not know the token gets nothing", .run = refuses_strangers},
	{.name = "an agent of another version is refused and both are named",
	 .run = names_both_versions},
	{.name = "an agent that dies while greeting does no harm", .run = survives_hanging_up},
	{.name = "no other session can be joined by guessing", .run = names_are_not_guessable},
};
TAP_MAIN(cases)
