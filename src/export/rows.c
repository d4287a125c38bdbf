/* SPDX-License-Identifier: Apache-2.0 */
#include "export/rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/sort.h"
#include "base/utf8.h"

int export_no_memory(struct tm_error *err)
{
	return tm_fail(err, -ENOMEM, "no memory for the export");
}

/* Equal figures fall back to the stack's number, so that two exports are alike. */
static int by_cost(const void *left, const void *right, void *ctx)
{
	const struct view_stack_row *a = *(const struct view_stack_row *const *)left;
	const struct view_stack_row *b = *(const struct view_stack_row *const *)right;
	enum view_figure cost = *(const enum view_figure *)ctx;
	if (a->figures.of[cost] != b->figures.of[cost])
		return a->figures.of[cost] > b->figures.of[cost] ? -1 : 1;
	return (a->stack > b->stack) - (a->stack < b->stack);
}

static bool has_any(const struct view_stack_row *row, unsigned figures)
{
	for (size_t i = 0; i < VIEW_FIGURE_COUNT; i++)
		if (figures >> i & 1 && row->figures.of[i])
			return true;
	return false;
}

int export_rows_choose(struct export_rows *rows, const struct export_input *input, unsigned figures,
		       struct tm_error *err)
{
	size_t all;
	enum view_figure cost = input->cost;
	const struct view_stack_row *have = view_stacks(input->data, &all);
	*rows = (struct export_rows){0};
	rows->list = tm_alloc_array(all + 1, sizeof *rows->list);
	if (!rows->list)
		return export_no_memory(err);
	for (size_t i = 0; i < all; i++)
		if (has_any(&have[i], figures))
			rows->list[rows->count++] = &have[i];
	sort_array(rows->list, rows->count, sizeof *rows->list, by_cost, &cost);
	if (input->limit && rows->count > input->limit)
		rows->count = (size_t)input->limit;
	for (size_t i = 0; i < rows->count; i++)
		for (size_t k = 0; k < VIEW_FIGURE_COUNT; k++)
			rows->sum.of[k] += rows->list[i]->figures.of[k];
	return 0;
}

void export_rows_done(struct export_rows *rows)
{
	tm_free(rows->list);
	*rows = (struct export_rows){0};
}

void export_frame_name(struct text *out, const struct view_frame *frame)
{
	if (frame->function && frame->function[0])
		text_put(out, frame->function);
	else
		text_print(out, "[%s+0x%" PRIx64 "]", view_module_name(frame->module),
			   frame->address);
}

void export_line_text(struct text *out, const char *name, char from, char to)
{
	const char *found;
	while (from && (found = strchr(name, from))) {
		text_put_visible(out, name, (size_t)(found - name));
		text_put_char(out, to);
		name = found + 1;
	}
	text_put_visible(out, name, strlen(name));
}

/* XML has no way to write most control characters. */
static bool is_markup(uint32_t code)
{
	return code >= 0x20 && code != 0x7f && !(code >= 0x80 && code < 0xa0) && code != 0xfffe &&
	       code != 0xffff;
}

void export_markup_text(struct text *out, const char *name)
{
	size_t left = strlen(name), bytes;
	for (; left; name += bytes, left -= bytes) {
		uint32_t code = 0;
		bytes = utf8_get(name, left, &code);
		if (!bytes || !is_markup(code)) {
			bytes = bytes ? bytes : 1;
			text_put(out, "\xef\xbf\xbd");
		} else if (strchr("<>&\"'", *name)) {
			text_print(out, "&#%u;", (unsigned)*name);
		} else {
			text_put_bytes(out, name, bytes);
		}
	}
}

const char *export_command(const struct export_input *input)
{
	const struct trace_meta *meta = input->facts->meta;
	if (meta->command && meta->command[0])
		return meta->command;
	return meta->program && meta->program[0] ? meta->program : "(unknown)";
}

const char *export_note(const struct export_input *input)
{
	return input->facts->sample_bytes ? "sampled: the values are estimates, already scaled"
					  : NULL;
}

const char *export_title(const struct export_input *input, char room[EXPORT_TITLE])
{
	const char *note = export_note(input);
	if (!note)
		return export_command(input);
	snprintf(room, EXPORT_TITLE, "%.900s (%s)", export_command(input), note);
	return room;
}
