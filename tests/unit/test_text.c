/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "base/memory.h"
#include "harness/tap.h"

#include <errno.h>
#include <string.h>

static void grows(void)
{
	struct text text = {0};
	CHECK_STR(text_string(&text), "");
	text_put(&text, "peak");
	text_put_char(&text, ' ');
	text_print(&text, "%d bytes", 1234);
	text_put_repeated(&text, '.', 3);
	text_put_bytes(&text, NULL, 0);
	CHECK_STR(text_string(&text), "peak 1234 bytes...");
	for (int i = 0; i < 1000; i++)
		text_print(&text, "%d,", i);
	CHECK_EQ_I64(text_error(&text), 0);
	CHECK_EQ_U64(text.length, strlen(text_string(&text)));
	text_clear(&text);
	CHECK_STR(text_string(&text), "");
	text_done(&text);
}

static void failure_sticks(void)
{
	struct text text = {0};
	text_put(&text, "kept");
	tm_alloc_fail_at(0);
	text_put_repeated(&text, 'x', 1000);
	text_put(&text, "lost");
	CHECK_EQ_I64(text_error(&text), -ENOMEM);
	CHECK_STR(text_string(&text), "kept");
	char *string = NULL;
	CHECK_EQ_I64(text_take(&text, &string), -ENOMEM);
	CHECK(!string);
	text_clear(&text);
	text_put(&text, "again");
	CHECK_STR(text_string(&text), "again");
	text_done(&text);
}

static void hands_over(void)
{
	struct text text = {0};
	char *string = NULL;
	REQUIRE(text_take(&text, &string) == 0);
	CHECK_STR(string, "");
	string = tm_free(string);
	text_put(&text, "mine");
	REQUIRE(text_take(&text, &string) == 0);
	CHECK_STR(string, "mine");
	CHECK_STR(text_string(&text), "");
	tm_free(string);
}

static void terminals_are_safe(void)
{
	struct text text = {0};
	static const char name[] = "a\x1b[31m\nb\xff\xc2\x9b \xc3\xa9";
	text_put_visible(&text, name, sizeof name - 1);
	CHECK_STR(text_string(&text), "a\\x1b[31m\\x0ab\\xff\\xc2\\x9b \xc3\xa9");
	text_done(&text);
}

static const struct tap_case cases[] = {
	{.name = "long lines are not cut", .run = grows},
	{.name = "lack of memory is noticed, not printed over", .run = failure_sticks},
	{.name = "a string can be handed over", .run = hands_over},
	{.name = "a function's name cannot drive the terminal", .run = terminals_are_safe},
};
TAP_MAIN(cases)
