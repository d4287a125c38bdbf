/* SPDX-License-Identifier: Apache-2.0 */
/* The report for people, and for spreadsheets: the chosen sections, one after the other. */
#include "cli/report.h"
#include "cli/report_totals.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "views/origin.h"

/* A section that an imported file cannot fill. */
static void put_empty(struct out *out, const struct report_section *section, const char *why)
{
	char line[256];
	snprintf(line, sizeof line, "%s: not known: %s.", section->name, why);
	text_put_char(&out->text, '\n');
	out_style(out, OUT_DIM);
	out_paragraph(out, 0, line);
	out_style(out, OUT_PLAIN);
}

int report_text(const struct report *report, struct out *out, struct tm_error *err)
{
	const struct report_section *sections[REPORT_SECTIONS_MAX];
	size_t count = report_chosen(report, sections);
	int code = 0;
	if (strcmp(sections[0]->name, "summary") != 0) {
		report_put_title(report, out);
		report_put_range(report, out);
	}
	for (size_t i = 0; !code && i < count; i++) {
		const char *why = view_unknown_why(report->input.meta, sections[i]->needs);
		if (why)
			put_empty(out, sections[i], why);
		else
			code = sections[i]->text(report, sections[i], out, err);
	}
	return code;
}

int report_csv(const struct report *report, struct text *out, struct tm_error *err)
{
	const struct report_section *sections[REPORT_SECTIONS_MAX];
	report_chosen(report, sections);
	const char *why = view_unknown_why(report->input.meta, sections[0]->needs);
	if (why)
		return tm_fail(err, -ENODATA, "'%s' has no %s: %s", report->path, sections[0]->name,
			       why);
	return sections[0]->csv(report, sections[0], out, err);
}
