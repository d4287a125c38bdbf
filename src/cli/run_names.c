/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_names.h"

#include <string.h>

#include "base/quote.h"
#include "cli/report_put.h"
#include "views/missing.h"

/* Beyond this, opening the trace would be felt, and the report says it all the same. */
#define FILE_BYTES_MAX (64ull << 20)
enum { NAMES_PER_CENT = 5, LINES_PER_CENT = 50 };

static bool is_share(uint64_t part, uint64_t whole, unsigned per_cent)
{
	return whole && part >= whole / 100 * per_cent && part > 0;
}

/* The module that is most to blame; NULL: none is worth a word. */
static const struct view_missing_row *choose(const struct view_missing *missing, bool *ret_names)
{
	const struct view_missing_row *lines = NULL;
	*ret_names = true;
	for (size_t i = 0; i < missing->count; i++) {
		const struct view_missing_row *row = &missing->rows[i];
		if (row->cure != CURE_MAP &&
		    is_share(row->unnamed_bytes, missing->bytes, NAMES_PER_CENT))
			return row;
		if (row->cure != CURE_PACKAGE && row->module[0] == '/' && !lines &&
		    is_share(row->unlined_bytes, missing->bytes, LINES_PER_CENT))
			lines = row;
	}
	*ret_names = false;
	return lines;
}

static void put_line(struct text *text, const struct view_missing *missing, const char *path)
{
	bool names;
	const struct view_missing_row *row = choose(missing, &names);
	if (!row)
		return;
	uint64_t bytes = names ? row->unnamed_bytes : row->unlined_bytes;
	const char *module = view_module_name(row->module);
	text_put(text, "tidemark: note: ");
	if (row->cure == CURE_NODE && names) {
		text_put(text, "JavaScript functions have no names");
	} else {
		text_put(text, names ? "functions of " : "lines of ");
		text_put_visible(text, module, strlen(module));
		text_print(text, " %s (%s of the allocated bytes)",
			   names ? "have no names" : "are not known",
			   put_share(bytes, missing->bytes).text);
	}
	text_print(text, ": %s; for all, type: tidemark report --symbols ", cure_text(row->cure));
	quote_argument(text, path);
	text_put(text, "\n");
}

void run_names_put(struct text *text, const char *path)
{
	struct report_options options = {.path = path};
	struct report report = {.path = path, .options = &options};
	struct view_missing missing = {0};
	struct tm_error ignored;
	if (trace_reader_open(path, &report.reader, &ignored))
		return;
	report.section_count = trace_reader_section_count(report.reader);
	if (report.section_count && trace_reader_file_bytes(report.reader) < FILE_BYTES_MAX) {
		report.section = report.section_count - 1;
		if (!report_load(&report, &ignored) &&
		    !view_missing(report.data, &report.input, &missing, &ignored))
			put_line(text, &missing, path);
		view_missing_done(&missing);
		report_unload(&report);
	}
	trace_reader_close(report.reader);
}
