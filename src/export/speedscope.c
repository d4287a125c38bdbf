/* SPDX-License-Identifier: Apache-2.0 */
/*
 * speedscope's own JSON: frames once, then one profile per figure, the chosen
 * one first. A stack is a sample, its figure the sample's weight.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/json.h"
#include "export/formats.h"
#include "export/rows.h"

static const enum view_figure others[] = {VIEW_PEAK_BYTES, VIEW_UNFREED_BYTES, VIEW_ALLOCATED_BYTES,
					  VIEW_ALLOCATIONS};

static int put_frames(const struct export_input *input, struct json *json, struct outlet *outlet)
{
	struct text name = {0};
	int code = 0;
	json_begin_object(json, "shared");
	json_begin_array(json, "frames");
	for (uint32_t i = 0; !code && i < view_frame_count(input->data); i++) {
		const struct view_frame *frame = view_frame_at(input->data, i);
		text_clear(&name);
		export_frame_name(&name, frame);
		json_begin_object(json, NULL);
		json_string(json, "name", text_string(&name));
		if (frame->file)
			json_string(json, "file", frame->file);
		if (frame->line)
			json_u64(json, "line", frame->line);
		if (frame->column)
			json_u64(json, "col", frame->column);
		json_end(json);
		code = outlet_flush(outlet);
	}
	json_end(json);
	json_end(json);
	text_done(&name);
	return code;
}

/* Outermost first; views walk from the innermost, so depth is counted before. */
static int put_stack(const struct view_data *data, struct json *json, uint32_t stack,
		     struct text *path)
{
	const struct view_frame *frame;
	text_clear(path);
	while ((frame = view_next_frame(data, &stack))) {
		uint32_t number = view_frame_number(data, frame);
		text_put_bytes(path, &number, sizeof number);
	}
	json_begin_array(json, NULL);
	const uint32_t *numbers = (const uint32_t *)(const void *)path->data;
	for (size_t i = path->length / sizeof *numbers; i-- > 0;)
		json_u64(json, NULL, numbers[i]);
	json_end(json);
	return text_error(path);
}

static int put_profile(const struct export_input *input, struct json *json, struct outlet *outlet,
		       enum view_figure figure, struct tm_error *err)
{
	struct export_rows rows;
	struct text path = {0};
	struct export_input of = *input;
	of.cost = figure;
	int code = export_rows_choose(&rows, &of, 1u << figure, err);
	if (code)
		return code;
	json_begin_object(json, NULL);
	json_string(json, "type", "sampled");
	json_string(json, "name", view_columns[figure].key);
	json_string(json, "unit", view_columns[figure].unit == VIEW_UNIT_BYTES ? "bytes" : "none");
	json_u64(json, "startValue", 0);
	json_u64(json, "endValue", rows.sum.of[figure]);
	json_begin_array(json, "samples");
	for (size_t i = 0; !code && i < rows.count; i++) {
		code = put_stack(input->data, json, rows.list[i]->stack, &path);
		if (!code)
			code = outlet_flush(outlet);
	}
	json_end(json);
	json_begin_array(json, "weights");
	for (size_t i = 0; !code && i < rows.count; i++) {
		json_u64(json, NULL, rows.list[i]->figures.of[figure]);
		code = outlet_flush(outlet);
	}
	json_end(json);
	json_end(json);
	text_done(&path);
	export_rows_done(&rows);
	return code;
}

static int write_speedscope(const struct export_input *input, struct outlet *outlet,
			    struct tm_error *err)
{
	struct json json = {.out = &outlet->text};
	json_begin_object(&json, NULL);
	json_string(&json, "$schema", "https://www.speedscope.app/file-format-schema.json");
	json_string(&json, "exporter", "tidemark");
	char title[EXPORT_TITLE];
	json_string(&json, "name", export_title(input, title));
	json_u64(&json, "activeProfileIndex", 0);
	int code = put_frames(input, &json, outlet);
	json_begin_array(&json, "profiles");
	if (!code)
		code = put_profile(input, &json, outlet, input->cost, err);
	for (size_t i = 0; !code && i < sizeof others / sizeof others[0]; i++)
		if (others[i] != input->cost)
			code = put_profile(input, &json, outlet, others[i], err);
	json_end(&json);
	json_end(&json);
	text_put_char(&outlet->text, '\n');
	return code;
}

const struct export_format export_speedscope = {
	.name = "speedscope",
	.help = "JSON for speedscope.app, with profiles of peak, unfreed and allocated",
	.suffix = ".speedscope.json",
	.type = "application/json",
	.write = write_speedscope,
};
