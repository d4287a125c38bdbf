/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flame graph as one SVG file: no font, script or picture from elsewhere. It
 * shows names in tool tips, and where a browser opens it by itself a click looks
 * into a frame; as a picture in another page it is a picture.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/units.h"
#include "export/formats.h"
#include "export/rows.h"
#include "views/tree.h"

/* At 1,200 points less than 0.01 % is not seen; nodes have about 220 bytes. */
enum {
	WIDTH = 1200,
	ROW = 17,
	HEAD = 56,
	FOOT = 12,
	CHARACTER = 7,
	MIN_PPM = 100,
	NODES_MAX = 100000
};

static const char script[] =
	"(function(){var s=document.documentElement,g=[].slice.call(s.querySelectorAll('g.f')),"
	"W=1200;function look(x,w){g.forEach(function(e){var ex=+e.getAttribute('data-x'),"
	"ew=+e.getAttribute('data-w'),r=e.querySelector('rect'),t=e.querySelector('text'),"
	"a=Math.max((ex-x)/w*W,0),b=Math.min((ex+ew-x)/w*W,W);"
	"e.style.display=b-a>0.1?'':'none';r.setAttribute('x',a);"
	"r.setAttribute('width',Math.max(b-a,0));t.setAttribute('x',a+3);"
	"var n=e.getAttribute('data-n'),k=Math.floor((b-a-6)/7);"
	"t.textContent=k<3?'':n.length<=k?n:n.slice(0,k-1)+'\\u2026';});}"
	"g.forEach(function(e){e.addEventListener('click',function(){"
	"look(+e.getAttribute('data-x'),+e.getAttribute('data-w'));});});})();";

struct flame {
	const struct export_input *input;
	struct outlet *outlet;
	struct view_tree tree;
	double scale; /* points per unit of cost */
	uint32_t depth;
	struct text name;
};

static uint64_t cost_of(const struct flame *f, const struct view_tree_node *node)
{
	return node->inclusive.of[f->input->cost];
}

static struct units_text figure_text(const struct flame *f, uint64_t value)
{
	return view_columns[f->input->cost].unit == VIEW_UNIT_BYTES ? units_bytes(value)
								    : units_grouped(value);
}

/* The same function has the same colour in every graph. */
static void put_color(struct text *out, const struct view_frame *frame)
{
	uint64_t hash = 0;
	for (const char *at = frame && frame->function ? frame->function : ""; *at; at++)
		hash = hash_pair(hash, (unsigned char)*at);
	text_print(out, "rgb(%u,%u,%u)", (unsigned)(205 + hash % 50),
		   (unsigned)(90 + (hash >> 8) % 120), (unsigned)(40 + (hash >> 16) % 50));
}

static void put_label(struct flame *f, double width)
{
	struct text *out = &f->outlet->text;
	size_t fits = width > 6 ? (size_t)((width - 6) / CHARACTER) : 0;
	if (fits < 3)
		return;
	if (f->name.length <= fits) {
		export_markup_text(out, text_string(&f->name));
		return;
	}
	/* Not within a character. */
	size_t cut = fits - 1;
	while (cut > 0 && ((unsigned char)f->name.data[cut] & 0xc0) == 0x80)
		cut--;
	char kept = f->name.data[cut];
	f->name.data[cut] = '\0';
	export_markup_text(out, f->name.data);
	f->name.data[cut] = kept;
	text_put(out, "\xe2\x80\xa6");
}

static void put_node(struct flame *f, size_t index, double x)
{
	const struct view_tree_node *node = &f->tree.nodes[index];
	struct text *out = &f->outlet->text;
	double width = (double)cost_of(f, node) * f->scale;
	double y = HEAD + (double)(f->depth - node->depth) * ROW;
	uint64_t whole = cost_of(f, &f->tree.nodes[0]);
	text_clear(&f->name);
	if (node->frame)
		export_frame_name(&f->name, node->frame);
	else
		text_put(&f->name, "everything");
	text_print(out, "<g class=\"f\" data-x=\"%.3f\" data-w=\"%.3f\" data-n=\"", x, width);
	export_markup_text(out, text_string(&f->name));
	text_put(out, "\"><title>");
	export_markup_text(out, text_string(&f->name));
	if (node->frame && node->frame->file) {
		text_put(out, " (");
		export_markup_text(out, node->frame->file);
		text_put(out, ")");
	}
	text_print(out, ": %s, %.2f %%</title><rect x=\"%.3f\" y=\"%.0f\" width=\"%.3f\" ",
		   figure_text(f, cost_of(f, node)).text,
		   whole ? (double)cost_of(f, node) * 100 / (double)whole : 0, x, y, width);
	text_print(out, "height=\"%d\" rx=\"1\" fill=\"", ROW - 1);
	put_color(out, node->frame);
	text_print(out, "\"/><text x=\"%.3f\" y=\"%.0f\">", x + 3, y + 12);
	put_label(f, width);
	text_put(out, "</text></g>\n");
}

static void put_head(struct flame *f)
{
	struct text *out = &f->outlet->text;
	uint64_t height = HEAD + (uint64_t)(f->depth + 1) * ROW + FOOT;
	text_print(out,
		   "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg "
		   "xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%" PRIu64
		   "\" viewBox=\"0 0 %d %" PRIu64 "\" font-family=\"monospace\" "
		   "font-size=\"11\">\n<style>g.f{cursor:pointer}g.f:hover rect{stroke:#000}"
		   "</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		   WIDTH, height, WIDTH, height);
	text_print(out, "<text x=\"%d\" y=\"22\" text-anchor=\"middle\" font-size=\"15\">",
		   WIDTH / 2);
	char title[EXPORT_TITLE];
	export_markup_text(out, export_title(f->input, title));
	text_print(out, "</text>\n<text x=\"%d\" y=\"42\" text-anchor=\"middle\">%s %s</text>\n",
		   WIDTH / 2, figure_text(f, cost_of(f, &f->tree.nodes[0])).text,
		   view_columns[f->input->cost].title);
}

/* Preorder: a node begins where its elder siblings end. */
static int put_nodes(struct flame *f)
{
	double *inner_x = tm_alloc_array(f->tree.count, sizeof *inner_x); /* of the next child */
	int code = inner_x ? 0 : -ENOMEM;
	for (size_t i = 0; !code && i < f->tree.count; i++) {
		const struct view_tree_node *node = &f->tree.nodes[i];
		double x = i ? inner_x[node->parent] : 0;
		put_node(f, i, x);
		inner_x[i] = x;
		if (i)
			inner_x[node->parent] = x + (double)cost_of(f, node) * f->scale;
		code = outlet_flush(f->outlet);
	}
	tm_free(inner_x);
	return code;
}

static int write_flamegraph(const struct export_input *input, struct outlet *outlet,
			    struct tm_error *err)
{
	struct flame f = {.input = input, .outlet = outlet};
	const struct view_tree_options options = {
		.direction = VIEW_TREE_TOP_DOWN,
		.order = input->cost,
		.min_share_ppm = MIN_PPM,
		.max_nodes = input->limit && input->limit < NODES_MAX ? (uint32_t)input->limit
								      : NODES_MAX,
	};
	int code = view_tree_new(input->data, &options, &f.tree, err);
	if (code)
		return code;
	uint64_t whole = cost_of(&f, &f.tree.nodes[0]);
	f.scale = whole ? (double)WIDTH / (double)whole : 0;
	for (size_t i = 0; i < f.tree.count; i++)
		f.depth = f.tree.nodes[i].depth > f.depth ? f.tree.nodes[i].depth : f.depth;
	put_head(&f);
	code = put_nodes(&f);
	text_print(&outlet->text, "<script><![CDATA[%s]]></script>\n</svg>\n", script);
	text_done(&f.name);
	view_tree_done(&f.tree);
	return code;
}

const struct export_format export_flamegraph = {
	.name = "flamegraph",
	.help = "a flame graph as one SVG file for browsers",
	.suffix = ".svg",
	.type = "image/svg+xml",
	.write = write_flamegraph,
};
