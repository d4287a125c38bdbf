/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heaptrack's files, written here line by line: each record in each format. The
 * figures are counted by hand beside the lines.
 */
#include "harness/tap.h"
#include "import_fixture.h"
#include "views/suppress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two stacks; f is inlined into g. */
#define NAMES_3                                                  \
	"s 6 /bin/x\ns 1 f\ns 3 f.c\ns 1 g\ns 3 g.c\ns 4 main\n" \
	"i 401000 1 2 3 a 4 5 14\ni 401100 1 6\nt 2 0\nt 1 1\n"

static int count_open(void *ctx, const struct query_block *block)
{
	CHECK_EQ_U64(block->end_ns, UINT64_MAX);
	*(uint64_t *)ctx += block->is_open;
	return 0;
}

static void interpreted(void)
{
	static const char file[] = "v 10400 3\n"
				   "X /bin/x --fast\n"
				   "I 1000 100\n"
				   "S e leak:sized_one\n"
				   "S leak:plain\n" NAMES_3 "a 10 2\na 20 1\n"
				   "c a\n+ 0\n+ 0\n+ 1\nR 40\n" /* 16 + 16 + 32 = 64 */
				   "c 14\n- 0\n"                /* 48 */
				   "+ 1\n- 1\n"                 /* 80, temporary */
				   "c 1e\n+ 1\n+ 0\nR 30\n"     /* 96: the peak, at 30 ms */
				   "- 1\n- 1\nc 28\n"           /* 32 live: two of 16 */
				   "\n# strings: 6\n# ips: 2\n";
	struct imported made;
	imported_text(&made, file);
	REQUIRE(made.code == 0);
	CHECK_STR(made.input.meta->origin, "heaptrack 1.4.0, format 3, interpreted");
	CHECK_STR(made.input.meta->command, "/bin/x --fast");
	CHECK_STR(made.input.meta->program, "/bin/x");
	CHECK_STR(made.input.end->suppressions, "leak:sized_one\nleak:plain\n");
	CHECK_EQ_U64(made.input.meta->page_bytes, 4096);
	CHECK_EQ_U64(made.input.meta->machine_bytes, 0x100 * 4096);
	CHECK_EQ_U64(made.input.meta->unknown, TRACE_UNKNOWN_LIFETIMES | TRACE_UNKNOWN_THREADS);
	CHECK_EQ_U64(made.totals.allocations, 6);
	CHECK_EQ_U64(made.totals.allocated_bytes, 3 * 16 + 3 * 32);
	CHECK_EQ_U64(made.totals.frees, 4);
	CHECK_EQ_U64(made.totals.temporary, 1);
	CHECK_EQ_U64(made.totals.peak_bytes, 96);
	CHECK_EQ_U64(made.totals.peak_time_ns, 30000000);
	CHECK_EQ_U64(made.totals.live_bytes, 32);
	CHECK_EQ_U64(made.totals.peak_rss_bytes, 0x40 * 4096);
	CHECK_EQ_U64(made.input.end->duration_ns, 40000000);
	struct view_figures deep = imported_figures(&made, "f;g;main");
	CHECK_EQ_U64(deep.of[VIEW_ALLOCATIONS], 3);
	CHECK_EQ_U64(deep.of[VIEW_UNFREED_BYTES], 32);
	CHECK_EQ_U64(deep.of[VIEW_PEAK_BYTES], 32);
	struct view_figures flat = imported_figures(&made, "main");
	CHECK_EQ_U64(flat.of[VIEW_ALLOCATED_BYTES], 96);
	CHECK_EQ_U64(flat.of[VIEW_PEAK_BYTES], 64);
	CHECK_EQ_U64(flat.of[VIEW_TEMPORARY], 1);
	/* Which of two alike was freed is not said, and so not told. */
	const struct query_blocks_options all = {
		.to_ns = 40000000, .mode = QUERY_BLOCKS_ALLOCATED, .limit = 100};
	uint64_t open = 0;
	CHECK_EQ_I64(query_blocks(made.query, &all, count_open, &open, &made.err), 0);
	CHECK_EQ_U64(open, 4);
	const struct query lives = {.to_ns = 20000000, .want = QUERY_LIVES};
	struct query_answer answer;
	REQUIRE(query_ask(made.query, &lives, &answer, &made.err) == 0);
	CHECK_EQ_U64(answer.life_count, 0);
	query_answer_done(&answer);
	CHECK(imported_says(&made, "no lifetimes"));
	CHECK(imported_says(&made, "what heaptrack calls so"));
	imported_done(&made);
}

/* Files and lines of all frames of an address, inlined ones first. */
static void inlined_frames(void)
{
	static const char file[] = "v 10400 3\nX x\n" NAMES_3 "a 10 2\n+ 0\n";
	struct imported made;
	imported_text(&made, file);
	REQUIRE(made.code == 0);
	size_t count;
	const struct view_stack_row *rows = view_stacks(made.data, &count);
	REQUIRE(count == 1);
	uint32_t at = rows[0].stack;
	const struct view_frame *f = view_next_frame(made.data, &at);
	const struct view_frame *g = view_next_frame(made.data, &at);
	const struct view_frame *m = view_next_frame(made.data, &at);
	REQUIRE(f && g && m && !view_next_frame(made.data, &at));
	CHECK_STR(f->function, "f");
	CHECK_STR(f->file, "f.c");
	CHECK_EQ_U64(f->line, 10);
	CHECK(f->inlined);
	CHECK_STR(g->function, "g");
	CHECK_STR(g->file, "g.c");
	CHECK_EQ_U64(g->line, 20);
	CHECK(!g->inlined);
	CHECK_STR(m->function, "main");
	CHECK(m->file == NULL);
	CHECK_STR(m->module, "/bin/x");
	imported_done(&made);
}

/* Formats 1 and 2 have strings without a length; 1 has no inlined frames. */
static void older_formats(void)
{
	static const struct {
		const char *head, *origin;
	} files[] = {
		{"v 10100 2\n", "heaptrack 1.1.0, format 2, interpreted"},
		{"v 10000 1\n", "heaptrack 1.0.0, format 1, interpreted"},
		{"v 10200\n", "heaptrack 1.2.0, format 1, interpreted"},
	};
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
		char text[400];
		struct imported made;
		snprintf(text, sizeof text,
			 "%sX a program\nI 1000 100\nS leak:a b\ns /bin/a b\ns void f(int, char)\n"
			 "i 401000 1 2\nt 1 0\na 64 1\nc 1\n+ 0\n+ 0\n- 0\nc 5\n",
			 files[i].head);
		imported_text(&made, text);
		REQUIRE(made.code == 0);
		CHECK_STR(made.input.meta->origin, files[i].origin);
		CHECK_EQ_U64(made.totals.allocations, 2);
		CHECK_EQ_U64(made.totals.live_bytes, 100);
		struct view_figures sum = imported_figures(&made, "void f(int, char)");
		CHECK_EQ_U64(sum.of[VIEW_ALLOCATIONS], 2);
		CHECK_STR(made.input.end->suppressions, "leak:a b\n");
		CHECK_STR(made.input.modules[1].path, "/bin/a b");
		imported_done(&made);
	}
}

/* Format 0 keeps pointers in interpreted files: blocks are known, and so are lifetimes. */
static void format_0(void)
{
	static const char file[] = "X prog\ns /bin/prog\ns f\ni 401000 1 2\nt 1 0\n"
				   "c 1\n+ 10 1 5000\n+ 20 1 6000\nc 3\n- 5000\n- 7000\n"
				   "+ 8 1 6000\nc 4\n- 6000\n";
	struct imported made;
	imported_text(&made, file);
	REQUIRE(made.code == 0);
	CHECK_STR(made.input.meta->origin, "heaptrack, format 0, interpreted");
	CHECK_EQ_U64(made.input.meta->unknown, TRACE_UNKNOWN_THREADS);
	CHECK_EQ_U64(made.totals.allocations, 3);
	CHECK_EQ_U64(made.totals.peak_bytes, 48);
	CHECK_EQ_U64(made.totals.freed_older, 1);
	/* 6000 was live when it came again. */
	CHECK_EQ_U64(made.totals.freed_unseen, 1);
	CHECK_EQ_U64(made.totals.live_bytes, 0);
	CHECK_EQ_U64(made.totals.temporary, 1);
	CHECK(imported_says(&made, "1 allocations came on a live address"));
	imported_done(&made);
}

static void raw(void)
{
	static const char file[] = "v 10400 3\nx 8 /nowhere\nX prog arg\nI 1000 100\n"
				   "m 1 -\nm 1 x 400000 0 1000 2000 500\nm 6 /lib/y 700000 0 800\n"
				   "t 400123 0\nt 700010 1\nc 1\n+ 10 1 5000\n+ 20 2 6000\n"
				   "m 1 -\nm 1 x 400000 0 1000\nm 6 /lib/z 700000 0 800\n"
				   "t 700020 1\n+ 8 3 7000\nc 2\n- 5000\nR 5\nc 3\n";
	struct imported made;
	imported_text(&made, file);
	REQUIRE(made.code == 0);
	CHECK_STR(made.input.meta->origin, "heaptrack 1.4.0, format 3, raw");
	CHECK_STR(made.input.meta->program, "/nowhere");
	CHECK_EQ_U64(made.totals.allocations, 3);
	CHECK_EQ_U64(made.totals.live_bytes, 0x28);
	REQUIRE(made.input.module_count == 4);
	CHECK_STR(made.input.modules[1].path, "/nowhere");
	CHECK_EQ_U64(made.input.modules[1].start, 0x400000);
	CHECK_EQ_U64(made.input.modules[1].end, 0x402500);
	REQUIRE(made.input.stack_count == 4);
	CHECK_EQ_U64(made.input.stacks[1].module_id, 1);
	CHECK_EQ_U64(made.input.stacks[1].pc, 0x400123 | TRACE_PC_EXACT);
	/* Another library came to the same place. */
	CHECK_STR(made.input.modules[made.input.stacks[2].module_id].path, "/lib/y");
	CHECK_STR(made.input.modules[made.input.stacks[3].module_id].path, "/lib/z");
	CHECK(imported_says(&made, "have no name"));
	imported_done(&made);
}

static void attached(void)
{
	struct imported made;
	imported_text(&made, "v 10400 3\nX x\nI 1000 100\nA\n" NAMES_3 "a 10 2\n+ 0\nc 9\n");
	REQUIRE(made.code == 0);
	CHECK_STR(made.input.meta->origin, "heaptrack 1.4.0, format 3, interpreted, attached");
	imported_done(&made);
}

/* heaptrack takes number 0 for "none": a free of it after another free counts there. */
static void temporary_rule(void)
{
	struct imported made;
	imported_text(&made, "v 10400 3\nX x\n" NAMES_3 "a 10 2\na 20 2\n"
			     "+ 0\n+ 0\n+ 1\n- 1\n- 0\n- 0\n");
	REQUIRE(made.code == 0);
	CHECK_EQ_U64(made.totals.temporary, 1);
	CHECK(imported_says(&made, "heaptrack_print counts 3 as temporary, not 1"));
	imported_done(&made);
}

/* The same size and stack under two numbers: an end may name the other. */
static void two_numbers(void)
{
	struct imported made;
	imported_text(&made, "v 10400 3\nX x\n" NAMES_3 "a 10 2\na 20 2\n"
			     "+ 0\n+ 0\n+ 1\na 10 2\n- 2\n- 0\n+ 2\n+ 0\na 20 2\n- 3\n");
	REQUIRE(made.code == 0);
	CHECK_EQ_U64(made.totals.frees, 3);
	CHECK_EQ_U64(made.totals.live_bytes, 32);
	CHECK_EQ_U64(made.totals.peak_bytes, 64);
	imported_done(&made);
}

/* Piles of many blocks whose numbers lie far apart, taken down again. */
static void deep_piles(void)
{
	enum { ROUNDS = 3000, ROOM = 1 << 20 };
	char *text = malloc(ROOM);
	REQUIRE(text != NULL);
	size_t used = (size_t)sprintf(text, "v 10400 3\nX x\n" NAMES_3 "a 1 1\na 2 2\n");
	uint64_t ones = 0, twos = 0;
	for (unsigned i = 0; i < ROUNDS; i++)
		for (unsigned k = 0; k <= i % 17; k++) {
			memcpy(text + used, k % 5 ? "+ 0\n" : "+ 1\n", 4);
			used += 4;
			*(k % 5 ? &ones : &twos) += 1;
		}
	uint64_t frees = ones / 2;
	for (uint64_t i = 0; i < frees; i++, used += 4)
		memcpy(text + used, "- 0\n", 4);
	struct imported made;
	imported_zstd(&made, text, used);
	REQUIRE(made.code == 0);
	CHECK_EQ_U64(made.totals.live_blocks, ones - frees + twos);
	CHECK_EQ_U64(made.totals.live_bytes, ones - frees + 2 * twos);
	CHECK_EQ_U64(made.totals.peak_bytes, ones + 2 * twos);
	imported_done(&made);
	free(text);
}

static void hostile(void)
{
	static const char file[] =
		"v 10400 3\nX x\nX again\n" NAMES_3
		"s ffffffffffffffff abc\ns 5 ab\ni 1 ffff fffff ffff\n"
		"i zz\nt ffffff ffffff\nt\nt 3 2\nt 4 5\na ffffffffffffffff ffff\n"
		"a 10 2\na\na 5 1\n+ 0\n+ 1\n+ ffffffff\n- 7\n+ 1g\n+\n+1\n- 2\nz 1\n"
		"c 10\nc 5\nc ffffffffffffffffff\nR ffffffffffffffff\nI 0 0\n"
		"S x\nm nonsense\nv 1 1\n\n#\n";
	struct imported made;
	imported_text(&made, file);
	REQUIRE(made.code == 0);
	CHECK_EQ_U64(made.totals.allocations, 2);
	CHECK_EQ_U64(made.totals.live_bytes, (1ull << 48) - 1 + 16);
	CHECK(imported_says(&made, "1 frees have no allocation"));
	CHECK(imported_says(&made, "lines make no sense"));
	CHECK(imported_says(&made, "refer to what is not in the file"));
	CHECK(imported_says(&made, "1 sizes are beyond any memory"));
	CHECK(imported_says(&made, "1 times lie before"));
	imported_done(&made);
}

static void newer_is_refused(void)
{
	struct imported made;
	imported_text(&made, "v 20000 4\nX x\n+ 0\n");
	CHECK_HAS(made.err.text, "newer");
	imported_refused(&made);
}

/* Cut at every byte: what is there, and a word about the rest. */
static void cut_anywhere(void)
{
	static const char file[] = "v 10400 3\nX x\nI 1000 100\n" NAMES_3
				   "a 10 2\na 20 1\nc a\n+ 0\n+ 1\nR 40\n- 0\nc 14\n";
	for (size_t length = 10; length < sizeof file; length++) {
		struct imported made;
		imported_init(&made, file, length);
		if (made.code) {
			imported_refused(&made);
			continue;
		}
		CHECK(made.totals.allocations <= 2);
		CHECK(made.result.cut == (file[length - 1] != '\n'));
		imported_done(&made);
	}
}

/* Both forms of embedded suppressions take effect; a line that makes no sense does no harm. */
static void suppressions(void)
{
	struct imported made;
	struct suppressions *list;
	char note[200];
	imported_text(&made, "v 10400 3\nX x\nS 6 leak:f\nS leak:nothing\nS 5 leak:\n" NAMES_3
			     "a 10 2\na 20 1\n+ 0\n+ 1\n");
	REQUIRE(made.code == 0);
	REQUIRE(suppressions_new(&list, &made.err) == 0);
	REQUIRE(suppressions_add_program(list, &made.input, note, sizeof note, &made.err) == 0);
	CHECK_EQ_U64(suppressions_count(list), 2);
	REQUIRE(suppressions_apply(list, made.data, &made.err) == 0);
	CHECK_EQ_U64(suppressions_sum(list).bytes, 16);
	suppressions_free(list);
	imported_done(&made);
}

static void no_memory(void)
{
	static const char file[] = "v 10400 3\nX x\nI 1000 100\nS leak:f\n" NAMES_3
				   "a 10 2\na 20 1\n+ 0\n+ 1\nR 40\na 10 2\n- 2\n- 0\nc 14\n";
	static const char raw_file[] = "v 10400 3\nx 8 /nowhere\nX prog arg\nm 1 -\n"
				       "m 1 x 400000 0 1000\nt 400123 0\n+ 10 1 5000\n- 5000\n";
	imported_without_memory(file, sizeof file - 1);
	imported_without_memory(raw_file, sizeof raw_file - 1);
}

static const struct tap_case cases[] = {
	{.name = "heaptrack's figures are not ours", .run = interpreted},
	{.name = "inlined frames of heaptrack's files are lost", .run = inlined_frames},
	{.name = "files of older heaptracks are not read", .run = older_formats},
	{.name = "files from before heaptrack 1.0 are not read", .run = format_0},
	{.name = "raw files are misread", .run = raw},
	{.name = "an attached session is not told", .run = attached},
	{.name = "temporary follows another rule than said", .run = temporary_rule},
	{.name = "an end under another number is lost", .run = two_numbers},
	{.name = "many live blocks are mixed up", .run = deep_piles},
	{.name = "nonsense in a file is not counted, or does harm", .run = hostile},
	{.name = "suppressions in a file have no effect", .run = suppressions},
	{.name = "without memory an import crashes", .run = no_memory},
	{.name = "a format of the future is misread", .run = newer_is_refused},
	{.name = "a file that was cut is lost, or taken for whole", .run = cut_anywhere},
};

TAP_MAIN(cases)
