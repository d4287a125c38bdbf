/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/tap.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEFAULT_SECONDS = 60, EXIT_FAILED = 1, EXIT_SKIPPED = 77 };

/* Of the case that runs in this process. Threads of a test may check, too. */
static atomic_uint failures;

void tap_note(const char *format, ...)
{
	char line[2000];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	/* One call per line: lines of threads and processes do not mix. */
	dprintf(STDOUT_FILENO, "# %s\n", line);
}

static bool verdict(bool ok)
{
	if (!ok)
		atomic_fetch_add(&failures, 1);
	return ok;
}

bool tap_check(bool ok, const char *file, int line, const char *text)
{
	if (!ok)
		tap_note("%s:%d: not true: %s", file, line, text);
	return verdict(ok);
}

bool tap_check_u64(uint64_t got, uint64_t want, const char *file, int line, const char *text)
{
	if (got != want)
		tap_note("%s:%d: %s is %llu (0x%llx), expected %llu (0x%llx)", file, line, text,
			 (unsigned long long)got, (unsigned long long)got, (unsigned long long)want,
			 (unsigned long long)want);
	return verdict(got == want);
}

bool tap_check_i64(int64_t got, int64_t want, const char *file, int line, const char *text)
{
	if (got != want)
		tap_note("%s:%d: %s is %lld, expected %lld", file, line, text, (long long)got,
			 (long long)want);
	return verdict(got == want);
}

bool tap_check_str(const char *got, const char *want, const char *file, int line, const char *text)
{
	bool ok = got && want ? strcmp(got, want) == 0 : got == want;
	if (!ok)
		tap_note("%s:%d: %s is \"%s\", expected \"%s\"", file, line, text,
			 got ? got : "(null)", want ? want : "(null)");
	return verdict(ok);
}

bool tap_check_has(const char *got, const char *part, const char *file, int line, const char *text)
{
	bool ok = got && strstr(got, part);
	if (!ok)
		tap_note("%s:%d: %s is \"%s\", should contain \"%s\"", file, line, text,
			 got ? got : "(null)", part);
	return verdict(ok);
}

bool tap_check_mem(const void *got, const void *want, size_t bytes, const char *file, int line,
		   const char *text)
{
	const unsigned char *a = got;
	const unsigned char *b = want;
	for (size_t i = 0; i < bytes; i++) {
		if (a[i] != b[i]) {
			tap_note("%s:%d: %s differs at byte %zu: 0x%02x, expected 0x%02x", file,
				 line, text, i, a[i], b[i]);
			return verdict(false);
		}
	}
	return true;
}

void tap_stop(void)
{
	exit(EXIT_FAILED);
}

void tap_skip(const char *reason)
{
	tap_note("SKIP %s", reason);
	exit(EXIT_SKIPPED);
}

static _Noreturn void run_here(const struct tap_case *one)
{
	one->run();
	exit(atomic_load(&failures) ? EXIT_FAILED : 0);
}

enum { LOOKS_EACH_S = 200 };

/* Wait for the end of the case, or kill it and all that it started in its group. */
static int wait_with_watchdog(pid_t child, unsigned seconds)
{
	int status = 0;
	int handle = (int)syscall(SYS_pidfd_open, child, 0);
	if (handle >= 0) {
		struct pollfd end = {.fd = handle, .events = POLLIN};
		if (poll(&end, 1, (int)seconds * 1000) == 0)
			tap_note("no end after %u s: killed", seconds);
		else
			seconds = 0;
		close(handle);
	}
	/* Without such handles (valgrind knows none) look every few milliseconds. */
	for (unsigned looks = seconds * LOOKS_EACH_S; handle < 0 && looks && seconds; looks--) {
		if (waitpid(child, &status, WNOHANG) == child) {
			kill(-child, SIGKILL);
			return status;
		}
		usleep(1000 * 1000 / LOOKS_EACH_S);
	}
	if (seconds)
		kill(-child, SIGKILL);
	waitpid(child, &status, 0);
	kill(-child, SIGKILL);
	return status;
}

static bool run_apart(const struct tap_case *one, size_t number)
{
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		setpgid(0, 0);
		run_here(one);
	}
	if (child < 0) {
		printf("not ok %zu - %s\n", number, one->name);
		return false;
	}
	setpgid(child, child);
	int status = wait_with_watchdog(child, one->seconds ? one->seconds : DEFAULT_SECONDS);
	bool skipped = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED;
	bool ok = skipped || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
	if (WIFSIGNALED(status))
		tap_note("ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	printf("%sok %zu - %s%s\n", ok ? "" : "not ", number, one->name, skipped ? " # SKIP" : "");
	return ok;
}

int tap_run(int argc, char **argv, const struct tap_case *cases, size_t count)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	bool all_ok = true;
	if (argc > 1) {
		for (size_t i = 0; i < count; i++)
			if (strcmp(argv[1], cases[i].name) == 0)
				run_here(&cases[i]);
		tap_note("no case is named '%s'", argv[1]);
		return EXIT_FAILED;
	}
	printf("1..%zu\n", count);
	for (size_t i = 0; i < count; i++)
		all_ok &= run_apart(&cases[i], i + 1);
	return all_ok ? 0 : EXIT_FAILED;
}
