/* SPDX-License-Identifier: Apache-2.0 */
/* Names that are missing: in which modules, how much that matters, what helps. */
#include <errno.h>
#include <stdio.h>

#include "base/memory.h"
#include "cli/report_put.h"
#include "cli/report_sections.h"
#include "symbols/symbols.h"
#include "views/missing.h"

enum { ROWS_TEXT = 10 };

/* What is with the file on this machine: "here", "replaced", "missing" or "none". */
static const char *state_of(struct symbols *symbols, const struct view_missing_row *row)
{
	struct symbols_module *module = NULL;
	if (row->module[0] != '/')
		return "none";
	int code = symbols_open(symbols, row->module, row->build_id, row->build_id_bytes, &module,
				NULL);
	if (code == -ESTALE)
		return "replaced";
	return code == -ENOENT || code == -EACCES || code == -ENOTDIR ? "missing" : "here";
}

struct answers {
	struct view_missing missing;
	struct symbols *symbols;
	size_t shown;
};

static int make(const struct report *report, size_t usual, struct answers *answers,
		struct tm_error *err)
{
	struct symbols_options options = {.no_lines = true, .no_debug_files = true};
	*answers = (struct answers){0};
	int code = symbols_new(&options, &answers->symbols, err);
	if (!code)
		code = view_missing(report->data, &report->input, &answers->missing, err);
	size_t limit = report_limit(report, usual);
	answers->shown = answers->missing.count < limit ? answers->missing.count : limit;
	if (code)
		answers->symbols = symbols_free(answers->symbols);
	return code;
}

static void done(struct answers *answers)
{
	view_missing_done(&answers->missing);
	symbols_free(answers->symbols);
}

static void put_row(struct out *out, struct answers *answers, const struct view_missing_row *row)
{
	uint64_t all = answers->missing.bytes;
	const char *state = state_of(answers->symbols, row);
	out_style(out, OUT_FIGURE);
	text_print(&out->text, "  %7s", put_share(row->unnamed_bytes, all).text);
	out_style(out, OUT_PLAIN);
	text_print(&out->text, "  %7s  ", put_share(row->unlined_bytes, all).text);
	out_style(out, OUT_BOLD);
	out_name(out, row->module, 0);
	out_style(out, OUT_PLAIN);
	text_print(&out->text, "\n");
	struct text advice = {0};
	if (*state == 'r')
		text_put(&advice, "The file on this machine is another build than the one that "
				  "ran. ");
	else if (*state == 'm')
		text_put(&advice, "The file is not on this machine: 'tidemark symbolize --sysroot "
				  "DIR' reads a copy. ");
	text_print(&advice, "To have them: %s.", cure_text(row->cure));
	out_paragraph(out, 20, text_string(&advice));
	text_done(&advice);
}

int report_symbols_text(const struct report *report, const struct report_section *section,
			struct out *out, struct tm_error *err)
{
	(void)section;
	struct answers answers;
	int code = make(report, ROWS_TEXT, &answers, err);
	if (code)
		return code;
	const struct view_missing *missing = &answers.missing;
	put_heading(out, "Modules without names or lines, by share of allocated bytes",
		    answers.shown, missing->count);
	char line[160];
	snprintf(line, sizeof line,
		 "%s of the bytes have a frame without a name on their stack, %s one without "
		 "a line",
		 put_share(missing->unnamed_bytes, missing->bytes).text,
		 put_share(missing->unlined_bytes, missing->bytes).text);
	out_paragraph(out, 2, line);
	if (missing->count)
		text_put(&out->text, "  no name  no line  module\n");
	for (size_t i = 0; i < answers.shown; i++)
		put_row(out, &answers, &missing->rows[i]);
	done(&answers);
	return 0;
}

int report_symbols_json(const struct report *report, const struct report_section *section,
			struct json *json, struct tm_error *err)
{
	struct answers answers;
	int code = make(report, SIZE_MAX, &answers, err);
	if (code)
		return code;
	const struct view_missing *missing = &answers.missing;
	json_begin_object(json, section->key);
	json_u64(json, "allocated_bytes", missing->bytes);
	json_u64(json, "unnamed_bytes", missing->unnamed_bytes);
	json_u64(json, "unlined_bytes", missing->unlined_bytes);
	json_begin_array(json, "modules");
	for (size_t i = 0; i < answers.shown; i++) {
		const struct view_missing_row *row = &missing->rows[i];
		json_begin_object(json, NULL);
		json_string(json, "module", row->module);
		json_u64(json, "unnamed_bytes", row->unnamed_bytes);
		json_u64(json, "unlined_bytes", row->unlined_bytes);
		json_u64(json, "unnamed_frames", row->unnamed);
		json_u64(json, "unlined_frames", row->unlined);
		json_string(json, "file", state_of(answers.symbols, row));
		json_string(json, "cure", cure_text(row->cure));
		json_end(json);
	}
	json_end(json);
	json_end(json);
	done(&answers);
	return 0;
}

int report_symbols_csv(const struct report *report, const struct report_section *section,
		       struct text *out, struct tm_error *err)
{
	(void)section;
	struct answers answers;
	int code = make(report, SIZE_MAX, &answers, err);
	if (code)
		return code;
	text_put(out,
		 "module,unnamed_bytes,unlined_bytes,unnamed_frames,unlined_frames,file,cure\n");
	for (size_t i = 0; i < answers.shown; i++) {
		const struct view_missing_row *row = &answers.missing.rows[i];
		put_csv_text(out, row->module);
		put_csv_u64(out, row->unnamed_bytes);
		put_csv_u64(out, row->unlined_bytes);
		put_csv_u64(out, row->unnamed);
		put_csv_u64(out, row->unlined);
		put_csv_text(out, state_of(answers.symbols, row));
		put_csv_text(out, cure_text(row->cure));
		put_csv_end(out);
	}
	done(&answers);
	return 0;
}
