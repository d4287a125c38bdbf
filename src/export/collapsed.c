/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collapsed stacks, one per line, outermost frame first, as flamegraph.pl,
 * inferno and speedscope read them: main;load;parse 4096
 */
#include <errno.h>
#include <inttypes.h>

#include "base/memory.h"
#include "export/formats.h"
#include "export/rows.h"
#include "export/trie.h"

/* Stacks that differ in lines only are one line here. */
struct collapsed {
	struct export_rows rows;
	struct trie trie;
	uint64_t *sums; /* by item */
};

static int make(struct collapsed *c, const struct export_input *input, struct tm_error *err)
{
	int code = export_rows_choose(&c->rows, input, 1u << input->cost, err);
	if (!code)
		code = trie_init(&c->trie, input->data, TRIE_FUNCTIONS);
	for (size_t i = 0; !code && i < c->rows.count; i++) {
		uint32_t item;
		code = trie_item(&c->trie, c->rows.list[i]->stack, &item);
	}
	if (!code && !(c->sums = tm_alloc_array(c->trie.count, sizeof *c->sums)))
		code = -ENOMEM;
	for (size_t i = 0; !code && i < c->rows.count; i++) {
		uint32_t item;
		code = trie_item(&c->trie, c->rows.list[i]->stack, &item);
		if (!code)
			c->sums[item] += c->rows.list[i]->figures.of[input->cost];
	}
	return code;
}

static int put_path(struct text *out, struct text *name, struct trie *trie, uint32_t item)
{
	size_t depth;
	int code = trie_path(trie, item, &depth);
	if (code)
		return code;
	if (!depth)
		text_put(out, "[no stack]");
	while (depth-- > 0) {
		uint32_t frame = trie->items[trie->path[depth]].frame;
		text_clear(name);
		export_frame_name(name, view_frame_at(trie->data, frame));
		export_line_text(out, text_string(name), ';', ':');
		if (depth)
			text_put_char(out, ';');
	}
	return 0;
}

static int write_collapsed(const struct export_input *input, struct outlet *outlet,
			   struct tm_error *err)
{
	struct collapsed c = {0};
	struct text name = {0};
	int code = make(&c, input, err);
	for (uint32_t i = 0; !code && i < c.trie.count; i++) {
		if (!c.sums[i])
			continue;
		code = put_path(&outlet->text, &name, &c.trie, i);
		text_print(&outlet->text, " %" PRIu64 "\n", c.sums[i]);
		if (!code)
			code = outlet_flush(outlet);
	}
	text_done(&name);
	tm_free(c.sums);
	trie_done(&c.trie);
	export_rows_done(&c.rows);
	return code;
}

const struct export_format export_collapsed = {
	.name = "collapsed",
	.help = "stacks for flamegraph.pl, inferno, speedscope: 'main;load 4096'",
	.suffix = ".folded",
	.type = "text/plain; charset=utf-8",
	.write = write_collapsed,
};
