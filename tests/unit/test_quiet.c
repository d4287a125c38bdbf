/* SPDX-License-Identifier: Apache-2.0 */
/* A write that fails must leave no trace in the program's signals. */
#include "agent/quiet.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "harness/tap.h"

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
	(void)number;
	caught++;
}

static bool waits(int number)
{
	sigset_t pending;
	sigpending(&pending);
	return sigismember(&pending, number) == 1;
}

static bool is_blocked(int number)
{
	sigset_t mask;
	sigprocmask(SIG_SETMASK, NULL, &mask);
	return sigismember(&mask, number) == 1;
}

/* Everything a program may have made of the signal. */
static void check_untouched(int number, int fd, long wanted)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, number);
	void (*const handlers[])(int) = {SIG_DFL, SIG_IGN, on_signal};
	for (int i = 0; i < 3; i++) {
		signal(number, handlers[i]);
		CHECK_EQ_I64(quiet_write(fd, "tide", 4), wanted);
		CHECK(!waits(number) && !is_blocked(number));
		sigprocmask(SIG_BLOCK, &set, NULL);
		CHECK_EQ_I64(quiet_write(fd, "tide", 4), wanted);
		CHECK(!waits(number) && is_blocked(number));
		sigprocmask(SIG_UNBLOCK, &set, NULL);
	}
	CHECK_EQ_I64(caught, 0);
	/* Its own signal, which waited before, is still there. */
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(number);
	CHECK_EQ_I64(quiet_write(fd, "tide", 4), wanted);
	CHECK(waits(number));
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	CHECK_EQ_I64(caught, 1);
}

static void writes(void)
{
	char text[8] = "";
	int ends[2];
	REQUIRE(pipe(ends) == 0);
	CHECK_EQ_I64(quiet_write(ends[1], "tide", 4), 4);
	CHECK_EQ_I64(read(ends[0], text, sizeof text), 4);
	CHECK_MEM(text, "tide", 4);
	CHECK_EQ_I64(quiet_write(-1, "tide", 4), -EBADF);
	CHECK(!is_blocked(SIGPIPE) && !is_blocked(SIGTTOU) && !is_blocked(SIGXFSZ));
}

static void nobody_reads(void)
{
	int ends[2];
	REQUIRE(pipe(ends) == 0 && close(ends[0]) == 0);
	check_untouched(SIGPIPE, ends[1], -EPIPE);
}

static void no_file_grows(void)
{
	struct rlimit before, none;
	int fd = memfd_create("test", 0);
	REQUIRE(fd >= 0 && getrlimit(RLIMIT_FSIZE, &before) == 0);
	none = (struct rlimit){0, before.rlim_max};
	REQUIRE(setrlimit(RLIMIT_FSIZE, &none) == 0);
	check_untouched(SIGXFSZ, fd, -EFBIG);
	REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
}

static const struct tap_case cases[] = {
	{.name = "what is written arrives, other errors are told", .run = writes},
	{.name = "a pipe that nobody reads raises nothing", .run = nobody_reads},
	{.name = "a file size limit raises nothing", .run = no_file_grows},
};
TAP_MAIN(cases)
