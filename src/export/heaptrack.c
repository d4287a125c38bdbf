/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heaptrack's interpreted format, version 3: lines of text, numbers in hex.
 *
 *   s  a string           i  an address with its frames    t  a frame below a stack
 *   a  a size of a stack  + -  an allocation, a free of such
 *   c  milliseconds       R  resident pages
 *
 * Numbers of s, i and t count from 1, those of a from 0. What a line refers to
 * stands before it. heaptrack reads no line breaks within strings.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/memory.h"
#include "export/formats.h"
#include "export/modules.h"
#include "export/moves.h"
#include "export/rows.h"
#include "export/sizes.h"
#include "export/trie.h"

enum { TICK_MS = 10, PAGE_BYTES_DEFAULT = 4096 };

struct heaptrack {
	const struct export_input *input;
	struct outlet *outlet;
	struct strings strings;
	struct export_modules modules;
	struct trie trie;
	struct sizes sizes;
	const struct trace_sample *samples;
	size_t sample_count, next_sample;
	uint64_t page_bytes, last_ms;
	size_t written_items, written_places;
	struct text line; /* kept for its memory */
	int error;
};

/* Strings count from 1; 0 is none. */
static uint32_t put_string(struct heaptrack *h, const char *text)
{
	size_t before = h->strings.count;
	uint32_t number = 0;
	if (!text || !text[0])
		return 0;
	if (!h->error)
		h->error = strings_number(&h->strings, text, &number);
	if (!h->error && number == before) {
		text_clear(&h->line);
		export_line_text(&h->line, text, 0, 0);
		text_print(&h->outlet->text, "s %zx %s\n", h->line.length, text_string(&h->line));
	}
	return number + 1;
}

static void put_head(struct heaptrack *h)
{
	const struct trace_meta *meta = h->input->facts->meta;
	struct text *out = &h->outlet->text;
	text_put(out, "v 10400 3\nX ");
	export_line_text(out, export_command(h->input), 0, 0);
	text_print(out, "\nI %" PRIx64 " %" PRIx64 "\n", h->page_bytes,
		   meta->machine_bytes / h->page_bytes);
}

static const struct view_frame *frame_of(const struct heaptrack *h, const struct trie_place *place,
					 uint32_t index)
{
	return view_frame_at(h->trie.data, h->trie.place_frames[place->first + index]);
}

static void put_place(struct heaptrack *h, uint32_t number)
{
	const struct trie_place *place = &h->trie.places[number];
	const struct view_frame *first = frame_of(h, place, 0);
	struct text *out = &h->outlet->text;
	uint32_t module = put_string(h, first->module);
	/* A file must be named for frames to follow. */
	const char *no_file = place->count > 1 ? "??" : NULL;
	for (uint32_t i = 0; i < place->count; i++) {
		put_string(h, frame_of(h, place, i)->function);
		put_string(h, frame_of(h, place, i)->file ? frame_of(h, place, i)->file : no_file);
	}
	text_print(out, "i %" PRIx64 " %x", modules_address(&h->modules, first), module);
	for (uint32_t i = 0; i < place->count; i++) {
		const struct view_frame *frame = frame_of(h, place, i);
		uint32_t function = put_string(h, frame->function);
		uint32_t file = put_string(h, frame->file ? frame->file : no_file);
		if (function || file)
			text_print(out, " %x", function);
		if (file)
			text_print(out, " %x %x", file, frame->line);
	}
	text_put_char(out, '\n');
}

static int put_stack(struct heaptrack *h, uint32_t stack_id, uint32_t *ret_item)
{
	uint32_t item;
	int code = trie_item(&h->trie, view_node_of(h->input->data, stack_id), &item);
	if (code)
		return code;
	for (; h->written_places < h->trie.place_count; h->written_places++)
		put_place(h, (uint32_t)h->written_places);
	for (; h->written_items < h->trie.count; h->written_items++) {
		const struct trie_item *new = &h->trie.items[h->written_items];
		text_print(&h->outlet->text, "t %x %x\n", new->place, new->parent);
	}
	*ret_item = item;
	return h->error;
}

/* The clock ticks as heaptrack's does: every 10 ms in which something happened. */
static void put_time(struct heaptrack *h, uint64_t time_ns, bool last)
{
	uint64_t ms = (time_ns - h->input->from_ns) / 1000000;
	if (!last && ms / TICK_MS == h->last_ms / TICK_MS)
		return;
	h->last_ms = last ? ms : ms / TICK_MS * TICK_MS;
	text_print(&h->outlet->text, "c %" PRIx64 "\n", h->last_ms);
	while (h->next_sample < h->sample_count && h->samples[h->next_sample].time_ns <= time_ns)
		h->next_sample++;
	if (h->next_sample)
		text_print(&h->outlet->text, "R %" PRIx64 "\n",
			   h->samples[h->next_sample - 1].rss_bytes / h->page_bytes);
}

static int put_move(void *ctx, const struct move *move)
{
	struct heaptrack *h = ctx;
	uint32_t item, number;
	bool is_new;
	put_time(h, move->time_ns, false);
	int code = put_stack(h, move->stack_id, &item);
	if (!code)
		code = sizes_number(&h->sizes, move->size_bytes, item, &number, &is_new);
	if (code)
		return code;
	if (is_new)
		text_print(&h->outlet->text, "a %" PRIx64 " %x\n", move->size_bytes, item);
	text_print(&h->outlet->text, "%c %x\n", move->kind == MOVE_END ? '-' : '+', number);
	return outlet_flush(h->outlet);
}

static int write_heaptrack(const struct export_input *input, struct outlet *outlet,
			   struct tm_error *err)
{
	struct heaptrack h = {
		.input = input,
		.outlet = outlet,
		.written_items = 1,
		.written_places = 1,
		.page_bytes = input->facts->meta->page_bytes,
	};
	if (!h.page_bytes)
		h.page_bytes = PAGE_BYTES_DEFAULT;
	int code = trace_reader_samples(query_reader(input->section), &h.samples, &h.sample_count,
					err);
	if (!code)
		code = modules_init(&h.modules, input->facts);
	if (!code)
		code = trie_init(&h.trie, input->data, TRIE_PLACES);
	if (!code) {
		put_head(&h);
		code = moves_run(input, put_move, &h, err);
	}
	if (!code)
		put_time(&h, input->to_ns, true);
	text_print(&outlet->text, "\n# strings: %zu\n# ips: %zu\n", h.strings.count,
		   h.trie.place_count - 1);
	strings_done(&h.strings);
	modules_done(&h.modules);
	trie_done(&h.trie);
	sizes_done(&h.sizes);
	text_done(&h.line);
	return code;
}

const struct export_format export_heaptrack = {
	.name = "heaptrack",
	.help = "heaptrack's file, for heaptrack_print and heaptrack_gui; name it *.zst or *.gz",
	.suffix = ".heaptrack.zst",
	.type = "text/plain; charset=utf-8",
	.by_event = true,
	.write = write_heaptrack,
};
