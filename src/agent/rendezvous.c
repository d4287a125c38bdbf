/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rendezvous.h"

#include <asm/socket.h>
#include <linux/mman.h>

#include "agent/agent.h"
#include "agent/memory_ops.h"
#include "agent/patches.h"
#include "agent/sys.h"
#include "base/version.h"

enum {
	TOKEN_BYTES = 32,
	UNIX_FAMILY = 1,
	STREAM_CLOEXEC = 1 | 02000000,
	MSG_NOSIGNAL_FLAG = 0x4000,
	MSG_CMSG_CLOEXEC_FLAG = 0x40000000,
	RIGHTS = 1,
	TIMEOUT_S = 5,
	LOADED_TIMEOUT_S = 1,  /* of what the program may do a thousand times */
	STEADY_CLOCK = 1,      /* CLOCK_MONOTONIC */
	ERROR_INTERRUPTED = 4, /* EINTR */
	SYS_NR_FSTAT_ = 5,
	STAT_WORDS = 18,
	STAT_DEVICE = 0,
	STAT_NUMBER = 1,
};

/* As the kernel lays them out. */
struct socket_name {
	uint16_t family;
	char path[108];
};
struct message {
	void *name;
	uint32_t name_bytes;
	uint32_t pad;
	struct sys_iovec *parts;
	size_t part_count;
	void *control;
	size_t control_bytes;
	uint32_t flags;
	uint32_t pad2;
};
struct control_message {
	size_t bytes;
	int level;
	int type;
	int fd;
	int pad;
};

static const struct rendezvous_link nobody = {.fd = -1};

static int64_t now_seconds(void)
{
	struct sys_timespec now = {0, 0};
	sys_clock_gettime(STEADY_CLOCK, &now);
	return now.seconds;
}

static int64_t deadline(void)
{
	return now_seconds() + TIMEOUT_S;
}

/*
 * A program may get signals all the time (a profiler's, a timer's), and a call with a time-out
 * is not begun again by the kernel. Bounded: the time-out alone would begin anew each time.
 */
static bool interrupted(long result, int64_t end)
{
	return result == -ERROR_INTERRUPTED && now_seconds() < end;
}

/* Device and number of what is open there; 0: nothing, or the kernel does not say. */
static uint64_t identity_of(int fd)
{
	uint64_t facts[STAT_WORDS];
	if (sys_failed(sys_call3(SYS_NR_FSTAT_, fd, (long)facts, 0)))
		return 0;
	return facts[STAT_DEVICE] << 32 ^ facts[STAT_NUMBER];
}

static bool is_ours(struct rendezvous_link link)
{
	return !link.socket || identity_of(link.fd) == link.socket;
}

static void hang_up(struct rendezvous_link link)
{
	if (is_ours(link))
		sys_close(link.fd);
}

static struct rendezvous_link connect_to(const char *name, size_t name_bytes, uint32_t kind)
{
	struct socket_name address = {.family = UNIX_FAMILY};
	if (name_bytes + 1 > sizeof address.path)
		return nobody;
	memcpy(address.path + 1, name, name_bytes); /* abstract: a NUL first */
	int fd = sys_socket(UNIX_FAMILY, STREAM_CLOEXEC, 0);
	if (fd < 0)
		return nobody;
	const struct rendezvous_link link = {fd, identity_of(fd)};
	const struct sys_timespec timeout = {
		kind == WIRE_HELLO_LOADED ? LOADED_TIMEOUT_S : TIMEOUT_S, 0};
	sys_call6(SYS_NR_SETSOCKOPT, fd, SOL_SOCKET, SO_RCVTIMEO_OLD, (long)&timeout,
		  sizeof timeout, 0);
	sys_call6(SYS_NR_SETSOCKOPT, fd, SOL_SOCKET, SO_SNDTIMEO_OLD, (long)&timeout,
		  sizeof timeout, 0);
	int64_t end = deadline();
	long got;
	do
		got = sys_connect(fd, &address, sizeof address.family + 1 + name_bytes);
	while (interrupted(got, end));
	if (got < 0) {
		hang_up(link);
		return nobody;
	}
	return link;
}

/* It is one thread that will do it. */
static bool asks(uint32_t kind)
{
	return kind == WIRE_HELLO_EXEC || kind == WIRE_HELLO_SPAWN;
}

static bool say_hello(int fd, const char *token, uint32_t kind)
{
	struct wire_hello hello = {.magic = WIRE_MAGIC,
				   .version = WIRE_VERSION,
				   .agent_version = TIDEMARK_VERSION,
				   .pid = (uint32_t)(asks(kind) ? sys_gettid() : sys_getpid()),
				   .forked = kind,
				   .closes = atomic_load(&agent.closes),
				   .glue = agent_fixed.injected ? 0 : (uintptr_t)tidemark_patched};
	memcpy(hello.token, token, TOKEN_BYTES);
	struct sys_iovec part = {&hello, sizeof hello};
	struct message message = {.parts = &part, .part_count = 1};
	int64_t end = deadline();
	long sent;
	do
		sent = sys_sendmsg(fd, &message, MSG_NOSIGNAL_FLAG);
	while (interrupted(sent, end));
	return sent == (long)sizeof hello;
}

/* True: welcome. *ret_session: the descriptor that came along, or -1. */
static bool receive_welcome(int fd, int *ret_session)
{
	struct wire_welcome welcome = {0};
	struct control_message control = {0};
	struct sys_iovec part = {&welcome, sizeof welcome};
	struct message message = {.parts = &part,
				  .part_count = 1,
				  .control = &control,
				  .control_bytes = sizeof control};
	int64_t end = deadline();
	long got;
	do
		got = sys_recvmsg(fd, &message, MSG_CMSG_CLOEXEC_FLAG);
	while (interrupted(got, end));
	*ret_session = message.control_bytes >= sizeof control - sizeof control.pad &&
				       control.level == SOL_SOCKET && control.type == RIGHTS
			       ? control.fd
			       : -1;
	return got == (long)sizeof welcome && welcome.magic == WIRE_MAGIC &&
	       welcome.version == WIRE_VERSION && welcome.accept;
}

/* The session's descriptor, or -1. */
static int receive_session(int fd)
{
	int session = -1;
	if (receive_welcome(fd, &session))
		return session;
	if (session >= 0)
		sys_close(session);
	return -1;
}

/* In the place of the session before: its addresses stay good. */
static bool put_over(void *base, uint64_t bytes, const struct wire_map *map)
{
	const struct wire_map *old = &agent.map;
	if (!old->control)
		return true;
	if (map->stream_count != old->stream_count || map->chunk_count != old->chunk_count ||
	    map->node_count != old->node_count)
		return false;
	long moved = sys_call6(SYS_NR_MREMAP, (long)base, (long)bytes, (long)bytes,
			       MREMAP_MAYMOVE | MREMAP_FIXED, (long)old->control, 0);
	return !sys_failed(moved);
}

static bool map_session(int fd, struct wire_map *ret_map)
{
	struct wire_control *head = sys_mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	if (sys_failed((long)head))
		return false;
	uint64_t bytes = head->total_bytes;
	sys_munmap(head, WIRE_PAGE_BYTES);
	void *base =
		sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (sys_failed((long)base))
		return false;
	/* A child must not even see it: it belongs to this process. */
	if (sys_failed(sys_madvise(base, bytes, MADV_DONTFORK)) ||
	    wire_map_init(ret_map, base, bytes) || !put_over(base, bytes, ret_map)) {
		sys_munmap(base, bytes);
		return false;
	}
	sys_madvise(ret_map->control, bytes, MADV_DONTDUMP); /* a core file would have all of it */
	return !agent.map.control || !wire_map_init(ret_map, agent.map.control, bytes);
}

bool rendezvous_map(int fd, struct wire_map *ret_map)
{
	struct wire_map map;
	bool mapped = map_session(fd, &map);
	sys_close(fd);
	if (mapped)
		*ret_map = map;
	return mapped;
}

/* A connection on which hello was said. */
static struct rendezvous_link greet(const char *session, uint32_t kind)
{
	size_t bytes = strlen(session);
	if (bytes <= TOKEN_BYTES + 1 || session[bytes - TOKEN_BYTES - 1] != ':')
		return nobody;
	struct rendezvous_link link = connect_to(session, bytes - TOKEN_BYTES - 1, kind);
	if (link.fd < 0 || say_hello(link.fd, session + bytes - TOKEN_BYTES, kind))
		return link;
	hang_up(link);
	return nobody;
}

int rendezvous_call(const char *session, uint32_t kind)
{
	struct rendezvous_link link = greet(session, kind);
	if (link.fd < 0)
		return -1;
	int memory = receive_session(link.fd);
	hang_up(link);
	return memory;
}

struct rendezvous_link rendezvous_ask(const char *session, uint32_t kind,
				      const struct wire_ask *ask)
{
	struct sys_iovec part = {(void *)(uintptr_t)ask, sizeof *ask};
	struct message message = {.parts = &part, .part_count = 1};
	struct rendezvous_link link = greet(session, kind);
	int memory = -1;
	if (link.fd < 0)
		return nobody;
	if (sys_sendmsg(link.fd, &message, MSG_NOSIGNAL_FLAG) == (long)sizeof *ask &&
	    receive_welcome(link.fd, &memory))
		return link;
	if (memory >= 0)
		sys_close(memory);
	hang_up(link);
	return nobody;
}

void rendezvous_withdraw(struct rendezvous_link link)
{
	char byte = 0;
	struct sys_iovec part = {&byte, 1};
	struct message message = {.parts = &part, .part_count = 1};
	if (!is_ours(link))
		return;
	sys_sendmsg(link.fd, &message, MSG_NOSIGNAL_FLAG);
	sys_close(link.fd);
}
