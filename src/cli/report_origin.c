/* SPDX-License-Identifier: Apache-2.0 */
/* Where the figures of an imported file come from, in place of what a recording cost. */
#include <string.h>

#include "cli/report_sections.h"
#include "views/origin.h"

enum { HEAD_COLUMNS = 13 };

static void put_key(struct out *out, const char *key)
{
	out_style(out, OUT_DIM);
	text_print(&out->text, "%-*s", HEAD_COLUMNS, key);
	out_style(out, OUT_PLAIN);
}

static void put_missing(const struct trace_meta *meta, struct out *out)
{
	const char *word, *between = "";
	put_key(out, "not in it");
	for (unsigned i = 0; (word = view_unknown_word(i)); i++) {
		if (!(meta->unknown & 1u << i))
			continue;
		text_print(&out->text, "%s%s", between, word);
		between = ", ";
	}
	text_put_char(&out->text, '\n');
}

static void put_facts(const char *facts, struct out *out)
{
	struct text line = {0};
	while (facts && *facts) {
		size_t length = strcspn(facts, "\n");
		text_clear(&line);
		text_put_visible(&line, facts, length);
		out_paragraph(out, 0, text_string(&line));
		facts += length + (facts[length] != 0);
	}
	text_done(&line);
}

void report_put_origin(const struct report *report, struct out *out)
{
	const struct trace_meta *meta = report->input.meta;
	put_key(out, "imported");
	text_put(&out->text, "from ");
	text_put_visible(&out->text, meta->origin, strlen(meta->origin));
	text_put_char(&out->text, '\n');
	if (meta->unknown)
		put_missing(meta, out);
	put_facts(report->input.end->facts, out);
	const char *warning = trace_reader_warning(report->reader);
	if (warning)
		out_paragraph(out, 0, warning);
}
