/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "collector/output.h"
#include "harness/tap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
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
	const struct output_options options = {.path = wanted, .force = force};
	struct output_file file = {.fd = -1};
	struct tm_error err = {0};
	struct stat status;
	REQUIRE(output_open(&options, &file, &err) == 0);
	CHECK_STR(file.path, want);
	REQUIRE(fstat(file.fd, &status) == 0);
	CHECK_EQ_U64(status.st_mode & 0777, 0600);
	CHECK_EQ_U64((uint64_t)status.st_size, 0);
	REQUIRE(write(file.fd, "x", 1) == 1);
	close(file.fd);
	tm_free(file.path);
	replaced_commit(&file.replaced);
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

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");
	REQUIRE(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void check_file(const char *path, const char *want)
{
	char text[64] = "";
	FILE *file = fopen(path, "r");
	REQUIRE(file != NULL);
	CHECK(fgets(text, sizeof text, file) != NULL);
	fclose(file);
	CHECK_STR(text, want);
}

static unsigned files_in_folder(void)
{
	unsigned count = 0;
	DIR *here = opendir(".");
	REQUIRE(here != NULL);
	for (struct dirent *entry; (entry = readdir(here));)
		count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	closedir(here);
	return count;
}

static void overwrites_by_force_only(void)
{
	enter_folder();
	REQUIRE(close(creat("a.tide", 0644)) == 0);
	open_and_check("a.tide", true, "a.tide");
	CHECK(access("a.2.tide", F_OK) != 0);
	CHECK_EQ_U64(files_in_folder(), 1);
}

static void never_writes_into_the_old_file(void)
{
	enter_folder();
	write_file("old", "precious");
	REQUIRE(link("old", "other") == 0 && symlink("old", "leads") == 0);
	open_and_check("leads", true, "leads");
	check_file("other", "precious");
	check_file("old", "x");
	CHECK_EQ_U64(files_in_folder(), 3);
}

static void puts_the_old_file_back(void)
{
	enter_folder();
	write_file("a.tide", "precious");
	const struct output_options options = {.path = "a.tide", .force = true};
	struct output_file file = {.fd = -1};
	struct tm_error err = {0};
	REQUIRE(output_open(&options, &file, &err) == 0);
	close(file.fd);
	tm_free(file.path);
	replaced_undo(&file.replaced);
	check_file("a.tide", "precious");
	CHECK_EQ_U64(files_in_folder(), 1);
}

static void check_refused(const struct output_options *options, int error, const char *why)
{
	struct output_file file = {.fd = -1};
	struct tm_error err = {0};
	CHECK_EQ_I64(output_open(options, &file, &err), error);
	CHECK_HAS(err.text, options->path);
	CHECK_HAS(err.text, why);
}

static void refuses_the_program(void)
{
	enter_folder();
	write_file("program", "precious");
	REQUIRE(link("program", "other") == 0);
	const char *const programs[] = {"program", NULL};
	check_refused(&(struct output_options){"other", true, programs}, -EBUSY, "the program");
	check_file("other", "precious");
	CHECK_EQ_U64(files_in_folder(), 2);
}

static void refuses_what_is_written(void)
{
	int told[2];
	char byte;
	enter_folder();
	write_file("a.tide", "precious");
	REQUIRE(pipe(told) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
		int fd = open("a.tide", O_RDWR);
		_exit(fcntl(fd, F_SETLK, &whole) || write(told[1], "x", 1) != 1 || pause());
	}
	REQUIRE(read(told[0], &byte, 1) == 1);
	check_refused(&(struct output_options){"a.tide", true, NULL}, -EBUSY, "being written");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	check_file("a.tide", "precious");
	open_and_check("a.tide", true, "a.tide");
}

static void refuses_what_is_no_file(void)
{
	enter_folder();
	REQUIRE(mkfifo("pipe", 0600) == 0);
	for (int force = 0; force < 2; force++) {
		check_refused(&(struct output_options){"/dev/null", force, NULL}, -EINVAL,
			      "device");
		check_refused(&(struct output_options){"pipe", force, NULL}, -EINVAL, "a pipe");
	}
	CHECK_EQ_U64(files_in_folder(), 1);
}

static void makes_parents(void)
{
	enter_folder();
	open_and_check("x/y/z/a.tide", false, "x/y/z/a.tide");
}

static void says_what_is_wrong(void)
{
	check_refused(&(struct output_options){"/proc/nowhere/a.tide", false, NULL}, -ENOENT,
		      "cannot write");
	check_refused(&(struct output_options){"/proc/nowhere/a.tide", true, NULL}, -ENOENT,
		      "cannot write");
}

static void survives_lack_of_memory(void)
{
	enter_folder();
	REQUIRE(mkdir("prog", 0700) == 0);
	for (long n = 0; n < 16; n++) {
		char *path = NULL;
		struct output_file file = {.fd = -1};
		struct tm_error err = {0};
		write_file("prog/42.x", "precious");
		tm_alloc_fail_at(n);
		int error = output_path("%n/%p.x", &facts, &path, &err);
		const struct output_options options = {.path = path, .force = true};
		if (!error)
			error = output_open(&options, &file, &err);
		tm_alloc_fail_at(-1);
		CHECK(error == 0 || error == -ENOMEM);
		if (!error)
			close(file.fd);
		replaced_undo(&file.replaced);
		check_file("prog/42.x", "precious");
		tm_free(path);
		tm_free(file.path);
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
	{.name = "--force leaves what other names the old file has",
	 .run = never_writes_into_the_old_file},
	{.name = "the old file is there again when nothing came of it",
	 .run = puts_the_old_file_back},
	{.name = "--force does not replace the program", .run = refuses_the_program},
	{.name = "--force does not replace what another recorder writes",
	 .run = refuses_what_is_written},
	{.name = "a device or a pipe is refused before the program runs",
	 .run = refuses_what_is_no_file},
	{.name = "missing folders are made", .run = makes_parents},
	{.name = "a file that cannot be made is named", .run = says_what_is_wrong},
	{.name = "no memory is an error, not a crash", .run = survives_lack_of_memory},
};
TAP_MAIN(cases)
