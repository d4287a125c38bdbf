/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_names.h"

#include <string.h>

#include "base/quote.h"
#include "cli/report_put.h"

void run_names_put(struct text *text, const struct collector_trace *trace)
{
	const struct unnamed_answer *unnamed = &trace->unnamed;
	text_put(text, "tidemark: note: ");
	if (unnamed->cure == CURE_NODE && !unnamed->lines_only) {
		text_put(text, "JavaScript functions have no names");
	} else {
		text_put(text, unnamed->lines_only ? "lines of " : "functions of ");
		text_put_visible(text, unnamed->module, strlen(unnamed->module));
		text_print(text, " %s (%s of the allocated bytes)",
			   unnamed->lines_only ? "are not known" : "have no names",
			   put_share(unnamed->bytes, unnamed->of_bytes).text);
	}
	text_print(text, ": %s; for all, type: tidemark report --symbols ",
		   cure_text(unnamed->cure));
	quote_argument(text, trace->path);
	text_put(text, "\n");
}
