/* SPDX-License-Identifier: Apache-2.0 */
/* Names from perf maps and jitdumps, and V8's names made readable. */
#include "base/io.h"
#include "base/memory.h"
#include "harness/tap.h"
#include "symbols/jit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ANSWERS = 64 };

static char answers[ANSWERS][JIT_NAME_MAX + 64];

static int note_answer(void *ctx, size_t request, const struct jit_name *name)
{
	size_t *count = ctx;
	++*count;
	if (request >= ANSWERS)
		return 0;
	snprintf(answers[request], sizeof answers[request], "%.200s|%.200s|%u|%u", name->function,
		 name->file, name->line, name->column);
	return 0;
}

static int file_of(const void *data, size_t bytes)
{
	int fd = memfd_create("jit", MFD_CLOEXEC);
	REQUIRE(fd >= 0 && !io_write(fd, data, bytes));
	memset(answers, 0, sizeof answers);
	return fd;
}

static void readable(void)
{
	static const char *const pairs[][2] = {
		{"LazyCompile:*add /app/sum.js:3:12", "add [optimized]|/app/sum.js|3|12"},
		{"JS:~get size node:internal/url:1021:11",
		 "get size [interpreted]|node:internal/url|1021|11"},
		{"JS:^ /app/a b/x.js:4:62", "(anonymous) [baseline]|/app/a b/x.js|4|62"},
		{"JS:+f file:///app/m.mjs:1:2", "f [maglev]|/app/m.mjs|1|2"},
		{"JS:o*loop /app/x.js:9:1", "loop [optimized]|/app/x.js|9|1"},
		{"Script:~ /app/x.js:1:1", "(anonymous) [interpreted]|/app/x.js|1|1"},
		{"Eval:~ [eval]:1:1", "(anonymous) [interpreted]|[eval]|1|1"},
		{"Function:~bare", "bare [interpreted]||0|0"},
		{"Builtin:StringAdd_CheckNone", "StringAdd_CheckNone [builtin]||0|0"},
		{"BytecodeHandler:LdaZero.Wide", "LdaZero.Wide [bytecode handler]||0|0"},
		{"RegExp:^a b$", "^a b$ [regexp]||0|0"},
		{"Ljava/util/ArrayList;::grow", "Ljava/util/ArrayList;::grow||0|0"},
		{"py::f:/app/x.py", "py::f:/app/x.py||0|0"},
		{"JS:", "(anonymous)||0|0"},
		{"", "(anonymous)||0|0"},
		{"JS:~:12:13", ":12:13 [interpreted]||0|0"},
	};
	struct jit_name name;
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		size_t count = 0;
		jit_readable(pairs[i][0], strlen(pairs[i][0]), &name);
		note_answer(&count, 0, &name);
		CHECK_STR(answers[0], pairs[i][1]);
	}
}

static void map(void)
{
	static const char text[] = "1000 100 JS:~old /a.js:1:1\n"
				   "2000 10 two words here\n"
				   "0x3000 0x20 with prefix\n"
				   "\n"
				   "not a line\n"
				   "1080 80 JS:*new /a.js:2:2\n"
				   "4000 0 empty\n"
				   "ffffffffffffff00 ffffffffffffffff to the end\n"
				   "10000000000000000000 1 too long a number\n"
				   "5000 8 last without end";
	const struct jit_request requests[] = {
		{0x1000, 0}, {0x107f, 0}, {0x1080, 0}, {0x10ff, 0}, {0x1100, 0},
		{0x2005, 0}, {0x301f, 0}, {0x4000, 0}, {0x5007, 0}, {0xffffffffffffff01, 0}};
	size_t count = 0;
	int fd = file_of(text, sizeof text - 1);
	CHECK(!jit_read_map(fd, requests, sizeof requests / sizeof requests[0], note_answer,
			    &count));
	CHECK_EQ_U64(count, 8);
	CHECK_STR(answers[0], "old [interpreted]|/a.js|1|1");
	CHECK_STR(answers[1], "old [interpreted]|/a.js|1|1");
	CHECK_STR(answers[2], "new [optimized]|/a.js|2|2");
	CHECK_STR(answers[3], "new [optimized]|/a.js|2|2");
	CHECK_STR(answers[4], "");
	CHECK_STR(answers[5], "two words here||0|0");
	CHECK_STR(answers[6], "with prefix||0|0");
	CHECK_STR(answers[7], "");
	CHECK_STR(answers[8], "last without end||0|0");
	CHECK_STR(answers[9], "to the end||0|0");
	close(fd);
}

/* A million lines that all cover every address, with bytes that are no text. */
static void large_map(void)
{
	FILE *file = tmpfile();
	REQUIRE(file);
	for (unsigned i = 0; i < 1000000; i++)
		fprintf(file, "%x ffffffff \xff\xfe\033[31mname %u\n", i % 16, i);
	for (unsigned i = 0; i < 300000; i++)
		putc('x', file);
	fflush(file);
	enum { COUNT = 20000 };
	struct jit_request *requests = calloc(COUNT, sizeof *requests);
	REQUIRE(requests);
	for (size_t i = 0; i < COUNT; i++)
		requests[i].address = 100 + i;
	size_t count = 0;
	memset(answers, 0, sizeof answers);
	CHECK(!jit_read_map(fileno(file), requests, COUNT, note_answer, &count));
	CHECK_EQ_U64(count, COUNT);
	CHECK_STR(answers[7], "\xff\xfe\033[31mname 999999||0|0");
	free(requests);
	fclose(file);
}

/* ---- jitdump ---- */

static struct text dump;

static void put_u32(uint32_t value)
{
	text_put_bytes(&dump, &value, sizeof value);
}

static void put_u64(uint64_t value)
{
	text_put_bytes(&dump, &value, sizeof value);
}

static void put_header(void)
{
	text_clear(&dump);
	put_u32(0x4a695444);
	put_u32(1);
	put_u32(40);
	put_u32(62);
	put_u32(0);
	put_u32(1);
	put_u64(0);
	put_u64(0);
}

static void put_load(uint64_t time_ns, uint64_t address, uint64_t bytes, uint64_t index,
		     const char *name)
{
	put_u32(0);
	put_u32((uint32_t)(16 + 40 + strlen(name) + 1 + bytes));
	put_u64(time_ns);
	put_u32(1);
	put_u32(1);
	put_u64(address);
	put_u64(address);
	put_u64(bytes);
	put_u64(index);
	text_put_bytes(&dump, name, strlen(name) + 1);
	text_put_repeated(&dump, '\xcc', bytes);
}

static void put_move(uint64_t time_ns, uint64_t from, uint64_t to, uint64_t bytes, uint64_t index)
{
	put_u32(1);
	put_u32(16 + 48);
	put_u64(time_ns);
	put_u32(1);
	put_u32(1);
	put_u64(to);
	put_u64(from);
	put_u64(to);
	put_u64(bytes);
	put_u64(index);
}

static void put_debug(uint64_t time_ns, uint64_t address)
{
	put_u32(2);
	put_u32(16 + 16 + 16 + 6 + 16 + 2);
	put_u64(time_ns);
	put_u64(address);
	put_u64(2);
	put_u64(address);
	put_u32(10);
	put_u32(0);
	text_put_bytes(&dump, "/d.rb", 6);
	put_u64(address + 8);
	put_u32(11);
	put_u32(0);
	text_put_bytes(&dump, "\xff", 2);
}

static void dump_file(void)
{
	put_header();
	put_debug(5, 0x1000);
	put_load(10, 0x1000, 16, 1, "first");
	put_load(20, 0x1000, 16, 2, "JS:*second /s.js:7:8");
	put_move(30, 0x1000, 0x9000, 16, 1);
	/* Sorted by address; times tell the two codes at 0x1000 apart. */
	const struct jit_request requests[] = {
		{0x1000, 12},  {0x1009, 15},  {0x1009, 25},
		{0x100f, 100}, {0x1010, 100}, {0x9009, 40},
	};
	size_t count = 0;
	int fd = file_of(dump.data, dump.length);
	CHECK(!jit_read_dump(fd, requests, sizeof requests / sizeof requests[0], note_answer,
			     &count));
	CHECK_EQ_U64(count, 5);
	CHECK_STR(answers[0], "first|/d.rb|10|0");
	CHECK_STR(answers[1], "first|/d.rb|11|0");
	CHECK_STR(answers[2], "second [optimized]|/s.js|7|8");
	CHECK_STR(answers[3], "second [optimized]|/s.js|7|8");
	CHECK_STR(answers[4], "");
	CHECK_STR(answers[5], "first|/d.rb|11|0");
	close(fd);
	text_done(&dump);
}

static void bad_dump(void)
{
	const struct jit_request requests[] = {{0x1000, 12}};
	size_t count = 0;
	int fd = file_of("no dump at all, but long enough to be the header of one", 56);
	CHECK_EQ_I64(jit_read_dump(fd, requests, 1, note_answer, &count), -EBADMSG);
	close(fd);
	put_header();
	put_load(10, 0x1000, 16, 1, "first");
	put_u32(0);
	put_u32(3); /* shorter than a record */
	put_u64(0);
	fd = file_of(dump.data, dump.length);
	CHECK(!jit_read_dump(fd, requests, 1, note_answer, &count));
	CHECK_STR(answers[0], "first||0|0");
	close(fd);
	text_done(&dump);
}

static void no_memory(void)
{
	put_header();
	put_debug(5, 0x1000);
	put_load(10, 0x1000, 16, 1, "first");
	const struct jit_request requests[] = {{0x1000, 12}};
	int fd = file_of(dump.data, dump.length);
	for (long n = 0; n < 12; n++) {
		size_t count = 0;
		tm_alloc_fail_at(n);
		int code = jit_read_dump(fd, requests, 1, note_answer, &count);
		tm_alloc_fail_at(n);
		int other = jit_read_map(fd, requests, 1, note_answer, &count);
		tm_alloc_fail_at(-1);
		CHECK(!code || code == -ENOMEM);
		CHECK(!other || other == -ENOMEM);
	}
	close(fd);
	text_done(&dump);
}

static const struct tap_case cases[] = {
	{.name = "names of V8 read as in the source", .run = readable},
	{.name = "functions of a perf map have names, the last wins", .run = map},
	{.name = "a map of a million lines takes bounded time", .run = large_map, .seconds = 30},
	{.name = "code at one address is told apart by time", .run = dump_file},
	{.name = "a damaged jitdump is read up to the damage", .run = bad_dump},
	{.name = "lack of memory is an error, not a crash", .run = no_memory},
};
TAP_MAIN(cases)
