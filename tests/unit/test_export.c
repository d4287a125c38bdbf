/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/memory.h"
#include "export/export.h"
#include "export/proto.h"
#include "export/rows.h"
#include "export/sizes.h"
#include "export/trie.h"
#include "harness/tap.h"
#include "shop_heap.h"

static int keep(void *ctx, const void *data, size_t bytes)
{
	text_put_bytes(ctx, data, bytes);
	return text_error(ctx);
}

static int refuse(void *ctx, const void *data, size_t bytes)
{
	(void)ctx;
	(void)data;
	return bytes ? -ENOSPC : 0;
}

/* By hand, from the description of the wire format. */
static void protobuf_fields(void)
{
	struct text out = {0}, inner = {0};
	proto_u64(&out, 1, 0); /* left out */
	proto_u64(&out, 1, 150);
	CHECK(out.length == 3 && !memcmp(out.data, "\x08\x96\x01", 3));
	text_clear(&out);
	proto_u64(&out, 16, UINT64_MAX);
	CHECK(out.length == 12 &&
	      !memcmp(out.data, "\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12));
	text_clear(&out);
	proto_bytes(&out, 2, "testing", 7);
	CHECK(out.length == 9 && !memcmp(out.data, "\x12\x07testing", 9));
	text_clear(&out);
	proto_u64(&inner, 1, 150);
	proto_message(&out, 3, &inner);
	CHECK(out.length == 5 && !memcmp(out.data, "\x1a\x03\x08\x96\x01", 5));
	text_clear(&out);
	proto_bytes(&out, 6, "", 0);
	CHECK(out.length == 2 && !memcmp(out.data, "\x32\x00", 2));
	text_done(&out);
	text_done(&inner);
}

static void packed_output_unpacks(void)
{
	struct text out = {0};
	struct outlet outlet;
	static char all[400000], back[400000];
	CHECK_EQ_I64(outlet_open(&outlet, OUTLET_GZIP, keep, &out), 0);
	for (size_t i = 0; i < sizeof all; i++) {
		all[i] = (char)('a' + i * i % 23);
		text_put_char(&outlet.text, all[i]);
		CHECK_EQ_I64(outlet_flush(&outlet), 0);
	}
	CHECK_EQ_I64(outlet_close(&outlet), 0);
	z_stream z = {.next_in = (unsigned char *)out.data, .avail_in = (unsigned)out.length};
	z.next_out = (unsigned char *)back;
	z.avail_out = sizeof back;
	CHECK_EQ_I64(inflateInit2(&z, 31), Z_OK);
	CHECK_EQ_I64(inflate(&z, Z_FINISH), Z_STREAM_END);
	CHECK(z.total_out == sizeof all && !memcmp(all, back, sizeof all));
	inflateEnd(&z);
	text_done(&out);
}

static void a_full_disk_is_told_once(void)
{
	struct outlet outlet;
	CHECK_EQ_I64(outlet_open(&outlet, OUTLET_PLAIN, refuse, NULL), 0);
	int code = 0;
	for (size_t i = 0; i < 200000; i++) {
		text_put_char(&outlet.text, 'x');
		code = outlet_flush(&outlet);
	}
	CHECK_EQ_I64(code, -ENOSPC);
	CHECK_EQ_I64(outlet_close(&outlet), -ENOSPC);
}

static void names_cannot_break_out(void)
{
	struct text out = {0};
	export_line_text(&out, "a;b\nc\x1b\xff", ';', ':');
	CHECK_STR(text_string(&out), "a:b\\x0ac\\x1b\\xff");
	text_clear(&out);
	export_markup_text(&out, "<a href=\"x\">'&'</a>\x01\xff\xc3\xa4");
	CHECK_STR(text_string(&out), "&#60;a href=&#34;x&#34;&#62;&#39;&#38;&#39;&#60;/a&#62;"
				     "\xef\xbf\xbd\xef\xbf\xbd\xc3\xa4");
	text_done(&out);
}

/* A number never has two meanings, also after the pairs were forgotten. */
static void sizes_stay_bounded(void)
{
	struct sizes sizes = {0};
	uint32_t number, last = 0;
	bool is_new;
	for (uint64_t i = 0; i < SIZES_KEPT_MAX + 10ull; i++) {
		CHECK_EQ_I64(sizes_number(&sizes, i, 7, &number, &is_new), 0);
		CHECK(is_new && number == i);
		last = number;
	}
	CHECK_EQ_I64(sizes_number(&sizes, 0, 7, &number, &is_new), 0);
	CHECK(is_new && number == last + 1);
	CHECK_EQ_I64(sizes_number(&sizes, 0, 7, &number, &is_new), 0);
	CHECK(!is_new && number == last + 1);
	CHECK(sizes.room <= 2 * SIZES_KEPT_MAX);
	sizes_done(&sizes);
}

static struct export_input input_of(const struct shop *shop, const struct view_data *data)
{
	return (struct export_input){
		.facts = &shop->input,
		.data = data,
		.mode = view_mode_find("peak"),
		.cost = VIEW_PEAK_BYTES,
	};
}

/* draw is inlined into render: one place, two frames. */
static void inlined_frames_are_one_place(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	struct trie trie;
	uint32_t item = 0;
	size_t depth = 0;
	CHECK_EQ_I64(trie_init(&trie, data, TRIE_PLACES), 0);
	CHECK_EQ_I64(trie_item(&trie, view_stack_of(data, 6), &item), 0);
	bool found = false;
	CHECK_EQ_I64(trie_path(&trie, item, &depth), 0);
	for (size_t i = 0; i < depth; i++) {
		const struct trie_place *place = &trie.places[trie.items[trie.path[i]].place];
		const struct view_frame *inner =
			view_frame_at(data, trie.place_frames[place->first]);
		if (place->count != 2)
			continue;
		found = true;
		CHECK_STR(inner->function, "draw");
		CHECK_STR(view_frame_at(data, trie.place_frames[place->first + 1])->function,
			  "render");
	}
	CHECK(found);
	trie_done(&trie);
	shop_unload(&shop, data);
}

static void write_all(const char *name, const struct export_input *input, struct text *out,
		      int *ret_code)
{
	struct outlet outlet;
	struct tm_error err = {0};
	*ret_code = outlet_open(&outlet, OUTLET_PLAIN, keep, out);
	if (*ret_code)
		return;
	*ret_code = export_write(export_find(name), input, &outlet, &err);
	int closed = outlet_close(&outlet);
	*ret_code = *ret_code ? *ret_code : closed;
}

/* 200 + 50 bytes of cart_add at two addresses of one line, 7 of walk, 1000 without a name. */
static void collapsed_lines(void)
{
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	struct export_input input = input_of(&shop, data);
	struct text out = {0};
	int code;
	write_all("collapsed", &input, &out, &code);
	CHECK_EQ_I64(code, 0);
	CHECK(strstr(text_string(&out), "cart_add;operator new(unsigned long) 250\n"));
	CHECK(strstr(text_string(&out), "walk;walk;walk 7\n"));
	CHECK(strstr(text_string(&out), "] 1000\n"));
	text_done(&out);
	shop_unload(&shop, data);
}

/* Formats that need no file, with every allocation failing once. */
static void memory_runs_out(void)
{
	static const char *const names[] = {"collapsed", "pprof", "speedscope", "flamegraph",
					    "callgrind", "csv",   "json"};
	struct shop shop;
	struct view_data *data = shop_load(&shop);
	struct export_input input = input_of(&shop, data);
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		int code = -ENOMEM;
		long at = 0;
		for (; code; at++) {
			struct text out = {0};
			tm_alloc_fail_at(at);
			write_all(names[i], &input, &out, &code);
			tm_alloc_fail_at(-1);
			text_done(&out);
			CHECK(code == 0 || code == -ENOMEM);
		}
		CHECK(at > 3);
	}
	shop_unload(&shop, data);
}

static const struct tap_case cases[] = {
	{.name = "pprof files cannot be read: fields are encoded wrongly", .run = protobuf_fields},
	{.name = "packed exports cannot be unpacked", .run = packed_output_unpacks},
	{.name = "an export that did not fit looks whole", .run = a_full_disk_is_told_once},
	{.name = "a name ends a line or a tag early", .run = names_cannot_break_out},
	{.name = "an export of many sizes takes all memory, or mixes them up",
	 .run = sizes_stay_bounded},
	{.name = "inlined frames become calls of their own", .run = inlined_frames_are_one_place},
	{.name = "collapsed stacks have other figures", .run = collapsed_lines},
	{.name = "an export crashes when memory runs out, or leaks", .run = memory_runs_out},
};

TAP_MAIN(cases)
