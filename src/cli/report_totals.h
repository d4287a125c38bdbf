/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/report.h"

/* The head of the report for people: the program, its totals, its memory, the recording. */
void report_totals(const struct report *report, struct out *out);
