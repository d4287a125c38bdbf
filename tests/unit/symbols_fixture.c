/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols_fixture.h"

#include "harness/tap.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char program[] =
	"#include <stdio.h>\n"                                          /* 1 */
	"extern char __executable_start[]; static volatile int seen;\n" /* 2 */
	"__attribute__((noinline)) void probe(void)\n"                  /* 3 */
	"{ seen = printf(\"%lx\\n\", (unsigned long)((char *)__builtin_return_address(0) -\n"
	"	 __executable_start)); }\n"                                 /* 5 */
	"static inline __attribute__((always_inline)) void inner(int *x)\n" /* 6 */
	"{ ++*x;\n"                                                         /* 7 */
	"  probe();\n"                                                      /* 8 */
	"  ++*x; }\n"                                                       /* 9 */
	"static __attribute__((noinline)) void hidden(int *x)\n"            /* 10 */
	"{ probe(); *x += 2; }\n"                                           /* 11 */
	"__attribute__((noinline)) void outer(int *x)\n"                    /* 12 */
	"{ ++*x;\n"                                                         /* 13 */
	"  inner(x);\n"                                                     /* 14 */
	"  ++*x; }\n"                                                       /* 15 */
	"int main(void) { int x = 0; outer(&x); hidden(&x); return x == 6 ? 0 : 1; }\n";

int fixture_shell(const char *format, const char *folder)
{
	char command[1024];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(command, sizeof command, format, folder);
#pragma GCC diagnostic pop
	return system(command);
}

void fixture_note_warning(void *ctx, const char *sentence)
{
	struct fixture *fixture = ctx;
	fixture->warnings++;
	snprintf(fixture->warning, sizeof fixture->warning, "%s", sentence);
}

void fixture_setup(struct fixture *fixture, const char *compile)
{
	*fixture = (struct fixture){.folder = "/tmp/tidemark-symbols-XXXXXX"};
	REQUIRE(mkdtemp(fixture->folder));
	snprintf(fixture->path, sizeof fixture->path, "%s/p", fixture->folder);
	char source[96], command[160];
	snprintf(source, sizeof source, "%s/p.c", fixture->folder);
	FILE *file = fopen(source, "w");
	REQUIRE(file);
	fputs(program, file);
	fclose(file);
	if (fixture_shell(compile, fixture->folder)) {
		fixture_shell("rm -rf '%s'", fixture->folder);
		tap_skip("it cannot be made here: a compiler or tool is missing");
	}
	snprintf(command, sizeof command, "%s", fixture->path);
	FILE *output = popen(command, "r");
	REQUIRE(output);
	REQUIRE(fscanf(output, "%" SCNx64 " %" SCNx64, &fixture->in_inner, &fixture->in_hidden) ==
		2);
	REQUIRE(pclose(output) == 0);
	fixture->in_inner--;
	fixture->in_hidden--;
	struct symbols_options options = {
		.warn = fixture_note_warning,
		.warn_ctx = fixture,
		.lines_here = true,
	};
	REQUIRE(symbols_new(&options, &fixture->symbols, NULL) == 0);
}

void fixture_teardown(struct fixture *fixture)
{
	symbols_free(fixture->symbols);
	fixture_shell("rm -rf '%s'", fixture->folder);
}

struct symbols_module *fixture_open(struct fixture *fixture)
{
	struct symbols_module *module = NULL;
	struct tm_error err = {0};
	if (symbols_open(fixture->symbols, fixture->path, NULL, 0, &module, &err))
		tap_note("%s", err.text);
	REQUIRE(module);
	return module;
}
