/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles of other tools: files built here, whose figures can be added up by
 * hand; then the same files cut at many bytes and broken in many ways, which must
 * give a part of it or an error, never a crash.
 */
#include "base/text.h"
#include "base/varint.h"
#include "harness/tap.h"
#include "import_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t figure(const struct imported *made, const char *stack, enum view_figure figure)
{
	return imported_figures(made, stack).of[figure];
}

/* ---- pprof ---- */

static void put_varint(struct text *out, uint64_t value)
{
	uint8_t bytes[VARINT_BYTES_MAX];
	text_put_bytes(out, bytes, varint_put(bytes, value));
}

static void put_u64(struct text *out, uint32_t field, uint64_t value)
{
	put_varint(out, field << 3);
	put_varint(out, value);
}

static void put_bytes(struct text *out, uint32_t field, const void *data, size_t bytes)
{
	put_varint(out, field << 3 | 2);
	put_varint(out, bytes);
	text_put_bytes(out, data, bytes);
}

static void put_message(struct text *out, uint32_t field, struct text *message)
{
	put_bytes(out, field, text_string(message), message->length);
	text_clear(message);
}

/* Strings as a profile numbers them: 0 is "". */
enum {
	S_NONE,
	S_INUSE,
	S_BYTES,
	S_OBJECTS,
	S_COUNT,
	S_ALLOC,
	S_ALLOCS,
	S_MAIN,
	S_WORK,
	S_FILE,
	S_PROGRAM,
	S_BUILD_ID,
	STRINGS
};
static const char *const strings[STRINGS] = {
	"",      "inuse_space", "bytes",         "inuse_objects",
	"count", "alloc_space", "alloc_objects", "main",
	"work",  "/src/app.go", "/bin/app",      "00ff17"};

static void put_type(struct text *out, uint64_t type, uint64_t unit)
{
	struct text m = {0};
	put_u64(&m, 1, type);
	put_u64(&m, 2, unit);
	put_message(out, 1, &m);
	text_done(&m);
}

static void put_function(struct text *out, uint64_t id, uint64_t name)
{
	struct text m = {0};
	put_u64(&m, 1, id);
	put_u64(&m, 2, name);
	put_u64(&m, 4, S_FILE);
	put_message(out, 5, &m);
	text_done(&m);
}

static void put_location(struct text *out, uint64_t id, uint64_t function, uint64_t inlined)
{
	struct text m = {0}, line = {0};
	put_u64(&m, 1, id);
	put_u64(&m, 2, 1);
	put_u64(&m, 3, 0x1000 + id);
	if (inlined) {
		put_u64(&line, 1, inlined);
		put_u64(&line, 2, 5);
		put_message(&m, 4, &line);
	}
	put_u64(&line, 1, function);
	put_u64(&line, 2, 10 + id);
	put_message(&m, 4, &line);
	put_message(out, 4, &m);
	text_done(&m);
	text_done(&line);
}

static void put_sample(struct text *out, const uint64_t *locations, size_t depth,
		       const uint64_t values[4], bool packed)
{
	struct text m = {0}, list = {0};
	for (size_t i = 0; i < depth; i++) {
		if (!packed)
			put_u64(&m, 1, locations[i]);
		put_varint(&list, locations[i]);
	}
	if (packed)
		put_message(&m, 1, &list);
	text_clear(&list);
	for (size_t i = 0; i < 4; i++) {
		if (!packed)
			put_u64(&m, 2, values[i]);
		put_varint(&list, values[i]);
	}
	if (packed)
		put_message(&m, 2, &list);
	put_message(out, 2, &m);
	text_done(&m);
	text_done(&list);
}

/* main -> work, 3 blocks of 300 live of 5 of 500; main -> [main inlined into work]: 1 of 7. */
static struct text make_pprof(bool packed, bool tables_last)
{
	struct text out = {0}, m = {0}, samples = {0};
	put_type(&out, S_INUSE, S_BYTES);
	put_type(&out, S_OBJECTS, S_COUNT);
	put_type(&out, S_ALLOC, S_BYTES);
	put_type(&out, S_ALLOCS, S_COUNT);
	put_sample(&samples, (uint64_t[]){2, 1}, 2, (uint64_t[]){100, 1, 200, 2}, packed);
	put_sample(&samples, (uint64_t[]){2, 1}, 2, (uint64_t[]){200, 2, 300, 3}, packed);
	put_sample(&samples, (uint64_t[]){3, 1}, 2, (uint64_t[]){7, 1, 7, 1}, packed);
	if (tables_last)
		text_put_bytes(&out, text_string(&samples), samples.length);
	put_u64(&m, 1, 1);
	put_u64(&m, 2, 0x1000);
	put_u64(&m, 3, 0x2000);
	put_u64(&m, 5, S_PROGRAM);
	put_u64(&m, 6, S_BUILD_ID);
	put_message(&out, 3, &m);
	put_function(&out, 1, S_MAIN);
	put_function(&out, 2, S_WORK);
	put_location(&out, 1, 1, 0);
	put_location(&out, 2, 2, 0);
	put_location(&out, 3, 2, 1);
	for (size_t i = 0; i < STRINGS; i++)
		put_bytes(&out, 6, strings[i], strlen(strings[i]));
	if (!tables_last)
		text_put_bytes(&out, text_string(&samples), samples.length);
	put_u64(&out, 10, 5000000);
	text_done(&m);
	text_done(&samples);
	return out;
}

static void check_pprof(struct imported *made)
{
	REQUIRE(made->code == 0);
	CHECK_EQ_U64(made->totals.live_bytes, 307);
	CHECK_EQ_U64(made->totals.live_blocks, 4);
	CHECK_EQ_U64(made->totals.allocated_bytes, 507);
	CHECK_EQ_U64(made->totals.allocations, 6);
	CHECK_EQ_U64(figure(made, "work;main", VIEW_UNFREED_BYTES), 300);
	CHECK_EQ_U64(figure(made, "work;main", VIEW_ALLOCATIONS), 5);
	CHECK_EQ_U64(figure(made, "main;work;main", VIEW_UNFREED_BYTES), 7);
	CHECK_STR(made->input.meta->program, "/bin/app");
	CHECK_EQ_U64(made->input.modules[1].build_id_bytes, 3);
	CHECK_EQ_U64(made->input.modules[1].build_id[1], 0xff);
	imported_done(made);
}

static void pprof_figures(void)
{
	struct imported made;
	for (int how = 0; how < 4; how++) {
		struct text file = make_pprof(how & 1, how & 2);
		imported_init(&made, file.data, file.length);
		check_pprof(&made);
		imported_gzip(&made, file.data, file.length);
		check_pprof(&made);
		text_done(&file);
	}
}

static void pprof_of_something_else(void)
{
	struct text out = {0};
	put_type(&out, 1, 2);
	put_bytes(&out, 6, "", 0);
	put_bytes(&out, 6, "cpu", 3);
	put_bytes(&out, 6, "nanoseconds", 11);
	struct imported made;
	imported_init(&made, out.data, out.length);
	CHECK_HAS(made.err.text, "without bytes of memory");
	imported_refused(&made);
	text_done(&out);
}

/* ---- V8 ---- */

static const char heapprofile[] =
	"{\"head\":{\"callFrame\":{\"functionName\":\"(root)\",\"scriptId\":\"0\",\"url\":\"\","
	"\"lineNumber\":-1,\"columnNumber\":-1},\"selfSize\":0,\"id\":1,\"children\":[{"
	"\"callFrame\":{"
	"\"functionName\":\"serve\",\"url\":\"file:///"
	"app.js\",\"lineNumber\":9,\"columnNumber\":4},"
	"\"selfSize\":100,\"id\":2,\"children\":[{\"callFrame\":{\"functionName\":\"\",\"url\":"
	"\"\","
	"\"lineNumber\":-1,\"columnNumber\":-1},\"selfSize\":24.0,\"id\":3,\"children\":[]}]},{"
	"\"callFrame\":{\"functionName\":\"caf\\u00e9\",\"url\":\"\",\"lineNumber\":0,"
	"\"columnNumber\":0},\"selfSize\":8,\"id\":4,\"children\":[]}]},\"samples\":[{\"size\":8}]"
	"}";

static void heapprofile_figures(void)
{
	struct imported made;
	imported_text(&made, heapprofile);
	REQUIRE(made.code == 0);
	CHECK_EQ_U64(made.totals.live_bytes, 132);
	CHECK_EQ_U64(figure(&made, "serve", VIEW_UNFREED_BYTES), 100);
	CHECK_EQ_U64(figure(&made, "(anonymous);serve", VIEW_UNFREED_BYTES), 24);
	CHECK_EQ_U64(figure(&made, "caf\xc3\xa9", VIEW_UNFREED_BYTES), 8);
	CHECK(made.input.meta->unknown & TRACE_UNKNOWN_COUNTS);
	imported_done(&made);
}

/*
 * root -> Cart -> Item -> Item (a list), and Cart -> string; Item 3 is also reached from the other
 * Cart, so the root holds it: 10 + 20 + 30, 5, 40, 12.
 *
 *	0 root  1 Cart(10)  2 Item(20)  3 Item(30)  4 string(5)  5 Cart(40)  6 Weak(12)
 *	edges: 0->1 0->5 | 1->2 1->4 | 2->3 | | | 5->3 5->6 (weak)
 */
static const char snapshot[] =
	"{\"snapshot\":{\"meta\":{\"node_fields\":[\"type\",\"name\",\"id\",\"self_size\",\"edge_"
	"count\"],"
	"\"node_types\":[[\"hidden\",\"object\",\"string\",\"synthetic\"],\"string\",\"number\"],"
	"\"edge_fields\":[\"type\",\"name_or_index\",\"to_node\"],"
	"\"edge_types\":[[\"property\",\"weak\"],\"string_or_number\",\"node\"]},\"node_count\":7},"
	"\"nodes\":[3,0,1,0,2, 1,1,3,10,2, 1,2,5,20,1, 1,2,7,30,0, 2,3,9,5,0, 1,1,11,40,2, "
	"1,4,13,12,0],"
	"\"edges\":[0,0,5, 0,0,25, 0,0,10, 0,0,20, 0,0,15, 0,0,15, 1,0,30],"
	"\"strings\":[\"\",\"Cart\",\"Item\",\"some text\",\"Weak\"]}";

static void snapshot_figures(void)
{
	struct imported made;
	imported_text(&made, snapshot);
	REQUIRE(made.code == 0);
	CHECK_EQ_U64(made.totals.live_bytes, 117);
	CHECK_EQ_U64(figure(&made, "Cart", VIEW_UNFREED_BYTES), 50);
	CHECK_EQ_U64(figure(&made, "Item;Cart", VIEW_UNFREED_BYTES), 20);
	CHECK_EQ_U64(figure(&made, "Item", VIEW_UNFREED_BYTES), 30);
	CHECK_EQ_U64(figure(&made, "(string);Cart", VIEW_UNFREED_BYTES), 5);
	CHECK_EQ_U64(figure(&made, "Weak;(not held by the root)", VIEW_UNFREED_BYTES), 12);
	CHECK(imported_says(&made, "retained"));
	imported_done(&made);
}

/* A list of many objects that all refer to one: neither deep nor slow. */
static void long_lists(void)
{
	enum { LENGTH = 60000 };
	struct text out = {0};
	struct imported made;
	text_put(&out, "{\"snapshot\":{\"meta\":{\"node_fields\":[\"type\",\"name\",\"self_size\","
		       "\"edge_count\"],\"node_types\":[[\"object\"]],\"edge_fields\":[\"type\","
		       "\"to_node\"],\"edge_types\":[[\"property\"]]}},\"nodes\":[0,0,0,1");
	for (unsigned i = 1; i <= LENGTH; i++)
		text_print(&out, ",0,1,8,%u", i < LENGTH ? 2 : 1);
	text_put(&out, ",0,2,100,0],\"edges\":[0,4");
	for (unsigned i = 1; i <= LENGTH; i++) {
		if (i < LENGTH)
			text_print(&out, ",0,%u", 4 * (i + 1));
		text_print(&out, ",0,%u", 4 * (LENGTH + 1));
	}
	text_put(&out, "],\"strings\":[\"\",\"Node\",\"Shape\"]}");
	imported_init(&made, out.data, out.length);
	REQUIRE(made.code == 0);
	CHECK_EQ_U64(figure(&made, "Node", VIEW_UNFREED_BYTES), 8 * LENGTH);
	CHECK_EQ_U64(figure(&made, "Shape;Node", VIEW_UNFREED_BYTES), 100);
	imported_done(&made);
	text_done(&out);
}

/* ---- massif ---- */

static const char massif[] =
	"desc: --massif-out-file=x\ncmd: ./shop --fast\ntime_unit: ms\n"
	"#-----------\nsnapshot=0\n#-----------\ntime=0\nmem_heap_B=0\nmem_heap_extra_B=0\n"
	"mem_stacks_B=0\nheap_tree=empty\n"
	"#-----------\nsnapshot=1\n#-----------\ntime=5\nmem_heap_B=1000\nmem_heap_extra_B=8\n"
	"mem_stacks_B=0\nheap_tree=peak\n"
	"n2: 1000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.\n"
	" n2: 700 0x109163: cart_add (shop.c:7)\n"
	"  n0: 600 0x1091B2: main (shop.c:20)\n"
	"  n0: 100 0x1091C2: warm_up (shop.c:30)\n"
	" n0: 300 in 3 places, all below massif's threshold (1.00%)\n"
	"#-----------\nsnapshot=2\n#-----------\ntime=9\nmem_heap_B=250\nmem_heap_extra_B=8\n"
	"mem_stacks_B=0\nheap_tree=empty\n";

static void massif_figures(void)
{
	struct imported made;
	imported_text(&made, massif);
	REQUIRE(made.code == 0);
	CHECK_EQ_U64(made.totals.peak_bytes, 1000);
	CHECK_EQ_U64(made.totals.peak_time_ns, 5000000);
	CHECK_EQ_U64(made.totals.live_bytes, 250);
	CHECK_EQ_U64(figure(&made, "cart_add;main", VIEW_PEAK_BYTES), 600);
	CHECK_EQ_U64(figure(&made, "cart_add;warm_up", VIEW_PEAK_BYTES), 100);
	CHECK_EQ_U64(figure(&made, "[below massif's threshold]", VIEW_PEAK_BYTES), 300);
	CHECK_EQ_U64(figure(&made, "cart_add;main", VIEW_UNFREED_BYTES), 0);
	CHECK_STR(made.input.meta->command, "./shop --fast");
	imported_done(&made);
}

static void massif_without_trees(void)
{
	struct imported made;
	imported_text(&made,
		      "desc: x\ncmd: y\ntime_unit: i\nsnapshot=0\ntime=10\nmem_heap_B=50\n"
		      "heap_tree=empty\nsnapshot=1\ntime=20\nmem_heap_B=20\nheap_tree=empty\n");
	REQUIRE(made.code == 0);
	CHECK_EQ_U64(made.totals.peak_bytes, 50);
	CHECK_EQ_U64(made.totals.live_bytes, 20);
	imported_done(&made);
}

/* ---- DHAT ---- */

static const char dhat[] =
	"{\"dhatFileVersion\":2,\"mode\":\"heap\",\"verb\":\"Allocated\",\"bklt\":true,\"bkacc\":"
	"false,"
	"\"tu\":\"instrs\",\"Mtu\":\"Minstr\",\"tuth\":500,\"cmd\":\"./"
	"shop\",\"pid\":17,\"te\":900,"
	"\"tg\":300,\"pps\":[{\"tb\":500,\"tbk\":5,\"tl\":100,\"mb\":300,\"mbk\":3,\"gb\":300,"
	"\"gbk\":3,\"eb\":100,\"ebk\":1,\"fs\":[1,2]},{\"tb\":50,\"tbk\":1,\"tl\":1,\"mb\":50,"
	"\"mbk\":1,\"gb\":0,\"gbk\":0,\"eb\":0,\"ebk\":0,\"fs\":[3,2,99]}],"
	"\"ftbl\":[\"[root]\",\"0x109163: cart_add (shop.c:7)\",\"0x1091B2: main (shop.c:20)\","
	"\"0x77: ??? (in /lib/libx.so)\"]}";

static void dhat_figures(void)
{
	struct imported made;
	imported_text(&made, dhat);
	REQUIRE(made.code == 0);
	CHECK_EQ_U64(made.totals.peak_bytes, 300);
	CHECK_EQ_U64(made.totals.peak_blocks, 3);
	CHECK_EQ_U64(made.totals.live_bytes, 100);
	CHECK_EQ_U64(made.totals.allocations, 6);
	CHECK_EQ_U64(made.totals.allocated_bytes, 550);
	CHECK_EQ_U64(figure(&made, "cart_add;main", VIEW_ALLOCATIONS), 5);
	CHECK_EQ_U64(made.input.meta->pid, 17);
	CHECK(imported_says(&made, "1 frames are not in its table"));
	imported_done(&made);
}

/* ---- jemalloc, gperftools ---- */

static const char jemalloc[] =
	"heap_v2/1000\n  t*: 3: 1100 [0: 0]\n  t0: 3: 1100 [0: 0]\n@ 0x11 0x22\n"
	"  t*: 1: 1000 [0: 0]\n  t0: 1: 1000 [0: 0]\n@ 0x33 0x22\n  t*: 2: 100 [0: 0]\n\n"
	"MAPPED_LIBRARIES:\n00000000-00001000 r-xp 00000000 08:01 12 /nowhere/app\n";

static void jemalloc_figures(void)
{
	struct imported made;
	imported_text(&made, jemalloc);
	REQUIRE(made.code == 0);
	/* One of 1,000 bytes at a distance of 1,000 stands for 1 / (1 - 1/e) of them. */
	double first = 1000 / (1 - exp(-1.0)), second = 100 / (1 - exp(-50 / 1000.0));
	CHECK_EQ_U64(made.totals.live_bytes, (uint64_t)llround(first) + (uint64_t)llround(second));
	CHECK(made.input.meta->unknown & TRACE_UNKNOWN_ALLOCATIONS);
	CHECK_STR(made.input.meta->program, "/nowhere/app");
	CHECK(imported_says(&made, "sampled every 1000"));
	imported_done(&made);
}

static const char gperftools[] =
	"heap profile:      3:     1100 [     9:     2000] @ heapprofile\n"
	"     1:     1000 [     4:     1500] @ 0x11 0x22\n"
	"     2:      100 [     5:      500] @ 0x33 0x22\n\nMAPPED_LIBRARIES:\n";

static void gperftools_figures(void)
{
	struct imported made;
	imported_text(&made, gperftools);
	REQUIRE(made.code == 0);
	CHECK_EQ_U64(made.totals.live_bytes, 1100);
	CHECK_EQ_U64(made.totals.live_blocks, 3);
	CHECK_EQ_U64(made.totals.allocations, 9);
	CHECK_EQ_U64(made.totals.allocated_bytes, 2000);
	imported_done(&made);
}

/* ---- hostile files ---- */

/* Whatever comes of it is sound or refused in words. */
static void import_any(const void *bytes, size_t length)
{
	struct imported made;
	imported_init(&made, bytes, length);
	if (made.code)
		imported_refused(&made);
	else
		imported_done(&made);
}

static void cut_and_broken(const void *bytes, size_t length)
{
	uint64_t random = 88172645463325252u;
	char *copy = malloc(length);
	REQUIRE(copy);
	for (size_t cut = 1; cut < length; cut += 1 + length / 25)
		import_any(bytes, cut);
	for (int i = 0; i < 25; i++) {
		memcpy(copy, bytes, length);
		for (int k = 0; k < 3; k++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			copy[(random >> 8) % length] = (char)(random >> 40);
		}
		import_any(copy, length);
	}
	free(copy);
}

static void broken_files(void)
{
	static const char *const files[] = {heapprofile, snapshot, massif,
					    dhat,        jemalloc, gperftools};
	struct text file = make_pprof(true, true);
	cut_and_broken(file.data, file.length);
	text_done(&file);
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
		cut_and_broken(files[i], strlen(files[i]));
}

static void absurd_files(void)
{
	static const char *const files[] = {
		"heap_v2/0\n@ 0x1\n t*: 18446744073709551615: 18446744073709551615 [1: 1]\n",
		"heap_v2/99999999999999999999999\n@\n t*: 1: 1 [0: 0]\n",
		"heap profile: 1: 1 [1: 1] @ heap_v2/1\n 9223372036854775807: 9223372036854775807 "
		"[9223372036854775807: 9223372036854775807] @ 0x1\n",
		"desc: x\ncmd: y\ntime_unit: B\nsnapshot=0\ntime=18446744073709551615\n"
		"mem_heap_B=18446744073709551615\nn1: 5 x\n   n1: 7 y\n n1: 999999 z\n",
		"{\"snapshot\":{\"meta\":{\"node_fields\":[\"type\",\"name\",\"self_size\",\"edge_"
		"count\"],"
		"\"edge_fields\":[\"type\",\"to_node\"]}},\"nodes\":[9,4294967290,"
		"18446744073709551615,"
		"4000000000,1,1,1,1],\"edges\":[7,999999999999],\"strings\":[]}",
		"{\"snapshot\":{\"meta\":{\"node_fields\":[]}},\"nodes\":[],\"edges\":[]}",
		"{\"dhatFileVersion\":2,\"mode\":\"copy\",\"pps\":[],\"ftbl\":[]}",
		"{\"dhatFileVersion\":2,\"bklt\":true,\"te\":1e300,\"tg\":-5,\"pps\":[{\"tb\":1e30,"
		"\"gb\":7,"
		"\"eb\":8,\"fs\":[0,0,0,{}]}],\"ftbl\":[7,[],\"\"]}",
		"{\"head\":{\"callFrame\":7,\"selfSize\":1e400,\"children\":[{\"children\":[]}]}}",
	};
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
		import_any(files[i], strlen(files[i]));
}

/* Brackets without end, and a text without end. */
static void deep_and_endless(void)
{
	enum { BYTES = 3 << 20 };
	struct text out = {0};
	text_put(&out, "{\"head\":{\"callFrame\":{},\"children\":");
	for (unsigned i = 0; i < 200000; i++)
		text_put(&out, "[{\"callFrame\":{},\"selfSize\":1,\"children\":");
	import_any(out.data, out.length);
	text_clear(&out);
	text_put(&out, "{\"head\":{\"callFrame\":{\"functionName\":\"");
	text_put_repeated(&out, 'x', BYTES);
	import_any(out.data, out.length);
	text_clear(&out);
	text_put(&out, "desc: x\ntime_unit: i\nsnapshot=0\n");
	text_put_repeated(&out, ' ', BYTES);
	import_any(out.data, out.length);
	text_done(&out);
}

/* Megabytes of nothing from a few bytes: an error, or little memory. */
static void bombs(void)
{
	enum { ROWS = 12 << 20 };
	struct text out = {0};
	struct imported made;
	text_put(&out, "{\"snapshot\":{\"meta\":{\"node_fields\":[\"type\",\"name\",\"self_size\","
		       "\"edge_count\"],\"edge_fields\":[\"type\",\"to_node\"]}},\"nodes\":[");
	text_put_repeated(&out, '0', 1);
	for (unsigned i = 0; i < ROWS; i++)
		text_put_bytes(&out, ",0", 2);
	imported_zstd(&made, out.data, out.length);
	CHECK_HAS(made.err.text, "claims more objects");
	imported_refused(&made);
	text_done(&out);
}

static const struct tap_case cases[] = {
	{.name = "pprof: figures, stacks, modules", .run = pprof_figures},
	{.name = "pprof of the CPU is refused in words", .run = pprof_of_something_else},
	{.name = "V8 heap profile: figures and stacks", .run = heapprofile_figures},
	{.name = "V8 snapshot: retained sizes by constructor", .run = snapshot_figures},
	{.name = "V8 snapshot: long lists", .run = long_lists},
	{.name = "massif: trees at their moments", .run = massif_figures},
	{.name = "massif: snapshots without trees", .run = massif_without_trees},
	{.name = "DHAT: peak, end, totals", .run = dhat_figures},
	{.name = "jemalloc: samples stand for what was not seen", .run = jemalloc_figures},
	{.name = "gperftools: in use and in all", .run = gperftools_figures},
	{.name = "cut and broken files do no harm", .run = broken_files, .seconds = 120},
	{.name = "absurd numbers do no harm", .run = absurd_files},
	{.name = "deep and endless files do no harm", .run = deep_and_endless},
	{.name = "bombs do no harm", .run = bombs},
};
TAP_MAIN(cases)
