/* SPDX-License-Identifier: Apache-2.0 */
/* What 'tidemark run' says about names that a trace lacks. */
#pragma once

#include "base/text.h"
#include "collector/collector.h"

/* Appends the line: which module lacks them, and what would help. */
void run_names_put(struct text *text, const struct collector_trace *trace);
