/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/suppressed.h"

#include <stdio.h>
#include <string.h>

bool suppressed_take_file(struct suppressed_options *options, const char *command, const char *path)
{
	if (options->file_count == SUPPRESSED_FILES_MAX) {
		fprintf(stderr, "tidemark %s: at most %d files of suppressions.\n", command,
			SUPPRESSED_FILES_MAX);
		return false;
	}
	options->files[options->file_count++] = path;
	return true;
}

int suppressed_init(struct suppressed *suppressed, const struct suppressed_options *options,
		    const struct view_input *input, struct tm_error *err)
{
	*suppressed = (struct suppressed){0};
	int code = suppressions_new(&suppressed->list, err);
	for (size_t i = 0; i < options->file_count && !code; i++)
		code = suppressions_add_file(suppressed->list, options->files[i], err);
	if (!code)
		code = suppressions_add_program(suppressed->list, input, suppressed->note,
						sizeof suppressed->note, err);
	if (!code && !options->no_builtin)
		code = suppressions_add_builtin(suppressed->list, err);
	return code;
}

void suppressed_done(struct suppressed *suppressed)
{
	suppressed->list = suppressions_free(suppressed->list);
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static void put_one(const struct suppression *one, struct out *out)
{
	struct text *text = &out->text;
	text_print(text, "%10s in %s block%s by leak:", out_bytes(out, one->bytes).text,
		   units_grouped(one->blocks).text, plural(one->blocks));
	text_put_visible(text, one->pattern, strlen(one->pattern));
	text_put(text, "  [");
	text_put_visible(text, one->origin, strlen(one->origin));
	text_print(text, ":%u]\n", one->line);
}

void suppressed_text(const struct suppressed *suppressed, struct out *out)
{
	struct suppression sum = suppressions_sum(suppressed->list);
	if (suppressed->note[0])
		out_paragraph(out, 0, suppressed->note);
	if (!sum.stacks)
		return;
	text_print(&out->text, "Suppressed: %s unfreed in %s block%s\n",
		   out_bytes(out, sum.bytes).text, units_grouped(sum.blocks).text,
		   plural(sum.blocks));
	for (size_t i = 0; i < suppressions_count(suppressed->list); i++)
		if (suppressions_at(suppressed->list, i)->stacks)
			put_one(suppressions_at(suppressed->list, i), out);
}

void suppressed_json(const struct suppressed *suppressed, struct json *json)
{
	struct suppression sum = suppressions_sum(suppressed->list);
	json_u64(json, "suppressed_bytes", sum.bytes);
	json_u64(json, "suppressed_allocations", sum.blocks);
	json_begin_array(json, "suppressions");
	for (size_t i = 0; i < suppressions_count(suppressed->list); i++) {
		const struct suppression *one = suppressions_at(suppressed->list, i);
		if (!one->stacks)
			continue;
		json_begin_object(json, NULL);
		json_string(json, "pattern", one->pattern);
		json_string(json, "origin", one->origin);
		json_u64(json, "line", one->line);
		json_u64(json, "stacks", one->stacks);
		json_u64(json, "blocks", one->blocks);
		json_u64(json, "bytes", one->bytes);
		json_end(json);
	}
	json_end(json);
}
