/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/namer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collector/namer_serve.h"
#include "collector/names_wire.h"
#include "collector/procfs.h"

enum { CONTROL_FD = 40 };

/* Nothing of what the collector had open, least of all a pipe that somebody reads to its end. */
static _Noreturn void become_namer(int control, pid_t collector)
{
	struct rlimit files;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "tidemark-names");
	if (getppid() != collector)
		_exit(0);
	int null = open("/dev/null", O_RDWR);
	if (null < 0 || dup2(control, CONTROL_FD) < 0)
		_exit(1);
	/*
	 * Numbers that were in use stay so: a preloaded library (tcmalloc's libunwind) reads
	 * from a pipe it once opened, and must not find a file there that makes it wait.
	 */
	for (int fd = 0; fd < CONTROL_FD; fd++)
		if ((fd < 3 || fcntl(fd, F_GETFD) >= 0) && dup2(null, fd) < 0)
			_exit(1);
	fcntl(CONTROL_FD, F_SETFD, FD_CLOEXEC);
	syscall(SYS_close_range, CONTROL_FD + 1, ~0u, 0);
	/* One descriptor for each module. */
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	namer_serve(CONTROL_FD);
	_exit(0);
}

int namer_start(struct namer *namer, struct tm_error *err)
{
	int ends[2];
	pid_t self = getpid();
	*namer = (struct namer){.fd = -1};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return tm_fail(err, -errno, "no names can be looked up: %s", strerror(errno));
	pid_t pid = fork();
	if (pid == 0)
		become_namer(ends[1], self);
	int error = -errno;
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return tm_fail(err, error, "no names can be looked up: %s", strerror(-error));
	}
	*namer = (struct namer){.pid = pid, .fd = ends[0]};
	return 0;
}

static struct names_stream describe(pid_t pid, bool embed_source)
{
	struct names_stream message = {.head = {.kind = NAMES_STREAM},
				       .pid = pid,
				       .embed_source = embed_source,
				       .inner_pid = procfs_inner_pid(pid)};
	char path[64];
	struct stat facts;
	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	if (stat(path, &facts) == 0)
		message.user = facts.st_uid;
	if (!procfs_start_time(pid, &message.start_ns))
		message.start_ns = UINT64_MAX;
	return message;
}

int namer_stream(const struct namer *namer, pid_t pid, bool embed_source)
{
	struct names_stream message = describe(pid, embed_source);
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec part = {.iov_base = &message, .iov_len = sizeof message};
	struct msghdr header = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = &control,
				.msg_controllen = sizeof control.room};
	int ends[2];
	if (namer->pid <= 0)
		return -ESRCH;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.head), &ends[1], sizeof(int));
	/* Never waits: a namer that hangs on a dead disk must not hold the collector. */
	ssize_t sent = sendmsg(namer->fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
	int error = -errno;
	close(ends[1]);
	if (sent != (ssize_t)sizeof message) {
		close(ends[0]);
		return sent < 0 ? error : -EPROTO;
	}
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	return ends[0];
}

void namer_stop(struct namer *namer)
{
	if (namer->pid <= 0)
		return;
	close(namer->fd);
	/* Its workers die with it (namer_work.c). */
	kill(namer->pid, SIGKILL);
	while (waitpid(namer->pid, NULL, 0) < 0 && errno == EINTR)
		;
	*namer = (struct namer){.fd = -1};
}
