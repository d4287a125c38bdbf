/* SPDX-License-Identifier: Apache-2.0 */
/* Suppressions: what a pattern matches, what a file may say. */
#include "base/memory.h"
#include "base/text.h"
#include "harness/tap.h"
#include "symbols/constant.h"
#include "views/suppress.h"

#include <errno.h>
#include <string.h>

static void matches(void)
{
	static const struct {
		const char *pattern, *text;
		bool want;
	} pairs[] = {
		{"foo", "foo", true},       {"foo", "xfoox", true},
		{"foo", "fo", false},       {"^foo", "foobar", true},
		{"^foo", "xfoo", false},    {"foo$", "xfoo", true},
		{"foo$", "foox", false},    {"^foo$", "foo", true},
		{"^foo$", "foofoo", false}, {"f*o", "xfabcox", true},
		{"^f*o$", "fabco", true},   {"^f*o$", "fabcox", false},
		{"a*b$", "abab", true},     {"*", "anything", true},
		{"^*$", "anything", true},  {"*foo*", "xfoox", true},
		{"a*b*c", "a-b-c", true},   {"a*b*c", "a-c-b", false},
		{"$", "x", false},          {"^$", "x", false},
		{"foo*$", "foobar", true},  {"libfoo.so", "/usr/lib/libfoo.so.3", true},
		{"foo", "", false},         {"*", "", false},
	};
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
		if (!CHECK(suppressions_match(pairs[i].pattern, pairs[i].text) == pairs[i].want))
			tap_note("%s and %s", pairs[i].pattern, pairs[i].text);
	CHECK(!suppressions_match("x", NULL));
}

static void reads(void)
{
	struct suppressions *s;
	struct tm_error err = {0};
	REQUIRE(suppressions_new(&s, &err) == 0);
	const char *text = "# comment\r\n\n  leak:one  \r\nrace:other\nleak:two words";
	CHECK_EQ_I64(suppressions_add(s, text, "file", &err), 0);
	REQUIRE(suppressions_count(s) == 2);
	CHECK_STR(suppressions_at(s, 0)->pattern, "one");
	CHECK_EQ_U64(suppressions_at(s, 0)->line, 3);
	CHECK_STR(suppressions_at(s, 1)->pattern, "two words");
	CHECK_STR(suppressions_at(s, 1)->origin, "file");
	CHECK_EQ_I64(suppressions_add(s, "leak:a\nleak:\n", "bad", &err), -EINVAL);
	CHECK_HAS(err.text, "bad:2:");
	CHECK_EQ_I64(suppressions_add(s, "leak:a\nanything\n", "bad", &err), -EINVAL);
	CHECK_EQ_U64(suppressions_count(s), 2);
	CHECK_EQ_I64(suppressions_add_builtin(s, &err), 0);
	CHECK(suppressions_count(s) > 2);
	CHECK(suppressions_find(s, 3) == NULL);
	CHECK_EQ_I64(suppressions_add_file(s, "/nonexistent", &err), -ENOENT);
	suppressions_free(s);
}

static void memory_runs_out(void)
{
	for (long n = 0; n < 12; n++) {
		struct suppressions *s;
		struct tm_error err = {0};
		REQUIRE(suppressions_new(&s, &err) == 0);
		tm_alloc_fail_at(n);
		int code = suppressions_add(s, "leak:a\nleak:b\n", "file", &err);
		tm_alloc_fail_at(-1);
		CHECK_EQ_U64(suppressions_count(s), code ? 0 : 2);
		suppressions_free(s);
	}
}

/* ---- constants of this very program ---- */

#ifdef __x86_64__
const char *constant_one(void);
__attribute__((noinline, used)) const char *constant_one(void)
{
	return "leak:of the test\nleak:itself";
}

const char *constant_none(int which);
__attribute__((noinline, used)) const char *constant_none(int which)
{
	return which == 3 ? "three" : "other";
}

static void constants(void)
{
	struct text text = {0};
	struct tm_error err = {0};
	const char *self = "/proc/self/exe";
	CHECK_EQ_I64(constant_string(self, NULL, 0, "constant_one", &text, &err), 0);
	CHECK_STR(text_string(&text), constant_one());
	CHECK_EQ_I64(constant_string(self, NULL, 0, "constant_none", &text, &err), -EOPNOTSUPP);
	CHECK_HAS(err.text, "constant_none");
	CHECK(constant_none(3) != constant_none(4));
	CHECK_EQ_I64(constant_string(self, NULL, 0, "no_such_function", &text, &err), -ENOENT);
	const uint8_t other[20] = {1};
	CHECK_EQ_I64(constant_string(self, other, 20, "constant_one", &text, &err), -ESTALE);
	CHECK(constant_string("/etc/passwd", NULL, 0, "x", &text, &err) < 0);
	CHECK_EQ_I64(constant_string("/nonexistent", NULL, 0, "x", &text, &err), -ENOENT);
	text_done(&text);
}
#else
static void constants(void)
{
	tap_skip("only x86-64 code is read");
}
#endif

static const struct tap_case cases[] = {
	{.name = "a suppression takes other stacks than LeakSanitizer's", .run = matches},
	{.name = "a file of suppressions is misread", .run = reads},
	{.name = "no memory for suppressions crashes the tool", .run = memory_runs_out},
	{.name = "the program's own suppressions are misread", .run = constants},
};

TAP_MAIN(cases)
