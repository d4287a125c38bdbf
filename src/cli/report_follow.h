/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/report.h"

/* The whole report into `out`. *ret_complete: the trace has its end. (cmd_report.c) */
TM_MUST_CHECK int report_print(const struct report_options *options, struct out *out,
			       bool *ret_complete, struct tm_error *err);

/*
 * The report again and again while the trace is written: on a terminal in place,
 * else one after the other, separated by a line. Ends with the recording, or by
 * Ctrl-C. Returns the exit status.
 */
int report_follow(const struct report_options *options);
