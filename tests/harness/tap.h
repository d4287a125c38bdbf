/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tiny test harness with TAP output. Each case runs in its own process with a
 * watchdog, so that a crash, a hang or a leak is that case's failure alone.
 *
 *	static void adds(void) { CHECK_EQ_U64(1 + 1, 2); }
 *	static const struct tap_case cases[] = {
 *		{ .name = "sums are right in the report", .run = adds },
 *	};
 *	TAP_MAIN(cases)
 *
 * A case's name says what a user loses when it fails. With a case's name as
 * argument the program runs only that case, without fork, for a debugger.
 * CHECK* notes a failure and goes on; REQUIRE ends the case.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tap_case {
	const char *name;
	void (*run)(void);
	unsigned seconds; /* watchdog; 0 = 60 */
};

/* Exit status: 0 if all passed, else 1. */
int tap_run(int argc, char **argv, const struct tap_case *cases, size_t count);

#define TAP_MAIN(cases)                                                            \
	int main(int argc, char **argv)                                            \
	{                                                                          \
		return tap_run(argc, argv, cases, sizeof cases / sizeof cases[0]); \
	}

/* The checks evaluate each argument once and tell whether they held. */
bool tap_check(bool ok, const char *file, int line, const char *text);
bool tap_check_u64(uint64_t got, uint64_t want, const char *file, int line, const char *text);
bool tap_check_i64(int64_t got, int64_t want, const char *file, int line, const char *text);
bool tap_check_str(const char *got, const char *want, const char *file, int line, const char *text);
bool tap_check_has(const char *got, const char *part, const char *file, int line, const char *text);
bool tap_check_mem(const void *got, const void *want, size_t bytes, const char *file, int line,
		   const char *text);
/* Further words about a failure, as a TAP comment. */
void tap_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* End this case: failed, or skipped with a reason. */
_Noreturn void tap_stop(void);
_Noreturn void tap_skip(const char *reason);

#define CHECK(condition)            tap_check((condition), __FILE__, __LINE__, #condition)
#define CHECK_EQ_U64(got, want)     tap_check_u64((got), (want), __FILE__, __LINE__, #got)
#define CHECK_EQ_I64(got, want)     tap_check_i64((got), (want), __FILE__, __LINE__, #got)
#define CHECK_STR(got, want)        tap_check_str((got), (want), __FILE__, __LINE__, #got)
#define CHECK_HAS(got, part)        tap_check_has((got), (part), __FILE__, __LINE__, #got)
#define CHECK_MEM(got, want, bytes) tap_check_mem((got), (want), (bytes), __FILE__, __LINE__, #got)
#define REQUIRE(condition)             \
	do {                           \
		if (!CHECK(condition)) \
			tap_stop();    \
	} while (0)
