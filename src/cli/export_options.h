/* SPDX-License-Identifier: Apache-2.0 */
/* What `tidemark export` was asked for. */
#pragma once

#include "cli/report.h"
#include "export/export.h"

struct export_options {
	struct report_options report; /* trace, range, filter, mode, fold: as for a report */
	const struct export_format *format;
	const char *out; /* NULL: standard output */
	char made_out[4096];
	const char *view; /* NULL: the usual one */
	enum view_figure cost;
	bool has_cost, force, list, help;
};

/* False after a message on standard error. To be released in both cases. */
bool export_parse(int argc, char **argv, struct export_options *ret_options);
void export_options_done(struct export_options *options);
void export_print_help(void);
void export_print_formats(void);
