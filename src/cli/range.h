/* SPDX-License-Identifier: Apache-2.0 */
/* A range of time as it stands on a command line. */
#pragma once

#include "base/error.h"
#include "model/query.h"
#include "trace/trace.h"

/*
 * From and to as text ("12.5s", "40%", "peak", a mark; NULL: the start, the end) to times of the
 * section. -EINVAL with a sentence that names the option.
 */
TM_MUST_CHECK int range_of(const struct query_section *section, const char *from, const char *to,
			   uint64_t *ret_from_ns, uint64_t *ret_to_ns, struct tm_error *err);
/* The same of the reader's selected section, where nothing else is asked. */
TM_MUST_CHECK int range_parse(struct trace_reader *reader, const char *from, const char *to,
			      uint64_t *ret_from_ns, uint64_t *ret_to_ns, struct tm_error *err);
/* Opens the selected section for questions; shows progress if its slices must be rebuilt. */
TM_MUST_CHECK int range_open(struct trace_reader *reader, struct query_section **ret_section,
			     struct tm_error *err);
