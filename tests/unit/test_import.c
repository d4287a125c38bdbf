/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame of importing: a file is known by its content however it is packed;
 * what is damaged or cut gives what it has, or an error in words.
 */
#include "harness/tap.h"
#include "import_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zstd.h>

#include "base/io.h"
#include "base/text.h"

static const char stacks[] = "main;a;b 100\nmain;a;c 50\n# a remark\nmain;d 7\nmain;a;b 1\n";

static void check_stacks(struct imported *made)
{
	REQUIRE(made->code == 0);
	CHECK_EQ_U64(made->totals.live_bytes, 158);
	CHECK_EQ_U64(made->totals.peak_bytes, 158);
	CHECK_EQ_U64(imported_figures(made, "b;a;main").of[VIEW_UNFREED_BYTES], 101);
	CHECK_EQ_U64(imported_figures(made, "b;a;main").of[VIEW_PEAK_BYTES], 101);
	CHECK_EQ_U64(imported_figures(made, "c;a;main").of[VIEW_UNFREED_BYTES], 50);
	CHECK_EQ_U64(imported_figures(made, "d;main").of[VIEW_UNFREED_BYTES], 7);
	CHECK(made->input.meta->unknown & TRACE_UNKNOWN_EVENTS);
	CHECK_STR(made->input.meta->source, "import:collapsed");
	CHECK_STR(made->input.meta->origin, "collapsed stacks");
	imported_done(made);
}

static void packings(void)
{
	struct imported made;
	imported_text(&made, stacks);
	check_stacks(&made);
	imported_gzip(&made, stacks, sizeof stacks - 1);
	check_stacks(&made);
	imported_zstd(&made, stacks, sizeof stacks - 1);
	check_stacks(&made);
}

/* Members one after the other are one file, as gzip -d has it. */
static void two_members(void)
{
	static const unsigned char empty[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3,
					      3,    0,    0, 0, 0, 0, 0, 0, 0, 0};
	struct imported made;
	unsigned char twice[sizeof empty * 2];
	memcpy(twice, empty, sizeof empty);
	memcpy(twice + sizeof empty, empty, sizeof empty);
	imported_init(&made, twice, sizeof twice);
	CHECK_EQ_I64(made.code, -ENODATA);
	imported_refused(&made);
}

static void cut_packings(void)
{
	char big[20000];
	size_t used = 0;
	for (unsigned i = 0; used < sizeof big - 40; i++)
		used += (size_t)snprintf(big + used, 40, "main;f%u %u\n", i * 7919u, i);
	struct imported whole;
	imported_zstd(&whole, big, used);
	REQUIRE(whole.code == 0);
	uint64_t all = whole.totals.live_bytes;
	char *packed;
	size_t length;
	FILE *file = fopen(whole.in_path, "rb");
	REQUIRE(file != NULL);
	packed = malloc(sizeof big);
	REQUIRE(packed != NULL);
	length = fread(packed, 1, sizeof big, file);
	fclose(file);
	imported_done(&whole);
	for (size_t cut = 0; cut < length; cut += 1 + cut / 7) {
		struct imported made;
		imported_init(&made, packed, cut);
		if (made.code) {
			imported_refused(&made);
			continue;
		}
		CHECK(made.result.cut);
		CHECK(imported_says(&made, "not whole"));
		CHECK(made.totals.live_bytes <= all);
		imported_done(&made);
	}
	free(packed);
}

static void not_known(void)
{
	static const char *const files[] = {"", "hello\n", "main;a b\n", "\n\n\n", "12 12\n"};
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
		struct imported made;
		imported_text(&made, files[i]);
		imported_refused(&made);
	}
}

/* A line without an end is an error, not a machine without memory. */
static void endless_line(void)
{
	enum { BYTES = 3 << 20 };
	char *line = malloc(BYTES);
	struct imported made;
	REQUIRE(line != NULL);
	memset(line, 'x', BYTES);
	memcpy(line, "main;a 1\n", 9);
	for (int i = 0; i < 8000; i++)
		memcpy(line + 9 * i, "main;a 1\n", 9);
	imported_zstd(&made, line, BYTES);
	CHECK_EQ_I64(made.code, -EBADMSG);
	imported_refused(&made);
	free(line);
}

/* A few KB that unpack to very much: refused where nothing makes sense any more. */
static void bomb(void)
{
	enum { BYTES = 48 << 20 };
	static const char head[] = "v 10400 3\nX x\n";
	char *zeros = calloc(BYTES, 1);
	struct imported made;
	struct rusage usage;
	REQUIRE(zeros != NULL);
	memcpy(zeros, head, sizeof head - 1);
	size_t room = ZSTD_compressBound(BYTES);
	char *packed = malloc(room);
	REQUIRE(packed != NULL);
	size_t used = ZSTD_compress(packed, room, zeros, BYTES, 1);
	REQUIRE(!ZSTD_isError(used) && used < BYTES / 1000);
	free(zeros);
	getrusage(RUSAGE_SELF, &usage);
	long before_kib = usage.ru_maxrss;
	imported_init(&made, packed, used);
	CHECK_EQ_I64(made.code, -EBADMSG);
	CHECK_HAS(made.err.text, "longer than a MiB");
	imported_refused(&made);
	getrusage(RUSAGE_SELF, &usage);
	CHECK(usage.ru_maxrss - before_kib < 64 << 10);
	free(packed);
}

static void odd_lines(void)
{
	struct imported made;
	char text[70 << 10];
	size_t used = 0;
	while (used < (66u << 10))
		used += (size_t)snprintf(text + used, 16, "main;a 1\n");
	snprintf(text + used, 40, "no number\nmain;b 5\n;; 3\n");
	imported_text(&made, text);
	REQUIRE(made.code == 0);
	CHECK(imported_says(&made, "2 lines"));
	CHECK_EQ_U64(imported_figures(&made, "b;main").of[VIEW_UNFREED_BYTES], 5);
	imported_done(&made);
}

/* More than goes through in one piece, with samples in between: nothing is lost or doubled. */
static void large_file(void)
{
	enum { ROUNDS = 20000 };
	static const char head[] = "v 10400 3\nX x\nI 1000 100\ns 1 f\ns 4 main\n";
	struct text file = {0};
	struct imported made;
	text_put(&file, head);
	for (unsigned i = 0; i < ROUNDS; i++) {
		/* A new stack and size now and then; every third block stays. */
		if (i % 100 == 0)
			text_print(&file, "i %x 0 1\nt %x 0\na %x %x\n", 0x1000 + i, i / 100 + 1,
				   i / 100 + 1, i / 100 + 1);
		text_print(&file, "+ %x\n%s", i / 100, i % 50 ? "" : "c 10\nR 50\n");
		if (i % 3)
			text_print(&file, "- %x\n", i / 100);
	}
	REQUIRE(!text_error(&file));
	imported_zstd(&made, text_string(&file), file.length);
	REQUIRE(made.code == 0);
	uint64_t live_bytes = 0, live_blocks = 0;
	for (unsigned i = 0; i < ROUNDS; i += 3) {
		live_blocks++;
		live_bytes += i / 100 + 1;
	}
	CHECK_EQ_U64(made.totals.allocations, ROUNDS);
	CHECK_EQ_U64(made.totals.live_blocks, live_blocks);
	CHECK_EQ_U64(made.totals.live_bytes, live_bytes);
	CHECK_EQ_U64(made.result.events, 2 * ROUNDS - live_blocks);
	CHECK_EQ_U64(made.result.stacks, ROUNDS / 100);
	imported_done(&made);
	text_done(&file);
}

static int stop_at_once(void *ctx, uint64_t done, uint64_t all)
{
	(void)done;
	(void)all;
	++*(int *)ctx;
	return -ECANCELED;
}

/* Ctrl-C in the middle: an end, and no hang, whatever is on its way. */
static void stopped(void)
{
	enum { EVENTS = 1 << 20 };
	struct text file = {0};
	struct import_result result;
	struct tm_error err = {0};
	int asked = 0;
	const struct import_options options = {
		.name = "test", .progress = stop_at_once, .ctx = &asked};
	text_put(&file, "v 10400 3\nX x\na 10 0\n");
	for (unsigned i = 0; i < EVENTS; i++)
		text_put(&file, i % 2 ? "- 0\n" : "+ 0\n");
	REQUIRE(!text_error(&file));
	int in = memfd_create("in", MFD_CLOEXEC), out = memfd_create("out", MFD_CLOEXEC);
	REQUIRE(in >= 0 && out >= 0);
	REQUIRE(io_write(in, text_string(&file), file.length) == 0);
	CHECK_EQ_I64(import_run(in, out, &options, &result, &err), -ECANCELED);
	CHECK_EQ_I64(asked, 1);
	close(in);
	text_done(&file);
}

static const struct tap_case cases[] = {
	{.name = "a file is not known when it is packed", .run = packings},
	{.name = "a packed file of several parts is misread", .run = two_members},
	{.name = "a packed file that was cut is lost, or taken for whole", .run = cut_packings},
	{.name = "what is no file of any tool is taken for one", .run = not_known},
	{.name = "an endless line takes all memory", .run = endless_line},
	{.name = "a file that unpacks to very much takes all memory", .run = bomb},
	{.name = "lines that make no sense are not counted", .run = odd_lines},
	{.name = "events of a large file are lost", .run = large_file},
	{.name = "an import cannot be stopped", .run = stopped},
};

TAP_MAIN(cases)
