/* SPDX-License-Identifier: Apache-2.0 */
/* Names for a trace that is there: the work of `tidemark symbolize`. */
#pragma once

#include "base/error.h"
#include "symbols/symbols.h"

struct symbolize_options {
	struct symbols_options symbols;
	bool embed_source;
};

struct symbolize_result { /* over all sections */
	uint64_t addresses, named_before, named, with_lines, source_lines;
};

/*
 * Replaces the names of the trace where better ones are found; where none are,
 * those that it has stay. The file is replaced at one stroke, or not at all.
 */
TM_MUST_CHECK int symbolize_file(const char *path, const struct symbolize_options *options,
				 struct symbolize_result *ret_result, struct tm_error *err);
