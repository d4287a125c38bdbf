/* SPDX-License-Identifier: Apache-2.0 */
/* The report for people, and for spreadsheets: the chosen sections, one after the other. */
#include "cli/report.h"
#include "cli/report_totals.h"

#include <string.h>

int report_text(const struct report *report, struct out *out, struct tm_error *err)
{
	const struct report_section *sections[REPORT_SECTIONS_MAX];
	size_t count = report_chosen(report, sections);
	int code = 0;
	if (strcmp(sections[0]->name, "summary") != 0) {
		report_put_title(report, out);
		report_put_range(report, out);
	}
	for (size_t i = 0; !code && i < count; i++)
		code = sections[i]->text(report, sections[i], out, err);
	return code;
}

int report_csv(const struct report *report, struct text *out, struct tm_error *err)
{
	const struct report_section *sections[REPORT_SECTIONS_MAX];
	report_chosen(report, sections);
	return sections[0]->csv(report, sections[0], out, err);
}
