/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/report.h"

/* One line: the program. */
void report_put_title(const struct report *report, struct out *out);
/* Which part of the run this is; nothing for the whole. */
void report_put_range(const struct report *report, struct out *out);
/* The live bytes over time in so many columns, as one line. (report_timeline.c) */
TM_MUST_CHECK int report_spark(const struct report *report, unsigned columns, struct text *out,
			       struct tm_error *err);
/* How old the live blocks of an attached recording are; nothing for others. (report_ages.c) */
TM_MUST_CHECK int report_put_ages(const struct report *report, struct out *out,
				  struct tm_error *err);

/* Live blocks of the whole run by age at its end. */
enum { REPORT_AGES = 6 };
struct report_age {
	const char *words;
	uint64_t below_ns; /* UINT64_MAX: the oldest */
	uint64_t blocks, bytes;
};
TM_MUST_CHECK int report_ages(const struct report *report, struct report_age ret_ages[REPORT_AGES],
			      struct tm_error *err);
