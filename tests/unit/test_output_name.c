/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "collector/output.h"
#include "harness/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct output_facts facts = {.pid = 42, .program = "/usr/bin/prog"};

static char folder[] = "/tmp/test-output.XXXXXX";

static void enter_folder(void)
{
	REQUIRE(mkdtemp(folder) != NULL && chdir(folder) == 0);
}

static void check_path(const char *pattern, const char *want)
{
	char *path = NULL;
	struct tm_error err;
	REQUIRE(output_path(pattern, &facts, &path, &err) == 0);
	CHECK_STR(path, want);
	tm_free(path);
}

static void names_by_default(void)
{
	check_path(NULL, "tidemark.prog.42.tide");
	check_path("", "tidemark.prog.42.tide");
}

static void expands_patterns(void)
{
	char host[256] = "", want[300];
	gethostname(host, sizeof host - 1);
	check_path("a-%p-%n.x", "a-42-prog.x");
	check_path("100%%", "100%");
	check_path("%q%", "%q%");
	snprintf(want, sizeof want, "%s.tide", host);
	check_path("%h.tide", want);
	char *path = NULL;
	REQUIRE(output_path("%t", &facts, &path, NULL) == 0);
	CHECK_EQ_U64(strlen(path), strlen("19700101-000000"));
	tm_free(path);
}

static void takes_folders(void)
{
	enter_folder();
	REQUIRE(mkdir("there", 0700) == 0);
	check_path("there", "there/tidemark.prog.42.tide");
	check_path("new/", "new/tidemark.prog.42.tide");
}

static void odd_names_stay_in_the_folder(void)
{
	struct output_facts odd = {.pid = 1, .program = "/x/..\n\t/"};
	char *path = NULL;
	REQUIRE(output_path(NULL, &odd, &path, NULL) == 0);
	CHECK(strchr(path, '/') == NULL);
	CHECK(strchr(path, '\n') == NULL);
	tm_free(path);
}

static void open_and_check(const char *wanted, bool force, const char *want)
{
	int fd = -1;
	char *path = NULL;
	struct tm_error err = {0};
	struct stat status;
	REQUIRE(output_open(wanted, force, &fd, &path, &err) == 0);
	CHECK_STR(path, want);
	REQUIRE(fstat(fd, &status) == 0);
	CHECK_EQ_U64(status.st_mode & 0777, 0600);
	CHECK_EQ_U64((uint64_t)status.st_size, 0);
	REQUIRE(write(fd, "x", 1) == 1);
	close(fd);
	tm_free(path);
}

static void adds_numbers(void)
{
	enter_folder();
	open_and_check("a.tide", false, "a.tide");
	open_and_check("a.tide", false, "a.2.tide");
	open_and_check("a.tide", false, "a.3.tide");
	open_and_check("bare", false, "bare");
	open_and_check("bare", false, "bare.2");
	open_and_check("d.x/bare", false, "d.x/bare");
	open_and_check("d.x/bare", false, "d.x/bare.2");
}

static void overwrites_by_force_only(void)
{
	enter_folder();
	REQUIRE(close(creat("a.tide", 0644)) == 0);
	open_and_check("a.tide", true, "a.tide");
	CHECK(access("a.2.tide", F_OK) != 0);
}

static void makes_parents(void)
{
	enter_folder();
	open_and_check("x/y/z/a.tide", false, "x/y/z/a.tide");
}

static void says_what_is_wrong(void)
{
	int fd;
	char *path;
	struct tm_error err = {0};
	CHECK_EQ_I64(output_open("/proc/nowhere/a.tide", false, &fd, &path, &err), -ENOENT);
	CHECK_HAS(err.text, "/proc/nowhere/a.tide");
}

static void survives_lack_of_memory(void)
{
	enter_folder();
	for (long n = 0; n < 12; n++) {
		char *path = NULL, *made = NULL;
		int fd = -1;
		struct tm_error err = {0};
		tm_alloc_fail_at(n);
		int error = output_path("%n/%p.x", &facts, &path, &err);
		if (!error)
			error = output_open(path, true, &fd, &made, &err);
		tm_alloc_fail_at(-1);
		CHECK(error == 0 || error == -ENOMEM);
		if (!error)
			close(fd);
		tm_free(path);
		tm_free(made);
	}
}

static const struct tap_case cases[] = {
	{.name = "a trace is found under its program and pid", .run = names_by_default},
	{.name = "patterns put pid, host, program and time into the name", .run = expands_patterns},
	{.name = "a folder takes the default name", .run = takes_folders},
	{.name = "a program's odd name leaves no trace elsewhere",
	 .run = odd_names_stay_in_the_folder},
	{.name = "an existing trace is never overwritten", .run = adds_numbers},
	{.name = "--force overwrites, and nobody else may read it",
	 .run = overwrites_by_force_only},
	{.name = "missing folders are made", .run = makes_parents},
	{.name = "a file that cannot be made is named", .run = says_what_is_wrong},
	{.name = "no memory is an error, not a crash", .run = survives_lack_of_memory},
};
TAP_MAIN(cases)
