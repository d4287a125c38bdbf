/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report_put.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void put_heading(struct out *out, const char *title, size_t shown, size_t count)
{
	text_put_char(&out->text, '\n');
	out_style(out, OUT_BOLD);
	text_put(&out->text, title);
	out_style(out, OUT_PLAIN);
	if (shown < count)
		text_print(&out->text, " (%zu of %zu)", shown, count);
	text_put_char(&out->text, '\n');
}

struct units_text put_figure(const struct out *out, const struct view_figures *figures,
			     enum view_figure figure)
{
	return view_columns[figure].unit == VIEW_UNIT_BYTES ? out_bytes(out, figures->of[figure])
							    : units_grouped(figures->of[figure]);
}

struct units_text put_share(uint64_t part, uint64_t whole)
{
	struct units_text text = {"-"};
	if (whole)
		snprintf(text.text, sizeof text.text, "%.1f %%",
			 100.0 * (double)part / (double)whole);
	return text;
}

unsigned put_frame_name(struct out *out, const struct view_frame *frame, unsigned columns)
{
	if (frame->function)
		return out_function(out, frame->function, columns);
	char name[320];
	snprintf(name, sizeof name, "%.256s+0x%" PRIx64, view_module_name(frame->module),
		 frame->address);
	return out_name(out, name, columns);
}

void put_frame_place(struct text *text, const struct view_frame *frame)
{
	if (frame->file)
		text_print(text, "%s:%" PRIu32, view_module_name(frame->file), frame->line);
	else if (frame->function && strcmp(frame->module, "[mark]") != 0)
		text_print(text, "in %s", view_module_name(frame->module));
	if (frame->tail_called)
		text_put(text, ", tail call");
}

const char *put_plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

struct units_text put_error(const struct report *report, uint64_t bytes, uint64_t blocks)
{
	struct units_text text = {""};
	double percent = view_error_percent(&report->input, bytes, blocks);
	if (percent > 0)
		snprintf(text.text, sizeof text.text, " ± %.*f %%", percent < 1 ? 1 : 0, percent);
	return text;
}

struct units_text put_sure(const struct report *report, const struct out *out,
			   const struct view_figures *figures, enum view_figure figure)
{
	const struct view_column *column = &view_columns[figure];
	struct units_text text = put_figure(out, figures, figure);
	size_t used = strlen(text.text);
	if (column->unit == VIEW_UNIT_BYTES)
		snprintf(text.text + used, sizeof text.text - used, "%s",
			 put_error(report, figures->of[figure], figures->of[column->partner]).text);
	return text;
}

struct put_estimate put_count(const struct report *report, uint64_t count)
{
	struct put_estimate text;
	snprintf(text.text, sizeof text.text, "%s%s", report->input.sample_bytes ? "about " : "",
		 units_grouped(count).text);
	return text;
}

struct put_estimate put_estimate(const struct report *report, const struct out *out, uint64_t bytes,
				 uint64_t blocks)
{
	struct put_estimate text;
	snprintf(text.text, sizeof text.text, "%s%s%s", report->input.sample_bytes ? "about " : "",
		 out_bytes(out, bytes).text, put_error(report, bytes, blocks).text);
	return text;
}

void put_json_known(struct json *json, const char *key, bool known, uint64_t value)
{
	if (known)
		json_u64(json, key, value);
	else
		json_null(json, key);
}

void put_json_row(struct json *json, const struct view_row *row)
{
	if (row->package) {
		json_string(json, "package", row->package[0] ? row->package : NULL);
		return;
	}
	json_string(json, "function", row->function);
	json_string(json, "module", row->module && row->module[0] ? row->module : NULL);
	if (row->file) {
		json_string(json, "file", row->file);
		put_json_known(json, "line", row->line > 0, row->line);
	}
}

void put_json_frame(struct json *json, const struct view_frame *frame)
{
	static const char *const sources[] = {
		[TRACE_SYM_NONE] = "none",     [TRACE_SYM_DWARF] = "dwarf",
		[TRACE_SYM_SYMTAB] = "symtab", [TRACE_SYM_DYNSYM] = "dynsym",
		[TRACE_SYM_JIT] = "jit",
	};
	char address[32];
	snprintf(address, sizeof address, "0x%" PRIx64, frame->address);
	json_string(json, "function", frame->function);
	json_string(json, "module", frame->module);
	json_string(json, "address", address);
	json_string(json, "file", frame->file);
	put_json_known(json, "line", frame->line > 0, frame->line);
	put_json_known(json, "column", frame->column > 0, frame->column);
	json_bool(json, "inlined", frame->inlined);
	if (frame->tail_called)
		json_bool(json, "tail_called", true);
	json_string(json, "source",
		    frame->source <= TRACE_SYM_JIT ? sources[frame->source] : "none");
	json_string(json, "kind", kinds_name((enum frame_kind)frame->kind));
	json_string(json, "package", frame->package && frame->package[0] ? frame->package : NULL);
}

void put_csv_text(struct text *out, const char *value)
{
	if (value && strpbrk(value, ",\"\r\n")) {
		text_put_char(out, '"');
		for (; *value; value++) {
			if (*value == '"')
				text_put_char(out, '"');
			text_put_char(out, *value);
		}
		text_put_char(out, '"');
	} else if (value) {
		text_put(out, value);
	}
	text_put_char(out, ',');
}

void put_csv_u64(struct text *out, uint64_t value)
{
	text_print(out, "%" PRIu64 ",", value);
}

void put_csv_end(struct text *out)
{
	if (out->length && out->data[out->length - 1] == ',')
		out->data[out->length - 1] = '\n';
}

void put_csv_figure_keys(struct text *out, const char *prefix)
{
	for (size_t i = 0; i < VIEW_FIGURE_COUNT; i++)
		text_print(out, "%s%s,", prefix, view_columns[i].key);
}

void put_csv_figures(struct text *out, const struct view_figures *figures)
{
	for (size_t i = 0; i < VIEW_FIGURE_COUNT; i++)
		put_csv_u64(out, figures->of[i]);
}
