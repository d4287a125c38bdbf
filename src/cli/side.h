/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A section of a trace, or a range of it, with names and figures: what 'check'
 * looks at, and what 'diff' has twice.
 */
#pragma once

#include "model/query.h"
#include "views/views.h"

struct side_options {
	const char *path;
	const char *from, *to;       /* as typed; NULL: the start, the end */
	const struct filter *filter; /* NULL: all */
	bool has_section;
	uint64_t section;
	unsigned want; /* enum query_want, beside peak and kept */
	unsigned fold; /* kinds of frames, bits 1u << enum frame_kind */
};

struct side {
	const char *path;
	struct trace_reader *reader;
	struct query_section *query;
	struct view_input input;
	struct view_data *data;
	struct model_totals totals; /* of the whole run */
	struct view_figures sum;    /* of what was chosen */
	uint64_t peak_bytes;        /* the heap's peak in what was chosen, all stacks */
	uint64_t from_ns, to_ns;
	bool is_part; /* not the whole run */
	struct filter_bound *bound;
	bool is_asked;
	struct query_answer answer; /* with is_asked */
};

/* -EINVAL: range, filter or section make no sense for this trace. side_close() in any case. */
TM_MUST_CHECK int side_open(struct side *side, const struct side_options *options,
			    struct tm_error *err);
void side_close(struct side *side);
/* The section's recording: "attached", lost events and the like; NULL = nothing to say. */
const char *side_warning(const struct side *side);
