/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/preflight.h"
#include "harness/tap.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/test-preflight.XXXXXX";

static void enter_folder(void)
{
	REQUIRE(mkdtemp(folder) != NULL && chdir(folder) == 0);
}

static void make_file(const char *name, const void *bytes, size_t count, mode_t mode)
{
	int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0600);
	REQUIRE(fd >= 0 && write(fd, bytes, count) == (ssize_t)count);
	REQUIRE(fchmod(fd, mode) == 0);
	close(fd);
}

static void make_script(const char *name, const char *text, mode_t mode)
{
	make_file(name, text, strlen(text), mode);
}

/* The least that is taken for a program: a header and no PT_INTERP. */
static void make_elf(const char *name, uint8_t class, uint16_t machine)
{
	Elf64_Ehdr head = {.e_type = ET_EXEC,
			   .e_machine = machine,
			   .e_phentsize = sizeof(Elf64_Phdr),
			   .e_shentsize = sizeof(Elf64_Shdr)};
	memcpy(head.e_ident, ELFMAG, SELFMAG);
	head.e_ident[EI_CLASS] = class;
	make_file(name, &head, sizeof head, 0700);
}

static void check(const char *program, enum preflight_verdict want, const char *word)
{
	struct preflight facts;
	struct tm_error err = {0};
	CHECK_EQ_U64(preflight_check(program, NULL, &facts, &err), want);
	if (word)
		CHECK_HAS(err.text, word);
	preflight_done(&facts);
}

static void finds_as_a_shell_does(void)
{
	struct preflight facts;
	struct tm_error err = {0};
	enter_folder();
	setenv("PATH", "/nowhere::/bin:/usr/bin", 1);
	REQUIRE(preflight_check("sh", NULL, &facts, &err) == PREFLIGHT_GOOD);
	CHECK(!facts.script);
	CHECK_HAS(facts.path, "/sh");
	preflight_done(&facts);
	check("no-such-program-here", PREFLIGHT_NOT_FOUND, "PATH");
	check("./no-such-program-here", PREFLIGHT_NOT_FOUND, "no such program");
	check("", PREFLIGHT_NOT_FOUND, "no such program");
	/* An empty part of PATH is the current folder. */
	make_script("mine", "#!/bin/sh\n", 0700);
	check("mine", PREFLIGHT_GOOD, NULL);
	/* Not executable in one folder, executable in a later one. */
	setenv("PATH", ".:/bin:/usr/bin", 1);
	make_script("ls", "#!/bin/sh\n", 0600);
	check("ls", PREFLIGHT_GOOD, NULL);
}

static void names_what_cannot_run(void)
{
	enter_folder();
	make_script("plain", "hello\n", 0600);
	check("./plain", PREFLIGHT_NOT_EXECUTABLE, "not executable");
	check("/", PREFLIGHT_NOT_EXECUTABLE, "folder");
	make_script("lost", "#!/no/such/interpreter\n", 0700);
	check("./lost", PREFLIGHT_NOT_FOUND, "/no/such/interpreter");
	make_script("empty", "#!\n", 0700);
	check("./empty", PREFLIGHT_NOT_EXECUTABLE, "interpreter");
}

static void looks_behind_scripts(void)
{
	struct preflight facts;
	enter_folder();
	make_script("a", "#! /bin/sh -e\necho\n", 0700);
	REQUIRE(preflight_check("./a", NULL, &facts, NULL) == PREFLIGHT_GOOD);
	CHECK(facts.script);
	CHECK_STR(facts.image, "/bin/sh");
	CHECK_STR(facts.path, "./a");
	preflight_done(&facts);
	/* Without #! a shell takes it. */
	make_script("b", "echo\n", 0700);
	REQUIRE(preflight_check("./b", NULL, &facts, NULL) == PREFLIGHT_GOOD);
	CHECK_STR(facts.image, "/bin/sh");
	preflight_done(&facts);
	char loop[sizeof folder + 16];
	snprintf(loop, sizeof loop, "#!%s/c\n", folder);
	make_script("c", loop, 0700);
	check("./c", PREFLIGHT_NOT_EXECUTABLE, NULL);
}

static void refuses_what_the_agent_cannot_enter(void)
{
	enter_folder();
	make_elf("static", ELFCLASS64, EM_X86_64);
	check("./static", PREFLIGHT_UNRECORDABLE, "statically linked");
	make_elf("small", ELFCLASS32, EM_386);
	check("./small", PREFLIGHT_UNRECORDABLE, "32-bit");
	make_elf("arm", ELFCLASS64, EM_AARCH64);
	check("./arm", PREFLIGHT_UNRECORDABLE, "x86-64");
	char text[sizeof folder + 16];
	snprintf(text, sizeof text, "#!%s/static\n", folder);
	make_script("script", text, 0700);
	check("./script", PREFLIGHT_UNRECORDABLE, "statically linked");
}

static void survives_damaged_files(void)
{
	enter_folder();
	Elf64_Ehdr head = {.e_machine = EM_X86_64,
			   .e_phoff = UINT64_MAX - 3,
			   .e_phnum = UINT16_MAX,
			   .e_phentsize = sizeof(Elf64_Phdr),
			   .e_shoff = UINT64_MAX - 7,
			   .e_shnum = 4000,
			   .e_shentsize = sizeof(Elf64_Shdr)};
	memcpy(head.e_ident, ELFMAG, SELFMAG);
	head.e_ident[EI_CLASS] = ELFCLASS64;
	make_file("bad", &head, sizeof head, 0700);
	check("./bad", PREFLIGHT_UNRECORDABLE, NULL);
	make_file("cut", ELFMAG, SELFMAG, 0700);
	check("./cut", PREFLIGHT_GOOD, NULL);
	make_file("nothing", "", 0, 0700);
	check("./nothing", PREFLIGHT_GOOD, NULL);
}

static const struct tap_case cases[] = {
	{.name = "programs are found where a shell finds them", .run = finds_as_a_shell_does},
	{.name = "what cannot run is said before, in words", .run = names_what_cannot_run},
	{.name = "a script is judged by its interpreter", .run = looks_behind_scripts},
	{.name = "static and foreign programs are no empty success",
	 .run = refuses_what_the_agent_cannot_enter},
	{.name = "a damaged program file does no harm", .run = survives_damaged_files},
};
TAP_MAIN(cases)
