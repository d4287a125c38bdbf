/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of groups as a table, for the sections that have some. */
#pragma once

#include "cli/report.h"

struct report_rows_options {
	const struct view_rows *rows;
	size_t shown;
	uint64_t whole; /* of shares */
	bool with_self;
	const char *title; /* of the names */
	const char *none;  /* the name of a row that has neither module nor package */
};
void report_rows_text(const struct report *report, struct out *out, const struct view *view,
		      const struct report_rows_options *options);
/* An array of objects with self and inclusive. */
void report_rows_json(struct json *json, const char *key, const struct view_rows *rows,
		      size_t shown);
