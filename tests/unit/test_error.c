/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "harness/tap.h"

#include <errno.h>
#include <string.h>

static void carries_the_sentence(void)
{
	struct tm_error err = {0};
	CHECK_EQ_I64(tm_fail(&err, -EBADMSG, "'%s': block %u is damaged", "a.tide", 7), -EBADMSG);
	CHECK_EQ_I64(err.code, -EBADMSG);
	CHECK_STR(err.text, "'a.tide': block 7 is damaged");
}

static void cuts_what_is_too_long(void)
{
	struct tm_error err = {0};
	char path[1000];
	memset(path, 'x', sizeof path - 1);
	path[sizeof path - 1] = '\0';
	CHECK_EQ_I64(tm_fail(&err, -ENOENT, "%s", path), -ENOENT);
	CHECK_EQ_U64(strlen(err.text), sizeof err.text - 1);
}

static void keeps_errno_and_takes_null(void)
{
	errno = EINTR;
	struct tm_error err;
	CHECK_EQ_I64(tm_fail(NULL, -EIO, "nobody listens"), -EIO);
	CHECK_EQ_I64(tm_fail(&err, -EIO, "%m"), -EIO);
	CHECK_EQ_I64(errno, EINTR);
}

static const struct tap_case cases[] = {
	{.name = "an error says what happened to what", .run = carries_the_sentence},
	{.name = "a very long path does not overrun the message", .run = cuts_what_is_too_long},
	{.name = "reporting an error changes nothing else", .run = keeps_errno_and_takes_null},
};
TAP_MAIN(cases)
