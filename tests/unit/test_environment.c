/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "collector/environment.h"
#include "collector/starter.h"
#include "harness/tap.h"

#include <errno.h>
#include <string.h>

static char path_entry[] = "PATH=/bin", empty_entry[] = "EMPTY=", odd_entry[] = "no equals sign";
static char old_preload[] = "LD_PRELOAD=a.so b.so:/x/agent.so::c.so";
static char old_session[] = "TIDEMARK_SESSION=another:one", near_entry[] = "LD_PRELOADED=1";

static struct environment_options options(char *const *from)
{
	return (struct environment_options){
		.from = from, .agent_path = "/x/agent.so", .session = "name:token"};
}

static size_t count_of(char **made, const char *entry)
{
	size_t count = 0;
	for (size_t i = 0; made[i]; i++)
		count += strcmp(made[i], entry) == 0;
	return count;
}

static size_t length(char *const *made)
{
	size_t count = 0;
	while (made[count])
		count++;
	return count;
}

static void changes_two_variables(void)
{
	char *from[] = {path_entry, empty_entry, odd_entry, near_entry, NULL}, **made;
	struct environment_options with = options(from);
	REQUIRE(environment_new(&with, &made, NULL) == 0);
	CHECK_EQ_U64(length(made), length(from) + 2);
	for (size_t i = 0; from[i]; i++)
		CHECK_EQ_U64(count_of(made, from[i]), 1);
	CHECK_EQ_U64(count_of(made, "LD_PRELOAD=/x/agent.so"), 1);
	CHECK_EQ_U64(count_of(made, "TIDEMARK_SESSION=name:token"), 1);
	environment_free(made);
}

static void keeps_other_preloads(void)
{
	char *from[] = {old_preload, old_session, NULL}, **made;
	struct environment_options with = options(from);
	REQUIRE(environment_new(&with, &made, NULL) == 0);
	CHECK_EQ_U64(length(made), 2);
	CHECK_EQ_U64(count_of(made, "LD_PRELOAD=/x/agent.so:a.so:b.so:c.so"), 1);
	CHECK_EQ_U64(count_of(made, "TIDEMARK_SESSION=name:token"), 1);
	environment_free(made);
	with.first = "libasan.so.8";
	REQUIRE(environment_new(&with, &made, NULL) == 0);
	CHECK_EQ_U64(count_of(made, "LD_PRELOAD=libasan.so.8:/x/agent.so:a.so:b.so:c.so"), 1);
	environment_free(made);
}

static void refuses_paths_the_loader_cannot_take(void)
{
	char *from[] = {NULL}, **made = NULL;
	struct tm_error err = {0};
	struct environment_options with = options(from);
	with.agent_path = "/my programs/agent.so";
	CHECK_EQ_I64(environment_new(&with, &made, &err), -EINVAL);
	CHECK_HAS(err.text, "/my programs/agent.so");
}

static void survives_lack_of_memory(void)
{
	char *from[] = {old_preload, path_entry, NULL};
	for (long n = 0; n < 8; n++) {
		char **made = NULL;
		struct environment_options with = options(from);
		tm_alloc_fail_at(n);
		int error = environment_new(&with, &made, NULL);
		tm_alloc_fail_at(-1);
		CHECK(error == 0 || error == -ENOMEM);
		environment_free(made);
	}
}

static void knows_starters(void)
{
	CHECK_EQ_U64(starter_role("/bin/sh", "-c"), STARTER_STARTER);
	CHECK_EQ_U64(starter_role("/usr/bin/dash", ""), STARTER_STARTER);
	CHECK_EQ_U64(starter_role("/usr/bin/env", ""), STARTER_STARTER);
	CHECK_EQ_U64(starter_role("/usr/bin/node", "/usr/bin/npm"), STARTER_STARTER);
	CHECK_EQ_U64(starter_role("/usr/bin/node", "server.js"), STARTER_PROGRAM);
	CHECK_EQ_U64(starter_role("/usr/bin/python3.11", "x.py"), STARTER_PROGRAM);
	CHECK_EQ_U64(starter_role("/usr/bin/python3.11", "/usr/bin/poetry"), STARTER_STARTER);
	CHECK_EQ_U64(starter_role("/usr/bin/x86_64-linux-gnu-gcc-12", ""), STARTER_BUILD_TOOL);
	CHECK_EQ_U64(starter_role("/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus", ""),
		     STARTER_BUILD_TOOL);
	CHECK_EQ_U64(starter_role("/t/release/build/x/build-script-build", ""), STARTER_BUILD_TOOL);
	CHECK_EQ_U64(starter_role("/opt/shop", ""), STARTER_PROGRAM);
	CHECK_EQ_U64(starter_role("/opt/my-ld", ""), STARTER_PROGRAM);
	CHECK_EQ_U64(starter_role("", ""), STARTER_PROGRAM);
}

static const struct tap_case cases[] = {
	{.name = "the program's environment is its own but for two variables",
	 .run = changes_two_variables},
	{.name = "other preloaded libraries stay", .run = keeps_other_preloads},
	{.name = "a path that the loader would cut is refused",
	 .run = refuses_paths_the_loader_cannot_take},
	{.name = "no memory is an error, not a crash", .run = survives_lack_of_memory},
	{.name = "shells and their like are told from programs", .run = knows_starters},
};
TAP_MAIN(cases)
