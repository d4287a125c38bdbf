/* SPDX-License-Identifier: Apache-2.0 */
/* Names from symbol tables and debug information, of the module itself. */
#include "base/memory.h"
#include "harness/tap.h"
#include "symbols/elffile.h"
#include "symbols/symbols.h"
#include "symbols_fixture.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void lines_and_inlined(void)
{
	struct fixture fixture;
	fixture_setup(&fixture, COMPILE_DEBUG);
	struct symbols_module *module = fixture_open(&fixture);
	struct symbols_frame frames[SYMBOLS_CHAIN_MAX];
	REQUIRE(symbols_lookup(fixture.symbols, module, fixture.in_inner, frames) == 2);
	CHECK_STR(frames[0].function, "inner");
	CHECK_EQ_U64(frames[0].line, 8);
	CHECK(frames[0].inlined);
	CHECK_HAS(frames[0].file, "p.c");
	CHECK_STR(frames[1].function, "outer");
	CHECK_EQ_U64(frames[1].line, 14);
	CHECK(!frames[1].inlined);
	CHECK_EQ_U64(frames[1].source, TRACE_SYM_DWARF);
	REQUIRE(symbols_lookup(fixture.symbols, module, fixture.in_hidden, frames) == 1);
	CHECK_STR(frames[0].function, "hidden");
	CHECK_EQ_U64(frames[0].line, 11);
	fixture_teardown(&fixture);
}

static void clang_lines(void)
{
	struct fixture fixture;
	fixture_setup(&fixture, "cd '%s' && clang -O2 -g -rdynamic p.c -o p 2>&1");
	struct symbols_module *module = fixture_open(&fixture);
	struct symbols_frame frames[SYMBOLS_CHAIN_MAX];
	REQUIRE(symbols_lookup(fixture.symbols, module, fixture.in_inner, frames) == 2);
	CHECK_STR(frames[0].function, "inner");
	CHECK_EQ_U64(frames[0].line, 8);
	CHECK_STR(frames[1].function, "outer");
	CHECK_EQ_U64(frames[1].line, 14);
	fixture_teardown(&fixture);
}

static void symtab_only(void)
{
	struct fixture fixture;
	fixture_setup(&fixture, COMPILE_PLAIN);
	struct symbols_module *module = fixture_open(&fixture);
	struct symbols_frame frames[SYMBOLS_CHAIN_MAX];
	REQUIRE(symbols_lookup(fixture.symbols, module, fixture.in_inner, frames) == 1);
	CHECK_STR(frames[0].function, "outer");
	CHECK_EQ_U64(frames[0].source, TRACE_SYM_SYMTAB);
	CHECK(!frames[0].file);
	REQUIRE(symbols_lookup(fixture.symbols, module, fixture.in_hidden, frames) == 1);
	CHECK_STR(frames[0].function, "hidden");
	CHECK_EQ_U64(symbols_lookup(fixture.symbols, module, 0x7fffffff0000, frames), 0);
	fixture_teardown(&fixture);
}

static void stripped(void)
{
	struct fixture fixture;
	fixture_setup(&fixture, COMPILE_DEBUG " && strip -s p");
	struct symbols_module *module = fixture_open(&fixture);
	struct symbols_frame frames[SYMBOLS_CHAIN_MAX];
	REQUIRE(symbols_lookup(fixture.symbols, module, fixture.in_inner, frames) == 1);
	CHECK_STR(frames[0].function, "outer");
	CHECK_EQ_U64(frames[0].source, TRACE_SYM_DYNSYM);
	/* No neighbour's name for a function that has none. */
	CHECK_EQ_U64(symbols_lookup(fixture.symbols, module, fixture.in_hidden, frames), 0);
	fixture_teardown(&fixture);
}

static void check_debug_file(const char *compile)
{
	struct fixture fixture;
	fixture_setup(&fixture, compile);
	struct symbols_module *module = fixture_open(&fixture);
	struct symbols_frame frames[SYMBOLS_CHAIN_MAX];
	REQUIRE(symbols_lookup(fixture.symbols, module, fixture.in_hidden, frames) == 1);
	CHECK_STR(frames[0].function, "hidden");
	CHECK_EQ_U64(frames[0].line, 11);
	fixture_teardown(&fixture);
}

static void debug_link(void)
{
	check_debug_file(COMPILE_DEBUG " && objcopy --only-keep-debug p p.debug && strip -s p"
				       " && objcopy --add-gnu-debuglink=p.debug p");
	/* In the folder .debug, and told apart by its content for want of a build-id. */
	check_debug_file("cd '%s' && cc -O2 -g -rdynamic -Wl,--build-id=none p.c -o p"
			 " && objcopy --only-keep-debug p p.debug && strip -s p"
			 " && objcopy --add-gnu-debuglink=p.debug p"
			 " && mkdir .debug && mv p.debug .debug");
}

static void foreign_debug_link(void)
{
	struct fixture fixture;
	fixture_setup(&fixture, "cd '%s' && cc -O2 -g -rdynamic -Wl,--build-id=none p.c -o p"
				" && objcopy --only-keep-debug p p.debug && strip -s p"
				" && objcopy --add-gnu-debuglink=p.debug p && echo >>p.debug");
	struct symbols_module *module = fixture_open(&fixture);
	struct symbols_frame frames[SYMBOLS_CHAIN_MAX];
	CHECK_EQ_U64(symbols_lookup(fixture.symbols, module, fixture.in_hidden, frames), 0);
	fixture_teardown(&fixture);
}

static void replaced_file(void)
{
	struct fixture fixture;
	fixture_setup(&fixture, COMPILE_PLAIN);
	uint8_t other[20] = {1, 2, 3};
	struct symbols_module *module;
	struct tm_error err = {0};
	for (int i = 0; i < 3; i++) {
		CHECK_EQ_I64(symbols_open(fixture.symbols, fixture.path, other, sizeof other,
					  &module, &err),
			     -ESTALE);
		CHECK_HAS(err.text, "not the file that was recorded");
	}
	CHECK_EQ_U64(fixture.warnings, 1);
	CHECK_HAS(fixture.warning, fixture.path);
	struct elffile file;
	REQUIRE(elffile_open(&file, "", fixture.path, NULL) == 0);
	CHECK_EQ_U64(file.build_id_bytes, 20);
	CHECK_EQ_I64(symbols_open(fixture.symbols, fixture.path, file.build_id, file.build_id_bytes,
				  &module, NULL),
		     0);
	elffile_close(&file);
	fixture_teardown(&fixture);
}

static void no_files(void)
{
	struct fixture fixture;
	fixture_setup(&fixture, COMPILE_PLAIN " && mkdir folder && mkfifo pipe && echo words >text"
					      " && : >empty && head -c 100 p >cut");
	static const struct {
		const char *name;
		int code;
	} files[] = {
		{"missing", -ENOENT}, {"folder", -ENOEXEC}, {"pipe", -ENOEXEC},
		{"text", -ENOEXEC},   {"empty", -ENOEXEC},  {"cut", -ENODATA},
	};
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
		char path[128];
		struct symbols_module *module;
		struct tm_error err = {0};
		snprintf(path, sizeof path, "%s/%s", fixture.folder, files[i].name);
		CHECK_EQ_I64(symbols_open(fixture.symbols, path, NULL, 0, &module, &err),
			     files[i].code);
		CHECK_HAS(err.text, files[i].name);
	}
	CHECK_EQ_U64(fixture.warnings, 6);
	fixture_teardown(&fixture);
}

/* A container's link to /bin/p must lead to the container's file, not to ours. */
static void below_root(void)
{
	struct fixture fixture;
	fixture_setup(&fixture, COMPILE_PLAIN " && mkdir -p root/real root/bin && cp p root/real/p"
					      " && ln -s /real/p root/bin/p");
	char root[96];
	snprintf(root, sizeof root, "%s/root", fixture.folder);
	struct symbols *symbols;
	struct symbols_module *module;
	struct symbols_frame frames[SYMBOLS_CHAIN_MAX];
	REQUIRE(symbols_new(&(struct symbols_options){.root = root}, &symbols, NULL) == 0);
	REQUIRE(symbols_open(symbols, "/bin/p", NULL, 0, &module, NULL) == 0);
	REQUIRE(symbols_lookup(symbols, module, fixture.in_hidden, frames) == 1);
	CHECK_STR(frames[0].function, "hidden");
	/* A process that is gone leaves no root: the file itself will do. */
	REQUIRE(symbols_open(symbols, fixture.path, NULL, 0, &module, NULL) == 0);
	symbols_free(symbols);
	fixture_teardown(&fixture);
}

static void libc_names(void)
{
	Dl_info info;
	struct link_map *map;
	void *address = dlsym(RTLD_DEFAULT, "qsort");
	REQUIRE(address && dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP));
	struct symbols *symbols;
	struct symbols_module *module;
	struct symbols_frame frames[SYMBOLS_CHAIN_MAX];
	char path[4096];
	REQUIRE(realpath(info.dli_fname, path));
	REQUIRE(symbols_new(&(struct symbols_options){0}, &symbols, NULL) == 0);
	REQUIRE(symbols_open(symbols, path, NULL, 0, &module, NULL) == 0);
	REQUIRE(symbols_lookup(symbols, module, (uintptr_t)address - map->l_addr + 1, frames) > 0);
	CHECK_HAS(frames[0].function, "qsort");
	symbols_free(symbols);
}

static void vdso(void)
{
	struct symbols *symbols;
	struct symbols_module *module;
	struct symbols_frame frames[SYMBOLS_CHAIN_MAX];
	REQUIRE(symbols_new(&(struct symbols_options){0}, &symbols, NULL) == 0);
	int code = symbols_open(symbols, "[vdso]", NULL, 0, &module, NULL);
	if (code == -ENOENT)
		tap_skip("no vdso here");
	REQUIRE(code == 0);
	bool found = false;
	for (uint64_t at = 0; at < 8192 && !found; at += 16)
		found = symbols_lookup(symbols, module, at, frames) == 1 &&
			strstr(frames[0].function, "gettime");
	CHECK(found);
	symbols_free(symbols);
}

static void whole_trace(void)
{
	struct fixture fixture;
	fixture_setup(&fixture, COMPILE_DEBUG);
	struct symbols *symbols;
	struct symbols_options options = {.warn = fixture_note_warning, .warn_ctx = &fixture};
	REQUIRE(symbols_new(&options, &symbols, NULL) == 0);
	const uint64_t bias = 0x555500000000;
	const struct trace_module modules[] = {
		{0},
		{.module_id = 1, .bias = bias, .path = fixture.path},
		{.module_id = 2, .bias = 0, .path = "/nowhere/lib.so"},
	};
	const struct trace_stack stacks[] = {
		{0},
		{.module_id = 1, .pc = bias + fixture.in_hidden + 1},
		{.parent_id = 1, .module_id = 1, .pc = bias + fixture.in_inner + 1},
		{.parent_id = 2, .module_id = 1, .pc = (bias + fixture.in_inner) | TRACE_PC_EXACT},
		{.parent_id = 3, .module_id = 2, .pc = 0x1234},
		{.parent_id = 4, .module_id = 0, .pc = 0x1234},
		{.parent_id = 5, .module_id = TRACE_MODULE_MARK, .pc = TRACE_MARK_CUT},
	};
	struct symbols_request *requests;
	size_t count;
	REQUIRE(symbols_requests(stacks, 1, 7, &requests, &count, NULL) == 0);
	/* hidden, inner (once), and one in the library that is not there */
	REQUIRE(count == 3);
	struct symbols_result result;
	REQUIRE(symbols_resolve(symbols, modules, 3, requests, count, &result, NULL) == 0);
	REQUIRE(result.count == 3);
	CHECK_EQ_U64(result.unnamed, 1);
	CHECK_EQ_U64(fixture.warnings, 1);
	size_t inner = strcmp(result.symbols[0].function, "inner") ? 1 : 0;
	CHECK_STR(result.symbols[inner].function, "inner");
	CHECK_EQ_U64(result.symbols[inner].address, bias + fixture.in_inner);
	CHECK_EQ_U64(result.symbols[inner].inlined, 1);
	CHECK_STR(result.symbols[inner + 1].function, "outer");
	CHECK_EQ_U64(result.symbols[inner + 1].line, 14);
	tm_free(result.symbols);
	tm_free(requests);
	symbols_free(symbols);
	fixture_teardown(&fixture);
}

static int try_all(const struct fixture *fixture, bool lines)
{
	struct symbols *symbols;
	struct symbols_module *module;
	struct symbols_frame frames[SYMBOLS_CHAIN_MAX];
	int code = symbols_new(&(struct symbols_options){.root = "/", .lines_here = lines},
			       &symbols, NULL);
	if (code)
		return code;
	code = symbols_open(symbols, fixture->path, NULL, 0, &module, NULL);
	size_t wanted = lines ? 2 : 1;
	if (!code)
		code = symbols_lookup(symbols, module, fixture->in_inner, frames) == wanted
			       ? 0
			       : -ENOMEM;
	symbols_free(symbols);
	return code;
}

static void memory_runs_out(void)
{
	struct fixture fixture;
	fixture_setup(&fixture, COMPILE_DEBUG);
	for (int lines = 0; lines < 2; lines++) {
		int code = -1;
		for (long n = 0; code || n <= 100; n++) {
			REQUIRE(n < 1000);
			tm_alloc_fail_at(n);
			code = try_all(&fixture, lines);
		}
		tm_alloc_fail_at(-1);
		CHECK_EQ_I64(code, 0);
	}
	fixture_teardown(&fixture);
}

static const struct tap_case cases[] = {
	{.name = "frames have files, lines and inlined functions", .run = lines_and_inlined},
	{.name = "the same from clang's debug information", .run = clang_lines},
	{.name = "programs without debug information have function names", .run = symtab_only},
	{.name = "stripped programs name what they export, and nothing wrongly", .run = stripped},
	{.name = "names come from a separate debug file", .run = debug_link},
	{.name = "a debug file of another build is not believed", .run = foreign_debug_link},
	{.name = "a replaced file is said, not used", .run = replaced_file},
	{.name = "what is no ELF file is said and does not hang", .run = no_files},
	{.name = "containers are named from their own files", .run = below_root},
	{.name = "libc's functions have names", .run = libc_names},
	{.name = "the vdso has names", .run = vdso},
	{.name = "a trace gets the names of its stacks", .run = whole_trace},
	{.name = "running out of memory while naming is no crash", .run = memory_runs_out},
};
TAP_MAIN(cases)
