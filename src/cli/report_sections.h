/* SPDX-License-Identifier: Apache-2.0 */
/* The sections' functions, for the table in report_sections.c. */
#pragma once

#include "cli/report.h"

#define REPORT_SECTION_FACES(name)                                                     \
	int report_##name##_text(const struct report *, const struct report_section *, \
				 struct out *, struct tm_error *);                     \
	int report_##name##_json(const struct report *, const struct report_section *, \
				 struct json *, struct tm_error *);                    \
	int report_##name##_csv(const struct report *, const struct report_section *,  \
				struct text *, struct tm_error *)

/* report_origin.c: what another tool's file was, lacks, and the facts about it. */
void report_put_origin(const struct report *report, struct out *out);

REPORT_SECTION_FACES(summary);  /* report_totals.c, report_json.c */
REPORT_SECTION_FACES(sites);    /* report_sites.c: functions that allocate, with stacks */
REPORT_SECTION_FACES(flat);     /* report_flat.c: functions, lines, ... with self and inclusive */
REPORT_SECTION_FACES(tree);     /* report_tree.c: both directions */
REPORT_SECTION_FACES(callers);  /* report_callers.c: --function */
REPORT_SECTION_FACES(sizes);    /* report_buckets.c: sizes and lifetimes */
REPORT_SECTION_FACES(threads);  /* report_threads.c */
REPORT_SECTION_FACES(growth);   /* report_growth.c */
REPORT_SECTION_FACES(symbols);  /* report_symbols.c: what has no name, and what helps */
REPORT_SECTION_FACES(mappings); /* report_mappings.c: V8's heap, Python's arenas, ... */
REPORT_SECTION_FACES(timeline); /* report_timeline.c */

/* The key "stack_list". */
void report_stacks_json(const struct report *report, struct json *json);
