/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/args.h"
#include "harness/tap.h"

#include <stdio.h>
#include <string.h>

enum { OPT_OUTPUT = 1, OPT_QUIET, OPT_VERBOSE };
static const struct args_option options[] = {
	{OPT_OUTPUT, 'o', "output", "FILE", "where to"},
	{OPT_QUIET, 'q', "quiet", NULL, "say nothing"},
	{OPT_VERBOSE, 0, "verbose", NULL, NULL},
};

#define WORDS(...) ((const char *[]){"test", __VA_ARGS__, NULL})
#define ARGS(...)                                                                       \
	{                                                                               \
		.command = "test", .argv = (char **)(uintptr_t)WORDS(__VA_ARGS__),      \
		.argc = sizeof WORDS(__VA_ARGS__) / sizeof(char *) - 1, .at = 1,        \
		.options = options, .option_count = sizeof options / sizeof options[0], \
	}

static void check_next(struct args *args, int id, const char *value)
{
	const char *got = NULL;
	CHECK_EQ_I64(args_next(args, &got), id);
	CHECK_STR(got ? got : "(none)", value);
}

static void forms(void)
{
	struct args args = ARGS("--output", "a", "--output=b", "-o", "c", "-od", "-qoe",
				"--output=", "--", "-q", "--output");
	check_next(&args, OPT_OUTPUT, "a");
	check_next(&args, OPT_OUTPUT, "b");
	check_next(&args, OPT_OUTPUT, "c");
	check_next(&args, OPT_OUTPUT, "d");
	check_next(&args, OPT_QUIET, "(none)");
	check_next(&args, OPT_OUTPUT, "e");
	check_next(&args, OPT_OUTPUT, "");
	check_next(&args, ARGS_WORD, "-q");
	check_next(&args, ARGS_WORD, "--output");
	check_next(&args, ARGS_END, "(none)");
}

/* The options of the program that is run are not ours. */
static void stop_at_word(void)
{
	struct args args = ARGS("-q", "ls", "-q");
	args.stop_at_word = true;
	check_next(&args, OPT_QUIET, "(none)");
	check_next(&args, ARGS_END, "(none)");
	CHECK_STR(args.argv[args.at], "ls");
	struct args dashes = ARGS("-q", "--", "-strange");
	dashes.stop_at_word = true;
	check_next(&dashes, OPT_QUIET, "(none)");
	check_next(&dashes, ARGS_END, "(none)");
	CHECK_STR(dashes.argv[dashes.at], "-strange");
}

static void mistakes(void)
{
	struct args unknown = ARGS("--outptu");
	check_next(&unknown, ARGS_ERROR, "(none)");
	struct args letter = ARGS("-x");
	check_next(&letter, ARGS_ERROR, "(none)");
	struct args missing = ARGS("--output");
	check_next(&missing, ARGS_ERROR, "(none)");
	struct args surplus = ARGS("--quiet=3");
	check_next(&surplus, ARGS_ERROR, "(none)");
	struct args dash = ARGS("-");
	check_next(&dash, ARGS_WORD, "-");
}

static void numbers(void)
{
	const struct args args = ARGS("x");
	uint64_t number = 7;
	CHECK(args_number(&args, "--limit", "0", 10, &number));
	CHECK_EQ_U64(number, 0);
	CHECK(args_number(&args, "--limit", "10", 10, &number));
	CHECK_EQ_U64(number, 10);
	static const char *const bad[] = {"11", "-1", "", "1x", " 1", "99999999999999999999", "+1"};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		CHECK(!args_number(&args, "--limit", bad[i], 10, &number));
	CHECK_EQ_U64(number, 10);
	CHECK(!args_count(&args, "--depth", "0", 10, &number));
	CHECK(args_count(&args, "--depth", "1", 10, &number));
	CHECK_EQ_U64(number, 1);
}

static void distances(void)
{
	CHECK_EQ_U64(args_distance("report", "report"), 0);
	CHECK_EQ_U64(args_distance("reprot", "report"), 1);
	CHECK_EQ_U64(args_distance("repot", "report"), 1);
	CHECK_EQ_U64(args_distance("", "run"), 3);
	CHECK(args_is_near("reprot", "report"));
	CHECK(!args_is_near("ls", "run"));
	CHECK(!args_is_near("sqlite3", "report"));
	char word[300];
	memset(word, 'a', sizeof word - 1);
	word[sizeof word - 1] = '\0';
	CHECK(!args_is_near(word, "report"));
}

static const struct tap_case cases[] = {
	{.name = "options are understood in every usual form", .run = forms},
	{.name = "the program's own options are left to it", .run = stop_at_word},
	{.name = "mistakes in a command line are said", .run = mistakes},
	{.name = "numbers are whole and within bounds", .run = numbers},
	{.name = "a mistyped word is recognised", .run = distances},
};
TAP_MAIN(cases)
