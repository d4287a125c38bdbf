/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Front door of the exports: what a section says, in the formats of other tools.
 * A format is a const descriptor; it streams into a outlet in bounded memory: at
 * most 64 MiB beside what model and views hold. docs/export.md is the manual.
 *
 * Names come from strangers. Every format escapes them by its own rules, so that
 * none can end a line, a string or a tag early.
 */
#pragma once

#include "base/error.h"
#include "export/outlet.h"
#include "model/query.h"
#include "views/views.h"

#include <stdbool.h>
#include <stdint.h>

struct export_input {     /* all borrowed */
	const char *path; /* of the trace file */
	const char *name; /* what to call it where the path says nothing; NULL = the path */
	const struct view_input *facts;
	const struct view_data *data; /* of what was chosen, folded */
	struct query_section *section;
	const struct filter_bound *filter; /* NULL: all blocks */
	uint64_t from_ns, to_ns;
	uint64_t first_event, end_event; /* ordinals of the range; whole: 0, UINT64_MAX */
	bool is_part;                    /* a range or a filter was chosen */
	const struct view_mode *mode;
	enum view_figure cost; /* what formats with one figure per stack show */
	uint64_t limit;        /* the largest so many stacks or rows; 0 = all */
	const char *view;      /* of formats that show any view; NULL = the first */
	struct query_progress progress;
};

struct export_format {
	const char *name;   /* "pprof" */
	const char *help;   /* one line */
	const char *suffix; /* ".pb.gz" */
	const char *type;   /* for HTTP */
	bool binary;        /* not for a terminal */
	bool gzip;          /* the format is always packed so */
	bool takes_view;    /* input->view counts */
	/* Reads single events: filters on what is known only at a block's end are refused. */
	bool by_event;
	/* One of them. Into a outlet; or into a new file, which is there and empty. */
	int (*write)(const struct export_input *input, struct outlet *outlet, struct tm_error *err);
	int (*write_file)(const struct export_input *input, const char *path, struct tm_error *err);
};
extern const struct export_format *const export_formats[];
extern const size_t export_format_count;

/* NULL if there is none of that name. */
const struct export_format *export_find(const char *name);

/*
 * Everything into the outlet, which the caller closes. -EINVAL: the format cannot
 * show what was chosen; -ENOMEM; -ECANCELED; what writing or reading says.
 */
TM_MUST_CHECK int export_write(const struct export_format *format, const struct export_input *input,
			       struct outlet *outlet, struct tm_error *err);
