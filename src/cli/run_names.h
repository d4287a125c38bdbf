/* SPDX-License-Identifier: Apache-2.0 */
/* What 'tidemark run' says about names that a trace lacks. */
#pragma once

#include "base/text.h"

/* Appends a line, or nothing if few names are missing or the trace is large. */
void run_names_put(struct text *text, const char *path);
