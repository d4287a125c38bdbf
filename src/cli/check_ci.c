/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts for build servers: JUnit's XML, and the lines that GitHub's runner reads. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/check.h"

/* ---- JUnit ---- */

/* What XML 1.0 cannot hold becomes U+FFFD. */
static void put_xml(struct text *text, const char *value)
{
	size_t bytes = strlen(value);
	while (bytes > 0) {
		uint32_t code = 0;
		size_t step = utf8_get(value, bytes, &code);
		bool allowed = step && (code >= 0x20 || code == '\t' || code == '\n') &&
			       code != 0xfffe && code != 0xffff;
		if (!allowed)
			text_put(text, "\xef\xbf\xbd");
		else if (code == '<')
			text_put(text, "&lt;");
		else if (code == '>')
			text_put(text, "&gt;");
		else if (code == '&')
			text_put(text, "&amp;");
		else if (code == '"')
			text_put(text, "&quot;");
		else if (code == '\n')
			text_put(text, "&#10;");
		else
			text_put_bytes(text, value, step);
		value += step ? step : 1;
		bytes -= step ? step : 1;
	}
}

static void put_attribute(struct text *text, const char *name, const char *value)
{
	text_print(text, " %s=\"", name);
	put_xml(text, value);
	text_put_char(text, '"');
}

static void put_details(const struct check *check, struct text *out, const struct verdict *verdict)
{
	for (size_t i = 0; i < verdict->culprit_count; i++) {
		check_put_culprit(out, verdict, &verdict->culprits[i]);
		text_put(out, " from\n");
		check_put_stack(check, out, verdict->culprits[i].stack, "  ");
	}
}

static void put_case(const struct check *check, struct text *text, const struct verdict *verdict)
{
	struct text name = {0}, relation = {0}, details = {0};
	check_put_subject(&name, verdict);
	check_put_relation(&relation, verdict);
	put_details(check, &details, verdict);
	text_put(text, "    <testcase");
	put_attribute(text, "classname", "tidemark.check");
	put_attribute(text, "name", text_string(&name));
	if (!verdict->broken && verdict->known) {
		text_put(text, "/>\n");
	} else {
		text_put(text, verdict->broken ? ">\n      <failure" : ">\n      <error");
		put_attribute(text, "message", text_string(&relation));
		put_attribute(text, "type", verdict->broken ? "budget" : "unknown");
		text_put_char(text, '>');
		put_xml(text, text_string(&details));
		text_put(text, verdict->broken ? "</failure>\n" : "</error>\n");
		text_put(text, "    </testcase>\n");
	}
	text_done(&name);
	text_done(&relation);
	text_done(&details);
}

void check_junit(const struct check *check, struct text *text)
{
	bool failed = check->has_program && check->program_status;
	text_put(text, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite");
	put_attribute(text, "name", "tidemark check");
	text_print(text, " tests=\"%zu\" failures=\"%zu\" errors=\"%zu\">\n",
		   check->budgets.count + failed, check->broken, check->unknown + failed);
	for (size_t i = 0; i < check->budgets.count; i++)
		put_case(check, text, &check->verdicts[i]);
	if (failed) {
		text_put(text, "    <testcase");
		put_attribute(text, "classname", "tidemark.check");
		put_attribute(text, "name", "the program itself");
		text_print(text,
			   ">\n      <error message=\"exit status %d\" type=\"program\"/>\n"
			   "    </testcase>\n",
			   check->program_status);
	}
	text_put(text, "  </testsuite>\n</testsuites>\n");
}

/* ---- GitHub ---- */

/* Its escapes; `property`: between '::' also colon and comma. */
static void put_escaped(struct text *text, const char *value, bool property)
{
	for (; *value; value++) {
		unsigned char c = (unsigned char)*value;
		bool escape = c == '%' || c == '\r' || c == '\n' || c < 0x20 ||
			      (property && (c == ':' || c == ','));
		if (escape)
			text_print(text, "%%%02X", c);
		else
			text_put_char(text, (char)c);
	}
}

/* The innermost frame of the program's own with a line: where a reader wants to look. */
static const struct view_frame *find_place(const struct check *check, uint32_t stack)
{
	const struct view_frame *frame, *any = NULL;
	while ((frame = view_next_frame(check->side.data, &stack))) {
		if (!frame->file || frame->is_allocator)
			continue;
		if (frame->kind == KIND_APPLICATION)
			return frame;
		any = any ? any : frame;
	}
	return any;
}

/* As the repository names it. */
static const char *in_workspace(const char *file)
{
	const char *root = getenv("GITHUB_WORKSPACE");
	size_t bytes = root ? strlen(root) : 0;
	while (bytes && root[bytes - 1] == '/')
		bytes--;
	bool inside = bytes && !strncmp(file, root, bytes) && file[bytes] == '/';
	return inside ? file + bytes + 1 : file;
}

static void put_annotation(const struct check *check, struct text *text,
			   const struct verdict *verdict)
{
	struct text title = {0}, message = {0};
	const struct view_frame *place =
		verdict->culprit_count ? find_place(check, verdict->culprits[0].stack) : NULL;
	text_put(&title, "Tidemark: ");
	check_put_subject(&title, verdict);
	check_put_relation(&message, verdict);
	if (verdict->culprit_count)
		text_put_char(&message, '\n');
	put_details(check, &message, verdict);
	if (verdict->culprit_count && message.length)
		message.data[message.length - 1] = '\0'; /* the last line needs no end */
	text_put(text, "::error ");
	if (place) {
		text_put(text, "file=");
		put_escaped(text, in_workspace(place->file), true);
		text_print(text, ",line=%" PRIu32 ",", place->line);
	}
	text_put(text, "title=");
	put_escaped(text, text_string(&title), true);
	text_put(text, "::");
	put_escaped(text, text_string(&message), false);
	text_put_char(text, '\n');
	text_done(&title);
	text_done(&message);
}

void check_github(const struct check *check, struct text *text)
{
	for (size_t i = 0; i < check->budgets.count; i++)
		if (check->verdicts[i].broken)
			put_annotation(check, text, &check->verdicts[i]);
	if (check->has_program && check->program_status)
		text_print(text,
			   "::error title=Tidemark::the program itself failed: exit status %d\n",
			   check->program_status);
}
