/* SPDX-License-Identifier: Apache-2.0 */
#include "base/quote.h"
#include "harness/tap.h"

static void check_quoted(const char *argument, const char *want)
{
	struct text text = {0};
	quote_argument(&text, argument);
	CHECK_STR(text_string(&text), want);
	text_done(&text);
}

static void only_what_needs_it(void)
{
	check_quoted("ls", "ls");
	check_quoted("--size=10%", "--size=10%");
	check_quoted("", "''");
	check_quoted("a b", "'a b'");
	check_quoted("it's", "'it'\\''s'");
	check_quoted("$HOME", "'$HOME'");
	check_quoted("~", "'~'");
	check_quoted("caf\xc3\xa9", "'caf\xc3\xa9'");
}

static void terminals_are_safe(void)
{
	check_quoted("a\x1b[31m", "$'a\\x1b[31m'");
	check_quoted("\xff'\\", "$'\\xff\\'\\\\'");
}

static void commands_are_joined(void)
{
	static const char *const arguments[] = {"sqlite3", ":memory:", "select 1;", NULL};
	struct text text = {0};
	quote_command(&text, arguments);
	CHECK_STR(text_string(&text), "sqlite3 :memory: 'select 1;'");
	text_done(&text);
}

static const struct tap_case cases[] = {
	{.name = "a shown command can be pasted", .run = only_what_needs_it},
	{.name = "a command's arguments cannot drive the terminal", .run = terminals_are_safe},
	{.name = "a whole command is shown", .run = commands_are_joined},
};
TAP_MAIN(cases)
