/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions whose names must be found, in places where they are hard to find.
 * Modes:
 *   stages           waits for a line before each of four functions, which it says when done
 *   turns A B        two libraries in turn at one path: B replaces A on disk meanwhile, each when
 *                    a line comes
 *   exec PROGRAM ... allocates, then becomes another program
 *   jit MAP [DUMP]   code made at run time calls malloc; a map, and a jitdump, tell its name.
 *                    MAP "-": /tmp/perf-PID.map, PID as this process sees it
 *   part MAP         the same, and code that the map does not name
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SITE __attribute__((noinline, noclone))

static void *volatile kept;

#define MAKER(name)                   \
	SITE void name(size_t bytes)  \
	{                             \
		kept = malloc(bytes); \
	}
MAKER(stage_one_make)
MAKER(stage_two_make)
MAKER(stage_three_make)
MAKER(stage_four_make)
MAKER(before_exec_make)

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void stages(void)
{
	static void (*const makers[])(size_t) = {stage_one_make, stage_two_make, stage_three_make,
						 stage_four_make};
	char line[16];
	for (size_t i = 0; i < 4 && read(0, line, sizeof line) > 0; i++) {
		makers[i](1000 + i);
		dprintf(1, "done %zu\n", i + 1);
	}
	if (read(0, line, sizeof line) < 0)
		fail("read");
}

typedef void *(*plug_fn)(size_t bytes);

static void load_and_call(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	if (!library)
		fail(dlerror());
	plug_fn *entry = dlsym(library, "plug_entry");
	char line[16];
	kept = (*entry)(5000);
	dprintf(1, "loaded\n");
	if (read(0, line, sizeof line) < 0)
		fail("read");
	dlclose(library);
}

static void turns(const char *first, const char *second)
{
	load_and_call(first);
	if (rename(second, first))
		fail("rename");
	load_and_call(first);
	unlink(first);
}

/* push rbp; mov rbp, rsp; mov rax, rdi; mov rdi, rsi; call rax; pop rbp; ret */
static const uint8_t thunk[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8,
				0x48, 0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3};

enum { UNNAMED_OFFSET = 1024 };

static void write_map(const char *path, uintptr_t code)
{
	char own[64];
	snprintf(own, sizeof own, "/tmp/perf-%d.map", (int)getpid());
	FILE *map = fopen(strcmp(path, "-") ? path : own, "w");
	if (!map)
		fail("map");
	fprintf(map, "%lx %zx JS:~made_by_map /app/\xff.js:3:12\n", code, sizeof thunk);
	fclose(map);
}

static void put(FILE *file, const void *data, size_t bytes)
{
	if (fwrite(data, 1, bytes, file) != bytes)
		fail("dump");
}

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Twice at one address: first under this name, later under another. */
static void put_load(FILE *file, uint64_t time_ns, uint64_t code, uint64_t index, const char *name)
{
	uint32_t head[2] = {0, (uint32_t)(16 + 40 + strlen(name) + 1 + sizeof thunk)};
	uint32_t ids[2] = {(uint32_t)getpid(), (uint32_t)getpid()};
	uint64_t body[4] = {code, code, sizeof thunk, index};
	put(file, head, sizeof head);
	put(file, &time_ns, sizeof time_ns);
	put(file, ids, sizeof ids);
	put(file, body, sizeof body);
	put(file, name, strlen(name) + 1);
	put(file, thunk, sizeof thunk);
}

static void write_dump(const char *path, uint64_t code)
{
	uint32_t head[6] = {0x4a695444, 1, 40, 62, 0, (uint32_t)getpid()};
	uint64_t rest[2] = {now_ns(), 0};
	FILE *file = fopen(path, "w+");
	if (!file)
		fail("dump");
	put(file, head, sizeof head);
	put(file, rest, sizeof rest);
	put_load(file, rest[0], code, 1, "made_by_dump");
	put_load(file, rest[0] + 3600 * 1000000000ull, code, 2, "much_later");
	fflush(file);
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(file), 0) == MAP_FAILED)
		fail("mmap");
	fclose(file);
}

typedef void *(*call_fn)(void *(*)(size_t), size_t);

static void jit(const char *map, const char *dump, bool part)
{
	uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code == MAP_FAILED)
		fail("mmap");
	memcpy(code, thunk, sizeof thunk);
	memcpy(code + UNNAMED_OFFSET, thunk, sizeof thunk);
	if (strcmp(map, "none") != 0)
		write_map(map, (uintptr_t)code);
	if (dump)
		write_dump(dump, (uintptr_t)code);
	char line[16];
	kept = ((call_fn)code)(malloc, 12345);
	if (part)
		kept = ((call_fn)(code + UNNAMED_OFFSET))(malloc, 54321);
	dprintf(1, "ready\n");
	if (read(0, line, sizeof line) < 0)
		fail("read");
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	if (!strcmp(mode, "stages"))
		stages();
	else if (!strcmp(mode, "turns") && argc > 3)
		turns(argv[2], argv[3]);
	else if (!strcmp(mode, "jit") && argc > 2)
		jit(argv[2], argc > 3 ? argv[3] : NULL, false);
	else if (!strcmp(mode, "part") && argc > 2)
		jit(argv[2], NULL, true);
	else if (!strcmp(mode, "exec") && argc > 2) {
		before_exec_make(777);
		execv(argv[2], argv + 2);
		fail("exec");
	} else
		return 2;
	return 0;
}
