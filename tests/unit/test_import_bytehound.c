/* SPDX-License-Identifier: Apache-2.0 */
/* bytehound's files, made event by event: every kind, both packings, what is odd in them. */
#include "base/memory.h"
#include "bytehound_file.h"
#include "harness/tap.h"
#include "import/lz4.h"
#include "import_fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t deep[] = {0x401101, 0x401201, 0x401301};
static const uint64_t flat[] = {0x401301};

static void import_dat(struct imported *made, const struct dat *dat, size_t chunk, bool packed)
{
	uint8_t *file;
	size_t bytes = dat_file(dat, chunk, packed, &file);
	imported_init(made, file, bytes);
	tm_free(file);
}

static void start(struct dat *dat)
{
	*dat = (struct dat){0};
	dat_header(dat, "demo --fast");
	dat_backtrace(dat, 1, deep, 3);
	dat_backtrace(dat, 2, flat, 1);
}

static struct dat_block block(uint64_t number, uint64_t time_us, uint64_t pointer, uint64_t size)
{
	return (struct dat_block){.owner = 1,
				  .counter = number,
				  .time_us = time_us,
				  .pointer = pointer,
				  .size = size,
				  .backtrace = 1,
				  .thread = 100};
}

/* 100 + 50 live, then 50 becomes 80 elsewhere, then 100 ends. */
static void put_story(struct dat *dat, bool old)
{
	struct dat_block a = block(1, 10, 0x1000, 100), b = block(2, 20, 0x2000, 50);
	struct dat_block c = block(2, 30, 0x3000, 80), d = block(1, 40, 0x1000, 0);
	if (old)
		a.owner = b.owner = c.owner = d.owner = UINT64_MAX;
	b.backtrace = c.backtrace = 2;
	b.flags = 1u << 31;
	d.thread = 200;
	dat_alloc(dat, &a);
	dat_alloc(dat, &b);
	dat_realloc(dat, &c, 0x2000);
	dat_free(dat, &d);
}

static void check_story(struct imported *made)
{
	REQUIRE(made->code == 0);
	CHECK_STR(made->input.meta->source, "import:bytehound");
	CHECK_STR(made->input.meta->command, "demo --fast");
	CHECK_STR(made->input.meta->program, "/bin/demo");
	CHECK_EQ_U64(made->input.meta->pid, 4711);
	CHECK_EQ_U64(made->input.meta->start_unix_ns, 1600000000ull * 1000000000);
	CHECK_EQ_U64(made->input.meta->unknown, 0);
	CHECK_EQ_U64(made->totals.allocations, 3);
	CHECK_EQ_U64(made->totals.frees, 2);
	CHECK_EQ_U64(made->totals.peak_bytes, 180);
	CHECK_EQ_U64(made->totals.peak_time_ns, 30000);
	CHECK_EQ_U64(made->totals.live_bytes, 80);
	CHECK_EQ_U64(made->input.thread_count, 2);
	CHECK_EQ_U64(made->input.threads[1].tid, 200);
	REQUIRE(made->input.stack_count == 4);
	/* The outermost first; addresses are those of the calls. */
	CHECK_EQ_U64(made->input.stacks[1].pc, 0x401300 | TRACE_PC_EXACT);
	CHECK_EQ_U64(made->input.stacks[3].pc, 0x401100 | TRACE_PC_EXACT);
	CHECK_EQ_U64(made->input.stacks[3].parent_id, 2);
}

static void stories(void)
{
	for (int old = 0; old < 2; old++) {
		struct dat dat;
		struct imported made;
		start(&dat);
		put_story(&dat, old);
		static const size_t chunks[] = {1 << 19, 100, 70};
		for (size_t i = 0; i < 3; i++)
			for (int packed = 0; packed < 2; packed++) {
				import_dat(&made, &dat, chunks[i], packed);
				check_story(&made);
				CHECK(!made.result.cut);
				imported_done(&made);
			}
		dat_done(&dat);
	}
}

/* Kinds that say nothing about the heap: what comes after them must be found. */
static void other_kinds(void)
{
	struct dat dat;
	struct imported made;
	start(&dat);
	dat_u32(&dat, 6); /* a dump */
	dat_u64(&dat, 0x1000);
	dat_u64(&dat, 3);
	dat_text(&dat, "abc");
	dat_u32(&dat, 7); /* a marker */
	dat_u32(&dat, 33);
	dat_u32(&dat, 10); /* mallopt */
	for (int i = 0; i < 8; i++)
		dat_u32(&dat, 1);
	dat_u32(&dat, 11); /* environment: must not be kept */
	dat_text(&dat, "SECRET=hunter2");
	dat_u32(&dat, 12); /* wall clock */
	for (int i = 0; i < 3; i++)
		dat_u64(&dat, 5);
	dat_u32(&dat, 17); /* statistics of what was stripped */
	for (uint64_t i = 0; i < 7; i++)
		dat_u64(&dat, i + 1);
	dat_u32(&dat, 26); /* usage of a region */
	dat_u64(&dat, DAT_START_US + 8);
	dat_varint(&dat, 300);
	dat_u64(&dat, 0x1000);
	dat_varint(&dat, 1ull << 60);
	for (uint64_t i = 0; i < 6; i++)
		dat_varint(&dat, i * 100); /* 100 + 200 + 300 + 400 KiB resident */
	dat_header(&dat, "demo --fast");   /* again, as gathered files have it */
	put_story(&dat, false);
	import_dat(&made, &dat, 1 << 19, true);
	check_story(&made);
	CHECK_EQ_U64(made.totals.peak_rss_bytes, 1000 * 1024);
	CHECK(imported_says(&made, "4 short-lived allocations of 5 bytes were stripped"));
	const struct trace_moment *moments;
	size_t count;
	REQUIRE(trace_reader_moments(made.reader, &moments, &count, &made.err) == 0);
	REQUIRE(count == 1);
	CHECK_STR(moments[0].text, "marker 33");
	CHECK(!strstr(made.input.end->facts, "hunter2"));
	imported_done(&made);
	dat_done(&dat);
}

static void put_maps(struct dat *dat, const char *text)
{
	dat_u32(dat, 23);
	dat_u64(dat, 1);
	dat_text(dat, "/proc/self/maps");
	dat_u64(dat, strlen(text));
	dat_bytes(dat, text, strlen(text));
}

/* Modules from a copy of /proc/self/maps and from regions; a fixed one from its own file. */
static void modules(void)
{
	struct dat dat = {0};
	struct imported made;
	uint8_t elf[100] = {0x7f, 'E', 'L', 'F', [16] = 2};
	dat_header(&dat, "demo");
	dat_u32(&dat, 4); /* a file, embedded */
	dat_u64(&dat, 1);
	dat_text(&dat, "/bin/fixed");
	dat_u32(&dat, sizeof elf);
	dat_bytes(&dat, elf, sizeof elf);
	put_maps(&dat, "401000-402000 r-xp 00001000 08:01 77 /bin/fixed\n"
		       "700000-701000 r-xp 00002000 08:01 78 /lib/with blank.so\n"
		       "800000-801000 rw-p 00000000 00:00 0 [heap]\n");
	dat_u32(&dat, 24); /* a region */
	dat_u64(&dat, 1);
	dat_varint(&dat, 9);
	dat_u64(&dat, 0x900000);
	dat_varint(&dat, 0x1000);
	dat_varint(&dat, 0);
	dat_varint(&dat, 1234567);
	dat_u32(&dat, 8);
	dat_u32(&dat, 1);
	dat_u32(&dat, 5);
	dat_varint(&dat, 9);
	dat_bytes(&dat, "/lib/z.so", 9);
	static const uint64_t addresses[] = {0x900011, 0x700011, 0x401101, 0x800001};
	dat_backtrace(&dat, 1, addresses, 4);
	const struct dat_block one = block(1, 10, 0x1000, 100);
	dat_alloc(&dat, &one);
	import_dat(&made, &dat, 64, true);
	REQUIRE(made.code == 0);
	REQUIRE(made.input.stack_count == 5);
	const struct trace_module *m = made.input.modules;
	const struct trace_stack *s = made.input.stacks;
	CHECK_EQ_U64(s[1].module_id, 0);
	CHECK_STR(m[s[2].module_id].path, "/bin/fixed");
	CHECK_EQ_U64(m[s[2].module_id].bias, 0);
	CHECK_STR(m[s[3].module_id].path, "/lib/with blank.so");
	CHECK_EQ_U64(m[s[3].module_id].bias, 0x700000 - 0x2000);
	CHECK_STR(m[s[4].module_id].path, "/lib/z.so");
	imported_done(&made);
	dat_done(&dat);
}

/* Postprocessed: names instead of addresses; ids of backtraces are implicit. */
static void decoded(void)
{
	static const char *const strings[] = {"/bin/demo", "_Z1fv", "f()", "f.c", "g()", "main"};
	struct dat dat = {0};
	struct imported made;
	dat_header(&dat, "demo");
	for (uint32_t i = 0; i < 6; i++) {
		dat_u32(&dat, 14);
		dat_u32(&dat, i);
		dat_text(&dat, strings[i]);
	}
	static const uint32_t frames[][7] = {
		{0, 1, 2, 3, 10, UINT32_MAX, 1},                           /* f, inlined */
		{0, UINT32_MAX, 4, UINT32_MAX, UINT32_MAX, UINT32_MAX, 0}, /* g */
		{0, UINT32_MAX, 5, UINT32_MAX, UINT32_MAX, UINT32_MAX, 0}, /* main */
	};
	for (size_t i = 0; i < 3; i++) {
		dat_u32(&dat, 15);
		dat_u64(&dat, 0x401000 + i);
		for (size_t k = 0; k < 6; k++)
			dat_u32(&dat, frames[i][k]);
		dat_u8(&dat, (uint8_t)frames[i][6]);
	}
	dat_u32(&dat, 16);
	dat_u32(&dat, 4);
	for (uint32_t i = 0; i < 3; i++)
		dat_u32(&dat, i);
	dat_u32(&dat, 99); /* no such frame */
	struct dat_block one = block(1, 10, 0x1000, 100);
	one.backtrace = 0;
	dat_alloc(&dat, &one);
	import_dat(&made, &dat, 1 << 19, true);
	REQUIRE(made.code == 0);
	CHECK_EQ_U64(imported_figures(&made, "f();g();main").of[VIEW_UNFREED_BYTES], 100);
	CHECK(imported_says(&made, "1 values make no sense"));
	imported_done(&made);
	dat_done(&dat);
}

/* Old files: what changed since the thread's last backtrace. Addresses of 32 bits, too. */
static void partial(void)
{
	struct dat dat = {0};
	struct imported made;
	dat_header(&dat, "demo");
	dat_u32(&dat, 13);
	dat_u64(&dat, 1);
	dat_u32(&dat, 100);
	dat_u32(&dat, UINT32_MAX);
	dat_u32(&dat, 3);
	for (size_t i = 0; i < 3; i++)
		dat_u64(&dat, deep[i]);
	dat_u32(&dat, 18); /* one frame less, one other */
	dat_u64(&dat, 2);
	dat_u32(&dat, 100);
	dat_u32(&dat, 2);
	dat_u32(&dat, 1);
	dat_u32(&dat, 0x401901);
	dat_u32(&dat, 19);
	dat_u64(&dat, 3);
	dat_u32(&dat, 1);
	dat_u32(&dat, 0x401301);
	for (uint64_t i = 1; i <= 3; i++) {
		struct dat_block one = block(i, i, i << 12, 1);
		one.backtrace = i;
		dat_alloc(&dat, &one);
	}
	import_dat(&made, &dat, 1 << 19, true);
	REQUIRE(made.code == 0);
	REQUIRE(made.input.stack_count == 5);
	CHECK_EQ_U64(made.input.stacks[4].pc, 0x401900 | TRACE_PC_EXACT);
	CHECK_EQ_U64(made.input.stacks[4].parent_id, 1);
	CHECK_EQ_U64(made.totals.stacks, 3);
	imported_done(&made);
	dat_done(&dat);
}

static void mappings(void)
{
	struct dat dat;
	struct imported made;
	start(&dat);
	dat_u32(&dat, 27); /* mmap of 8192 bytes */
	dat_varint(&dat, 1);
	dat_u64(&dat, 0x10000);
	dat_varint(&dat, 0);
	dat_varint(&dat, 8192);
	dat_u32(&dat, 3);
	dat_u32(&dat, 0x22);
	dat_u32(&dat, UINT32_MAX);
	dat_varint(&dat, 0);
	dat_u64(&dat, DAT_START_US + 5);
	dat_varint(&dat, 2);
	dat_u32(&dat, 100);
	dat_u32(&dat, 25); /* gone again */
	dat_u64(&dat, DAT_START_US + 9);
	dat_varint(&dat, 1);
	dat_u64(&dat, 0x10000);
	dat_varint(&dat, 8192);
	dat_varint(&dat, 1);
	dat_u64(&dat, 0x10000);
	dat_varint(&dat, 8192);
	dat_u64(&dat, DAT_START_US + 9);
	dat_varint(&dat, 2);
	dat_u32(&dat, 100);
	dat_u32(&dat, 8); /* the same by the old events */
	for (uint64_t i = 0; i < 5; i++)
		dat_u64(&dat, (uint64_t[]){DAT_START_US + 12, 0x20000, 4096, 2, 0}[i]);
	for (size_t i = 0; i < 4; i++)
		dat_u32(&dat, (uint32_t[]){3, 0x22, UINT32_MAX, 100}[i]);
	dat_u64(&dat, 0);
	dat_u32(&dat, 9);
	for (size_t i = 0; i < 4; i++)
		dat_u64(&dat, (uint64_t[]){DAT_START_US + 14, 0x20000, 4096, 2}[i]);
	dat_u32(&dat, 100);
	put_story(&dat, false);
	import_dat(&made, &dat, 1 << 19, true);
	check_story(&made);
	CHECK_EQ_U64(made.totals.mapped_peak_bytes, 8192);
	CHECK_EQ_U64(made.totals.mapped_bytes, 0);
	imported_done(&made);
	dat_done(&dat);
}

/* Written out of order, as two queues and the culling do it. */
static void out_of_order(void)
{
	struct dat dat;
	struct imported made;
	start(&dat);
	const struct dat_block late = block(1, 10, 0x1000, 100), end = block(1, 50, 0x1000, 0);
	const struct dat_block mid = block(2, 30, 0x2000, 7);
	dat_free(&dat, &end);
	dat_alloc(&dat, &mid);
	dat_alloc(&dat, &late);
	import_dat(&made, &dat, 1 << 19, true);
	REQUIRE(made.code == 0);
	CHECK_EQ_U64(made.totals.frees, 1);
	CHECK_EQ_U64(made.totals.freed_older, 0);
	CHECK_EQ_U64(made.totals.peak_bytes, 107);
	CHECK_EQ_U64(made.totals.live_bytes, 7);
	imported_done(&made);
	dat_done(&dat);
}

/* One microsecond, one address: the free of the block before belongs before the new one. */
static void same_moment(void)
{
	struct dat dat;
	struct imported made;
	start(&dat);
	const struct dat_block a = block(1, 10, 0x1000, 100), b = block(2, 20, 0x1000, 30);
	struct dat_block a_end = block(1, 20, 0x1000, 0);
	dat_alloc(&dat, &a);
	dat_alloc(&dat, &b);
	dat_free(&dat, &a_end);
	import_dat(&made, &dat, 1 << 19, true);
	REQUIRE(made.code == 0);
	CHECK_EQ_U64(made.totals.freed_unseen, 0);
	CHECK_EQ_U64(made.totals.freed_older, 0);
	CHECK_EQ_U64(made.totals.live_bytes, 30);
	imported_done(&made);
	dat_done(&dat);
}

/* An allocation on a live address ends the old block; it is counted and explained. */
static void live_address(void)
{
	struct dat dat;
	struct imported made;
	start(&dat);
	const struct dat_block a = block(1, 10, 0x1000, 100), b = block(2, 20, 0x1000, 30);
	dat_alloc(&dat, &a);
	dat_alloc(&dat, &b);
	import_dat(&made, &dat, 1 << 19, true);
	REQUIRE(made.code == 0);
	CHECK_EQ_U64(made.totals.freed_unseen, 1);
	CHECK_EQ_U64(made.totals.live_bytes, 30);
	CHECK(imported_says(&made, "1 allocations came on a live address"));
	imported_done(&made);
	dat_done(&dat);
}

/* Cut at every byte: what is there, or an error in words. */
static void cut_anywhere(void)
{
	struct dat dat;
	uint8_t *file;
	start(&dat);
	put_story(&dat, false);
	for (int packed = 0; packed < 2; packed++) {
		size_t bytes = dat_file(&dat, 120, packed, &file);
		for (size_t length = 1; length < bytes; length += 1 + length % 5) {
			struct imported made;
			imported_init(&made, file, length);
			if (made.code) {
				imported_refused(&made);
				continue;
			}
			CHECK(made.totals.allocations <= 3);
			imported_done(&made);
		}
		tm_free(file);
	}
	dat_done(&dat);
}

static void hostile(void)
{
	struct dat dat;
	struct imported made;
	start(&dat);
	struct dat_block strange = block(1, 1ull << 60, UINT64_MAX, UINT64_MAX);
	strange.backtrace = 12345;
	strange.thread = UINT32_MAX;
	dat_alloc(&dat, &strange);
	dat_free(&dat, &strange);
	dat_backtrace(&dat, 1, deep, 3); /* again */
	dat_u32(&dat, 14);               /* a string with a number far away */
	dat_u32(&dat, 4000000000u);
	dat_text(&dat, "x");
	dat_u32(&dat, 999); /* no such kind */
	import_dat(&made, &dat, 1 << 19, true);
	REQUIRE(made.code == 0);
	CHECK_EQ_U64(made.totals.allocations, 1);
	CHECK(imported_says(&made, "kind 999 is not known"));
	CHECK(imported_says(&made, "2 events have a backtrace that is not in the file"));
	imported_done(&made);
	/* Claims of lengths that nothing stands for. */
	for (uint32_t kind = 4; kind <= 27; kind++) {
		dat_done(&dat);
		start(&dat);
		put_story(&dat, false);
		dat_u32(&dat, kind);
		for (int i = 0; i < 40; i++)
			dat_u8(&dat, 0xff);
		import_dat(&made, &dat, 1 << 19, true);
		if (made.code)
			imported_refused(&made);
		else {
			CHECK_EQ_U64(made.totals.allocations, 3);
			imported_done(&made);
		}
	}
	dat_done(&dat);
}

static void packing(void)
{
	uint8_t out[64];
	size_t got;
	/* Two literals, a match of 6 that overlaps itself, an empty token at the end. */
	static const uint8_t match_last[] = {0x22, 'a', 'b', 2, 0, 0};
	CHECK_EQ_I64(lz4_unpack(match_last, sizeof match_last, out, sizeof out, &got), LZ4_WHOLE);
	CHECK_EQ_U64(got, 8);
	CHECK_MEM(out, "abababab", 8);
	CHECK_EQ_I64(lz4_unpack(match_last, sizeof match_last, out, 5, &got), LZ4_FULL);
	CHECK_EQ_I64(lz4_unpack(match_last, 4, out, sizeof out, &got), LZ4_CUT);
	static const uint8_t before[] = {0x10, 'a', 2, 0};
	CHECK_EQ_I64(lz4_unpack(before, sizeof before, out, sizeof out, &got), LZ4_BAD);
	static const uint8_t none[] = {0x10, 'a', 0, 0};
	CHECK_EQ_I64(lz4_unpack(none, sizeof none, out, sizeof out, &got), LZ4_BAD);
	/* A length that goes on and on. */
	uint8_t longest[40] = {0xf0};
	memset(longest + 1, 255, sizeof longest - 1);
	CHECK_EQ_I64(lz4_unpack(longest, sizeof longest, out, sizeof out, &got), LZ4_CUT);
}

/* A chunk that claims to unpack to far more than bytehound writes. */
static void bomb(void)
{
	enum { BYTES = 400000 };
	uint8_t *file = malloc(BYTES + 5);
	struct imported made;
	REQUIRE(file != NULL);
	memset(file, 255, BYTES + 5);
	file[0] = 1;
	for (int i = 0; i < 4; i++)
		file[1 + i] = (uint8_t)(BYTES >> (8 * i));
	static const uint8_t begin[] = {0x1f, 0, 1, 0};
	memcpy(file + 5, begin, sizeof begin);
	imported_init(&made, file, BYTES + 5);
	imported_refused(&made);
	free(file);
}

static void no_memory(void)
{
	struct dat dat;
	uint8_t *file;
	start(&dat);
	put_maps(&dat, "401000-402000 r-xp 00001000 08:01 77 /nowhere\n");
	put_story(&dat, false);
	size_t bytes = dat_file(&dat, 100, true, &file);
	imported_without_memory(file, bytes);
	tm_free(file);
	dat_done(&dat);
}

static const struct tap_case cases[] = {
	{.name = "bytehound's figures are not ours", .run = stories},
	{.name = "an event after one of another kind is lost", .run = other_kinds},
	{.name = "addresses are looked up in the wrong file", .run = modules},
	{.name = "names of a postprocessed file are lost", .run = decoded},
	{.name = "backtraces of old files are put together wrongly", .run = partial},
	{.name = "mapped memory is lost", .run = mappings},
	{.name = "events out of order give other figures", .run = out_of_order},
	{.name = "a free and an allocation of one moment are mixed up", .run = same_moment},
	{.name = "an allocation on a live address is counted wrongly", .run = live_address},
	{.name = "a file that was cut is lost or does harm", .run = cut_anywhere},
	{.name = "nonsense in a file does harm", .run = hostile},
	{.name = "without memory an import crashes", .run = no_memory},
	{.name = "packed blocks are unpacked wrongly", .run = packing},
	{.name = "a chunk without end takes all memory", .run = bomb},
};

TAP_MAIN(cases)
