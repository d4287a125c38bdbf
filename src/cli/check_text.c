/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts for people, and as JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/check.h"

enum { FRAMES_MAX = 12 };

static struct units_text value_text(const struct verdict *verdict, uint64_t value)
{
	return budget_is_bytes(verdict->budget->figure) ? units_bytes(value) : units_grouped(value);
}

void check_put_subject(struct text *text, const struct verdict *verdict)
{
	const struct budget *budget = verdict->budget;
	if (budget->function) {
		text_put_visible(text, budget->function, strlen(budget->function));
		text_put(text, ": ");
	}
	text_put(text, budget_name(budget->figure));
	if (verdict->is_baseline)
		text_put(text, " against the baseline");
}

void check_put_relation(struct text *text, const struct verdict *verdict)
{
	uint64_t limit = verdict->budget->limit;
	if (!verdict->known) {
		text_print(text, "not known: %s", verdict->why_unknown);
		return;
	}
	struct units_text value = value_text(verdict, verdict->value);
	struct units_text most = value_text(verdict, limit);
	/* Rounded alike, they would seem equal. */
	if (verdict->broken && !strcmp(value.text, most.text)) {
		value = units_grouped(verdict->value);
		most = units_grouped(limit);
	}
	text_put(text, value.text);
	if (verdict->error >= 1)
		text_print(text, " ± %s (estimated)", units_bytes((uint64_t)verdict->error).text);
	text_print(text, " %s %s", verdict->broken ? "is more than" : "is within", most.text);
	if (verdict->is_baseline)
		text_print(text, " (%s + tolerance)", value_text(verdict, verdict->baseline).text);
	if (verdict->suppressed_bytes)
		text_print(text, " (and %s are suppressed)",
			   units_bytes(verdict->suppressed_bytes).text);
}

void check_put_culprit(struct text *text, const struct verdict *verdict,
		       const struct culprit *culprit)
{
	text_print(text, "%s%s", verdict->is_baseline ? "+" : "",
		   value_text(verdict, culprit->value).text);
	if (budget_is_bytes(verdict->budget->figure) && culprit->blocks)
		text_print(text, " in %s block%s", units_grouped(culprit->blocks).text,
			   culprit->blocks == 1 ? "" : "s");
}

static void put_frame(struct text *text, const struct view_frame *frame)
{
	if (frame->function)
		text_put_visible(text, frame->function, strlen(frame->function));
	else
		text_print(text, "%.200s+0x%" PRIx64, view_module_name(frame->module),
			   frame->address);
	if (frame->file) {
		text_put(text, "  ");
		text_put_visible(text, frame->file, strlen(frame->file));
		text_print(text, ":%" PRIu32, frame->line);
	}
}

void check_put_stack(const struct check *check, struct text *text, uint32_t stack,
		     const char *indent)
{
	const struct view_frame *frame;
	unsigned shown = 0;
	bool at_root = false;
	while (!at_root && shown < FRAMES_MAX &&
	       (frame = view_next_frame(check->side.data, &stack))) {
		at_root = frame->is_root;
		text_put(text, indent);
		put_frame(text, frame);
		text_put_char(text, '\n');
		shown++;
	}
	if (!shown)
		text_print(text, "%s[no stack]\n", indent);
}

static void put_verdict(const struct check *check, const struct verdict *verdict)
{
	struct out *out = check->out;
	out_style(out, verdict->broken || !verdict->known ? OUT_WARN : OUT_DIM);
	text_put(&out->text, verdict->broken  ? "BROKEN   "
			     : verdict->known ? "within   "
					      : "unknown  ");
	out_style(out, OUT_PLAIN);
	check_put_subject(&out->text, verdict);
	text_put(&out->text, ": ");
	check_put_relation(&out->text, verdict);
	text_print(&out->text, "  [%s]\n", verdict->budget->origin);
	for (size_t i = 0; i < verdict->culprit_count; i++) {
		text_put(&out->text, "    ");
		check_put_culprit(&out->text, verdict, &verdict->culprits[i]);
		text_put(&out->text, " from\n");
		check_put_stack(check, &out->text, verdict->culprits[i].stack, "        ");
	}
}

void check_text(const struct check *check)
{
	struct text *text = &check->out->text;
	for (size_t i = 0; i < check->budgets.count; i++)
		put_verdict(check, &check->verdicts[i]);
	suppressed_text(&check->suppressed, check->out);
	const char *warning = side_warning(&check->side);
	if (warning)
		text_print(text, "warning: %s\n", warning);
	if (check->has_program && check->program_status)
		text_print(text,
			   "The program itself failed: exit status %d. That is no verdict on its "
			   "heap.\n",
			   check->program_status);
	text_put_visible(text, check->subject, strlen(check->subject));
	if (check->broken)
		text_print(text, ": %zu of %zu budgets are broken.\n", check->broken,
			   check->budgets.count);
	else
		text_print(text, ": all %zu budgets are kept.\n",
			   check->budgets.count - check->unknown);
}

/* ---- JSON ---- */

static void json_stack(const struct check *check, struct json *json, uint32_t stack)
{
	const struct view_frame *frame;
	json_begin_array(json, "frames");
	while ((frame = view_next_frame(check->side.data, &stack))) {
		json_begin_object(json, NULL);
		json_string(json, "function", frame->function);
		json_string(json, "module", frame->module);
		json_string(json, "file", frame->file);
		if (frame->file)
			json_u64(json, "line", frame->line);
		else
			json_null(json, "line");
		json_end(json);
	}
	json_end(json);
}

static void json_verdict(const struct check *check, struct json *json,
			 const struct verdict *verdict)
{
	json_begin_object(json, NULL);
	json_string(json, "function", verdict->budget->function);
	json_string(json, "figure", budget_name(verdict->budget->figure));
	json_string(json, "origin", verdict->budget->origin);
	json_u64(json, "limit", verdict->budget->limit);
	if (verdict->known)
		json_u64(json, "value", verdict->value);
	else
		json_null(json, "value");
	if (verdict->known && verdict->error >= 1)
		json_u64(json, "value_error", (uint64_t)verdict->error);
	if (verdict->is_baseline)
		json_u64(json, "baseline", verdict->baseline);
	else
		json_null(json, "baseline");
	json_bool(json, "broken", verdict->broken);
	json_begin_array(json, "stacks");
	for (size_t i = 0; i < verdict->culprit_count; i++) {
		json_begin_object(json, NULL);
		json_u64(json, verdict->is_baseline ? "growth" : "value",
			 verdict->culprits[i].value);
		json_stack(check, json, verdict->culprits[i].stack);
		json_end(json);
	}
	json_end(json);
	json_end(json);
}

void check_json(const struct check *check)
{
	struct json json = {.out = &check->out->text, .pretty = true};
	json_begin_object(&json, NULL);
	json_string(&json, "file", check->side.path);
	json_u64(&json, "broken", check->broken);
	json_u64(&json, "unknown", check->unknown);
	json_begin_array(&json, "budgets");
	for (size_t i = 0; i < check->budgets.count; i++)
		json_verdict(check, &json, &check->verdicts[i]);
	json_end(&json);
	suppressed_json(&check->suppressed, &json);
	if (check->has_program)
		json_i64(&json, "program_status", check->program_status);
	else
		json_null(&json, "program_status");
	json_string(&json, "note", check->suppressed.note[0] ? check->suppressed.note : NULL);
	json_string(&json, "warning", side_warning(&check->side));
	json_end(&json);
	text_put_char(&check->out->text, '\n');
}
