/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that fails and a clock that is set, for the recorder alone: preloaded,
 * it acts only in a program called "tidemark", and only on files "*.tide".
 *   FAULTY_AFTER=N   after N bytes writes fail with EIO ...
 *   FAULTY_TIMES=K   ... so often; then the device is well again (default: for ever)
 *   FAULTY_SLOW=K    the first K writes take long ...
 *   FAULTY_SLOW_MS=M ... so long, each ...
 *   FAULTY_SLOW_AT=N ... from the one on that follows N others
 *   FAULTY_STILL=1   ... and meanwhile nothing else of the recorder gets on
 *   FAULTY_SYNCS=F   each fdatasync() adds a byte to the file F
 *   FAULTY_CLOCK=S   every other look at the wall clock shows S seconds more
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool is_recorder;
static const char *syncs;
static long long fail_after = -1, fail_times = -1, slow_writes, slow_ms, slow_at, still, clock_step;
static atomic_llong written, failures, writes, waiting, looks;
static int (*real_poll)(struct pollfd *, nfds_t, int);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_fdatasync)(int);
static int (*real_clock)(clockid_t, struct timespec *);

static long long number(const char *name, long long otherwise)
{
	const char *text = getenv(name);
	return text ? atoll(text) : otherwise;
}

/* On the first call: the C library asks for the time before constructors have run. */
static void prepare(void)
{
	char program[512] = "";
	if (real_clock)
		return;
	real_pwrite = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
	real_fdatasync = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
	real_poll = (int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll");
	ssize_t bytes = readlink("/proc/self/exe", program, sizeof program - 1);
	const char *slash = bytes > 0 ? strrchr(program, '/') : NULL;
	is_recorder = slash && !strcmp(slash, "/tidemark");
	syncs = getenv("FAULTY_SYNCS");
	fail_after = number("FAULTY_AFTER", -1);
	fail_times = number("FAULTY_TIMES", -1);
	slow_writes = number("FAULTY_SLOW", 0);
	slow_ms = number("FAULTY_SLOW_MS", 0);
	slow_at = number("FAULTY_SLOW_AT", 0);
	still = number("FAULTY_STILL", 0);
	clock_step = number("FAULTY_CLOCK", 0);
	real_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
}

static bool is_trace(int fd)
{
	char link[64], path[512] = "";
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t bytes = readlink(link, path, sizeof path - 1);
	return bytes > 5 && !strcmp(path + bytes - 5, ".tide");
}

static bool must_fail(int fd, size_t bytes)
{
	if (!is_recorder || fail_after < 0 || !is_trace(fd))
		return false;
	if (atomic_fetch_add(&written, (long long)bytes) + (long long)bytes <= fail_after)
		return false;
	return fail_times < 0 || atomic_fetch_add(&failures, 1) < fail_times;
}

static bool must_wait(int fd)
{
	if (!is_recorder || !slow_writes || !is_trace(fd))
		return false;
	long long before = atomic_fetch_add(&writes, 1);
	return before >= slow_at && before < slow_at + slow_writes;
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
	prepare();
	if (must_fail(fd, bytes)) {
		errno = EIO;
		return -1;
	}
	if (must_wait(fd)) {
		atomic_fetch_add(&waiting, 1);
		usleep((useconds_t)slow_ms * 1000);
		atomic_fetch_sub(&waiting, 1);
	}
	return real_pwrite(fd, data, bytes, offset);
}

int poll(struct pollfd *polls, nfds_t count, int timeout_ms)
{
	prepare();
	int result = real_poll(polls, count, timeout_ms);
	while (is_recorder && still && atomic_load(&waiting))
		usleep(1000);
	return result;
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t offset)
{
	return pwrite(fd, data, bytes, offset);
}

int fdatasync(int fd)
{
	prepare();
	int out = is_recorder && syncs && is_trace(fd)
			  ? open(syncs, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)
			  : -1;
	int result = real_fdatasync(fd);
	if (out >= 0 && (write(out, "s", 1) != 1 || close(out)))
		return -1;
	return result;
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	prepare();
	int result = real_clock(clock, ret);
	if (is_recorder && clock == CLOCK_REALTIME && atomic_fetch_add(&looks, 1) % 2)
		ret->tv_sec += clock_step;
	return result;
}
