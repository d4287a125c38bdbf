/* SPDX-License-Identifier: Apache-2.0 */
/* What 'tidemark run' says on standard error: one line before, three after. */
#pragma once

#include "collector/collector.h"

#include <stdio.h>

/* to: standard error, or what passes it on. */
void run_lines_begin(FILE *to, const char *path);
/* The end waits for names. */
void run_lines_naming(void *ctx);
/* quiet: only what is wrong. */
void run_lines_end(const struct collector_result *result, bool quiet);
