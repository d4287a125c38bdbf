/* SPDX-License-Identifier: Apache-2.0 */
/* Where debug information may lie and how it may be packed: each place with a real file. */
#include "base/memory.h"
#include "harness/tap.h"
#include "symbols/elffile.h"
#include "symbols/symbols.h"
#include "symbols_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void restart(struct fixture *fixture, struct symbols_options options)
{
	symbols_free(fixture->symbols);
	options.warn = fixture_note_warning;
	options.warn_ctx = fixture;
	options.lines_here = true;
	REQUIRE(symbols_new(&options, &fixture->symbols, NULL) == 0);
}

/* Both functions with their lines, and the inlined one with where it was called. */
static void check_all(struct fixture *fixture, struct symbols_module *module)
{
	struct symbols_frame frames[SYMBOLS_CHAIN_MAX];
	size_t count = symbols_lookup(fixture->symbols, module, fixture->in_inner, frames);
	if (!CHECK_EQ_U64(count, 2))
		return;
	CHECK_STR(frames[0].function, "inner");
	CHECK_EQ_U64(frames[0].line, 8);
	CHECK_HAS(frames[0].file, "/p.c");
	CHECK_STR(frames[1].function, "outer");
	CHECK_EQ_U64(frames[1].line, 14);
	CHECK_EQ_U64(frames[1].source, TRACE_SYM_DWARF);
	CHECK_HAS(frames[1].file, "/p.c");
	REQUIRE(symbols_lookup(fixture->symbols, module, fixture->in_hidden, frames) == 1);
	CHECK_STR(frames[0].function, "hidden");
	CHECK_EQ_U64(frames[0].line, 11);
}

static void check_compiled(const char *compile)
{
	struct fixture fixture;
	fixture_setup(&fixture, compile);
	tap_note("%s", compile);
	check_all(&fixture, fixture_open(&fixture));
	fixture_teardown(&fixture);
}

static void gcc_versions(void)
{
	check_compiled("cd '%s' && gcc -O2 -g -gdwarf-2 p.c -o p");
	check_compiled("cd '%s' && gcc -O2 -g -gdwarf-3 p.c -o p");
	check_compiled("cd '%s' && gcc -O2 -g -gdwarf-4 p.c -o p");
	check_compiled("cd '%s' && gcc -O2 -g -gdwarf-5 p.c -o p");
	check_compiled("cd '%s' && gcc -O2 -g -gdwarf-5 -gdwarf64 p.c -o p");
}

static void clang_versions(void)
{
	check_compiled("cd '%s' && clang -O2 -g -gdwarf-3 p.c -o p");
	check_compiled("cd '%s' && clang -O2 -g -gdwarf-4 p.c -o p");
	check_compiled("cd '%s' && clang -O2 -g -gdwarf-5 p.c -o p");
	check_compiled("cd '%s' && clang -O2 -gmlt -gdwarf-5 p.c -o p");
}

static void packed_zlib(void)
{
	check_compiled("cd '%s' && gcc -O2 -g -gz=zlib p.c -o p");
	check_compiled("cd '%s' && gcc -O2 -g -gz=zlib-gnu p.c -o p");
}

static void packed_zstd(void)
{
	check_compiled("cd '%s' && gcc -O2 -g p.c -o p && "
		       "objcopy --compress-debug-sections=zstd p");
}

static void split_files(void)
{
	check_compiled("cd '%s' && gcc -O2 -g -gdwarf-4 -gsplit-dwarf -c p.c && gcc p.o -o p && "
		       "test -e p.dwo");
	check_compiled("cd '%s' && gcc -O2 -g -gdwarf-5 -gsplit-dwarf -c p.c && gcc p.o -o p && "
		       "test -e p.dwo");
	check_compiled("cd '%s' && clang -O2 -g -gdwarf-4 -gsplit-dwarf -c p.c && clang p.o -o p"
		       " && test -e p.dwo");
	check_compiled("cd '%s' && clang -O2 -g -gdwarf-5 -gsplit-dwarf -c p.c && clang p.o -o p"
		       " && test -e p.dwo");
	/* Moved beside the program since. */
	check_compiled("cd '%s' && mkdir b && cp p.c b && (cd b && gcc -O2 -g -gdwarf-5"
		       " -gsplit-dwarf -c p.c) && gcc b/p.o -o p && mv b/p.dwo . && rm -r b");
}

static void split_packages(void)
{
	check_compiled("cd '%s' && gcc -O2 -g -gdwarf-4 -gsplit-dwarf -c p.c && gcc p.o -o p"
		       " && dwp -e p -o p.dwp && rm p.dwo");
	check_compiled("cd '%s' && clang -O2 -g -gdwarf-4 -gsplit-dwarf -c p.c && clang p.o -o p"
		       " && llvm-dwp -e p -o p.dwp && rm p.dwo");
	check_compiled("cd '%s' && echo 'int other(void) { return 1; }' >o.c"
		       " && clang -O2 -g -gdwarf-5 -gsplit-dwarf -c o.c p.c && clang o.o p.o -o p"
		       " && llvm-dwp -e p -o p.dwp && rm p.dwo o.dwo");
}

/* A .dwo that was compiled anew since is another one: only the skeleton's lines are left. */
static void split_replaced(void)
{
	struct fixture fixture;
	struct symbols_frame frames[SYMBOLS_CHAIN_MAX];
	fixture_setup(&fixture, "cd '%s' && gcc -O2 -g -gdwarf-5 -gsplit-dwarf -c p.c && "
				"gcc p.o -o p && (echo; cat p.c) >q && mv q p.c && "
				"gcc -O2 -g -gdwarf-5 -gsplit-dwarf -c p.c");
	struct symbols_module *module = fixture_open(&fixture);
	REQUIRE(symbols_lookup(fixture.symbols, module, fixture.in_hidden, frames) == 1);
	CHECK_STR(frames[0].function, "hidden");
	CHECK_EQ_U64(frames[0].line, 11);
	CHECK_EQ_U64(frames[0].source, TRACE_SYM_SYMTAB);
	fixture_teardown(&fixture);
}

#define DWZ_TWO                                                                             \
	"cd '%s' && cc -O2 -g -rdynamic -Wl,--build-id p.c -o p && sed 's/main/main/' p.c " \
	">q.c && cc -O2 -g -rdynamic -Wl,--build-id q.c -o q && "                           \
	"dwz -m common.debug p q && readelf -S p | grep -q gnu_debugaltlink"

static void dwz(void)
{
	check_compiled("cd '%s' && cc -O2 -g p.c -o p && dwz p");
	check_compiled(DWZ_TWO);
	check_compiled(DWZ_TWO " && objcopy --only-keep-debug p p.debug && strip -s p && "
			       "objcopy -R .gnu_debugaltlink p && "
			       "objcopy --add-gnu-debuglink=p.debug p");
}

static void mini_debug_info(void)
{
	struct fixture fixture;
	struct symbols_frame frames[SYMBOLS_CHAIN_MAX];
	fixture_setup(&fixture, COMPILE_DEBUG
		      " && nm -D p --format=posix --defined-only | awk '{print $1}' | sort >dyn"
		      " && nm p --format=posix --defined-only | awk '$2 ~ /[TtD]/ {print $1}' |"
		      " sort >all && comm -13 dyn all >keep && objcopy --only-keep-debug p debug"
		      " && objcopy -S --keep-symbols=keep debug mini && strip -s p && xz mini"
		      " && objcopy --add-section .gnu_debugdata=mini.xz p");
	struct symbols_module *module = fixture_open(&fixture);
	REQUIRE(symbols_lookup(fixture.symbols, module, fixture.in_hidden, frames) == 1);
	CHECK_STR(frames[0].function, "hidden");
	CHECK_EQ_U64(frames[0].source, TRACE_SYM_SYMTAB);
	REQUIRE(symbols_lookup(fixture.symbols, module, fixture.in_inner, frames) == 1);
	CHECK_STR(frames[0].function, "outer");
	CHECK_EQ_U64(frames[0].source, TRACE_SYM_DYNSYM);
	fixture_teardown(&fixture);
}

/* Moves the debug file to DIR/.build-id/xx/yyyy.debug, DIR being the argument. */
#define TO_BUILD_ID(folder)                                                                   \
	" && id=$(readelf -n p | sed -n 's/.*Build ID: //p') && rest=${id#??} && "            \
	"mkdir -p " folder "/.build-id/${id%%%%$rest} && objcopy --only-keep-debug p " folder \
	"/.build-id/${id%%%%$rest}/$rest.debug && strip -s p"

static void debug_dir(void)
{
	struct fixture fixture;
	char folder[80];
	fixture_setup(&fixture, COMPILE_DEBUG TO_BUILD_ID("elsewhere"));
	snprintf(folder, sizeof folder, "%s/elsewhere", fixture.folder);
	const char *const folders[] = {"/nowhere", folder};
	struct symbols_frame frames[SYMBOLS_CHAIN_MAX];
	CHECK_EQ_U64(
		symbols_lookup(fixture.symbols, fixture_open(&fixture), fixture.in_hidden, frames),
		0);
	restart(&fixture, (struct symbols_options){.debug_dirs = folders, .debug_dir_count = 2});
	check_all(&fixture, fixture_open(&fixture));
	/* The program itself is gone: its build-id is enough. */
	struct elffile file;
	struct symbols_module *module;
	REQUIRE(elffile_open(&file, "", fixture.path, NULL) == 0);
	REQUIRE(unlink(fixture.path) == 0);
	restart(&fixture, (struct symbols_options){.debug_dirs = folders, .debug_dir_count = 2});
	REQUIRE(symbols_open(fixture.symbols, fixture.path, file.build_id, file.build_id_bytes,
			     &module, NULL) == 0);
	check_all(&fixture, module);
	elffile_close(&file);
	fixture_teardown(&fixture);
}

static void sysroot(void)
{
	struct fixture fixture;
	char root[80];
	fixture_setup(&fixture, COMPILE_DEBUG " && mkdir -p root/opt && cp p keep && "
					      "mkdir -p root/usr/lib/debug" TO_BUILD_ID(
						      "root/usr/lib/debug") " && cp p root/opt/p");
	snprintf(root, sizeof root, "%s/root", fixture.folder);
	restart(&fixture, (struct symbols_options){.sysroot = root});
	struct symbols_module *module;
	REQUIRE(symbols_open(fixture.symbols, "/opt/p", NULL, 0, &module, NULL) == 0);
	check_all(&fixture, module);
	/* What is not in the copy and has no build-id to prove itself is not taken from here. */
	CHECK_EQ_I64(symbols_open(fixture.symbols, fixture.path, NULL, 0, &module, NULL), -ENOENT);
	fixture_teardown(&fixture);
}

static void rust(void)
{
	struct fixture fixture;
	fixture_setup(&fixture, COMPILE_DEBUG
		      " && printf '%%s\\n' '#[inline(always)] fn inner(x: &mut Vec<u64>) {'"
		      " '  x.push(x.len() as u64); }'"
		      " '#[inline(never)] pub fn outer<T: Copy>(x: &mut Vec<u64>, _: T) {'"
		      " '  inner(x); }'"
		      " 'fn main() { let mut v = Vec::new(); outer(&mut v, 1u8); }' >r.rs"
		      " && rustc -C opt-level=2 -C debuginfo=2 r.rs -o r 2>/dev/null");
	char path[128], command[512];
	snprintf(path, sizeof path, "%s/r", fixture.folder);
	struct symbols_module *module;
	REQUIRE(symbols_open(fixture.symbols, path, NULL, 0, &module, NULL) == 0);
	snprintf(command, sizeof command,
		 "nm %s | sed -n 's/^\\([0-9a-f]*\\) t .*1r5outer.*/\\1/p'", path);
	FILE *output = popen(command, "r");
	uint64_t address = 0;
	REQUIRE(output && fscanf(output, "%lx", &address) == 1);
	pclose(output);
	/* What the vector does, inlined into inner(). */
	struct symbols_frame frames[SYMBOLS_CHAIN_MAX];
	bool found = false;
	for (uint64_t at = address; !found && at < address + 200; at++) {
		size_t count = symbols_lookup(fixture.symbols, module, at, frames);
		found = count >= 3 && !strcmp(frames[count - 2].function, "r::inner") &&
			!strcmp(frames[count - 1].function, "r::outer");
		if (found) {
			CHECK_HAS(frames[count - 3].function, "alloc::vec::Vec<T,A>::");
			CHECK_EQ_U64(frames[count - 2].line, 2);
			CHECK_EQ_U64(frames[count - 1].line, 4);
			CHECK_HAS(frames[count - 1].file, "r.rs");
		}
	}
	CHECK(found);
	fixture_teardown(&fixture);
}

/* Looks for a frame by function and line among the addresses of a program's code. */
static bool has_frame(struct fixture *fixture, const char *program, const char *function,
		      uint32_t line)
{
	char path[128], command[256];
	unsigned long low = 0, bytes = 0;
	snprintf(path, sizeof path, "%s/%s", fixture->folder, program);
	snprintf(command, sizeof command,
		 "readelf -SW %s | sed -n 's/.* [.]text *PROGBITS *//p' | cut -d' ' -f1,3", path);
	FILE *output = popen(command, "r");
	REQUIRE(output && fscanf(output, "%lx %lx", &low, &bytes) == 2);
	pclose(output);
	struct symbols_module *module;
	struct symbols_frame frames[SYMBOLS_CHAIN_MAX];
	REQUIRE(symbols_open(fixture->symbols, path, NULL, 0, &module, NULL) == 0);
	for (uint64_t at = low; at < low + bytes; at++) {
		size_t count = symbols_lookup(fixture->symbols, module, at, frames);
		for (size_t i = 0; i < count; i++)
			if (!strcmp(frames[i].function, function) && frames[i].line == line)
				return true;
	}
	return false;
}

static void d_language(void)
{
	struct fixture fixture;
	fixture_setup(&fixture,
		      COMPILE_DEBUG " && printf '%%s\\n' 'module demo;' 'struct Box(T) { T value;'"
				    " '  T twice(T x) { return x + value; } }'"
				    " 'void main() { Box!int b; b.value = b.twice(3); }' >demo.d"
				    " && gdc -g demo.d -o d");
	CHECK(has_frame(&fixture, "d", "demo.Box!(int).Box.twice(int)", 3));
	CHECK(has_frame(&fixture, "d", "D main", 4));
	fixture_teardown(&fixture);
}

static void nim(void)
{
	struct fixture fixture;
	fixture_setup(&fixture, COMPILE_DEBUG
		      " && printf '%%s\\n' 'proc work(x: int): string {.noinline.} ='"
		      " '  result = $x' '  result.add(\"!\")' 'echo work(3)' >demo.nim"
		      " && nim c --hints:off --mm:arc --debugger:native --nimcache:cache -o:n"
		      " demo.nim >/dev/null 2>&1");
	CHECK(has_frame(&fixture, "n", "demo.work", 3));
	fixture_teardown(&fixture);
}

/* ---- debuginfod ---- */

struct server {
	pid_t pid;
	uint16_t port;
	char url[64];
};

static uint16_t free_port(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	REQUIRE(fd >= 0 && !bind(fd, (struct sockaddr *)&address, bytes) &&
		!getsockname(fd, (struct sockaddr *)&address, &bytes));
	close(fd);
	return ntohs(address.sin_port);
}

static void start_server(struct server *server, const char *folder)
{
	char port[16];
	server->port = free_port();
	snprintf(port, sizeof port, "%u", server->port);
	snprintf(server->url, sizeof server->url, "http://127.0.0.1:%u", server->port);
	server->pid = fork();
	REQUIRE(server->pid >= 0);
	if (server->pid == 0) {
		if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
			_exit(1);
		execlp("debuginfod", "debuginfod", "-F", "-p", port, "-d", ":memory:", "-t", "1",
		       folder, (char *)NULL);
		_exit(127);
	}
}

static void stop_server(struct server *server)
{
	kill(server->pid, SIGKILL);
	waitpid(server->pid, NULL, 0);
}

struct asked {
	unsigned progress;
	struct symbols_result result;
	struct symbols *symbols;
};

static void note_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
	struct asked *asked = ctx;
	CHECK_HAS(what, "/p");
	CHECK(!total || done <= total);
	asked->progress++;
}

static void ask(struct fixture *fixture, const char *url, struct asked *asked)
{
	struct symbols_options options = {
		.debuginfod = SYMBOLS_DEBUGINFOD_ON,
		.debuginfod_urls = url,
		.debuginfod_timeout_s = 2,
		.warn = fixture_note_warning,
		.warn_ctx = fixture,
		.progress = note_progress,
		.progress_ctx = asked,
	};
	const struct trace_module module = {.module_id = 1, .path = fixture->path};
	const struct symbols_request request = {.module_id = 1, .address = fixture->in_hidden};
	REQUIRE(symbols_new(&options, &asked->symbols, NULL) == 0);
	REQUIRE(symbols_resolve(asked->symbols, &module, 1, &request, 1, &asked->result, NULL) ==
		0);
}

static void forget(struct asked *asked)
{
	tm_free(asked->result.symbols);
	symbols_free(asked->symbols);
	*asked = (struct asked){0};
}

static void use_cache(const struct fixture *fixture)
{
	char path[128];
	/* What a server does not have now it may have in a moment. */
	REQUIRE(fixture_shell("mkdir '%s/cache' && cd '%1$s/cache' && echo 0 >cache_miss_s",
			      fixture->folder) == 0);
	snprintf(path, sizeof path, "%s/cache", fixture->folder);
	setenv("DEBUGINFOD_CACHE_PATH", path, 1);
}

static void from_server(void)
{
	if (system("command -v debuginfod >/dev/null"))
		tap_skip("no debuginfod here");
	struct fixture fixture;
	struct server server;
	struct asked asked = {0};
	char folder[80];
	fixture_setup(&fixture, COMPILE_DEBUG " && mkdir served" TO_BUILD_ID("served"));
	use_cache(&fixture);
	snprintf(folder, sizeof folder, "%s/served", fixture.folder);
	start_server(&server, folder);
	/* It answers at once, and knows the file when it has read the folder. */
	for (int tries = 0; tries < 100; tries++) {
		ask(&fixture, server.url, &asked);
		if (asked.result.count && asked.result.symbols[0].line)
			break;
		forget(&asked);
		poll(NULL, 0, 100);
	}
	stop_server(&server);
	REQUIRE(asked.result.count == 1);
	CHECK_STR(asked.result.symbols[0].function, "hidden");
	CHECK_EQ_U64(asked.result.symbols[0].line, 11);
	CHECK_EQ_U64(asked.result.symbols[0].source, TRACE_SYM_DWARF);
	CHECK(asked.progress > 0);
	forget(&asked);
	fixture_teardown(&fixture);
}

/* The names that are there without it, and one sentence. */
static void check_failure(struct fixture *fixture, const char *url, const char *word)
{
	struct asked asked = {0};
	fixture->warnings = 0;
	ask(fixture, url, &asked);
	CHECK_EQ_U64(fixture->warnings, 1);
	CHECK_HAS(fixture->warning, word);
	forget(&asked);
}

static void dead_server(void)
{
	struct fixture fixture;
	char url[64];
	fixture_setup(&fixture, COMPILE_DEBUG " && strip -s p");
	use_cache(&fixture);
	snprintf(url, sizeof url, "http://127.0.0.1:%u", free_port());
	check_failure(&fixture, url, "DEBUGINFOD_URLS");
	fixture_teardown(&fixture);
}

/* A server that takes the question and never answers. */
static void silent_server(void)
{
	struct fixture fixture;
	char url[64];
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	REQUIRE(fd >= 0 && !bind(fd, (struct sockaddr *)&address, bytes) && !listen(fd, 8) &&
		!getsockname(fd, (struct sockaddr *)&address, &bytes));
	fixture_setup(&fixture, COMPILE_DEBUG " && strip -s p");
	use_cache(&fixture);
	snprintf(url, sizeof url, "http://127.0.0.1:%u", ntohs(address.sin_port));
	check_failure(&fixture, url, "2 s");
	close(fd);
	fixture_teardown(&fixture);
}

static const struct tap_case cases[] = {
	{.name = "gcc's DWARF 2 to 5 has lines and inlined functions", .run = gcc_versions},
	{.name = "clang's DWARF 3 to 5 has lines and inlined functions", .run = clang_versions},
	{.name = "rust has inlined functions, names without hash", .run = rust},
	{.name = "D has lines and readable names", .run = d_language},
	{.name = "Nim has lines of its own and module.proc names", .run = nim},
	{.name = "debug sections packed by zlib are read", .run = packed_zlib},
	{.name = "debug sections packed by zstd are read", .run = packed_zstd},
	{.name = "split debug information is found in .dwo files", .run = split_files},
	{.name = "split debug information is found in .dwp packages", .run = split_packages},
	{.name = "a .dwo of another build is not believed", .run = split_replaced},
	{.name = "what dwz took out is found", .run = dwz},
	{.name = "MiniDebugInfo names private functions", .run = mini_debug_info},
	{.name = "debug files are found by build-id, also without the program", .run = debug_dir},
	{.name = "another machine's files are read below their folder", .run = sysroot},
	{.name = "debug files come from a debuginfod server", .run = from_server},
	{.name = "a debuginfod server that is down is said once", .run = dead_server},
	{.name = "a debuginfod server that is silent is given up", .run = silent_server},
};
TAP_MAIN(cases)
