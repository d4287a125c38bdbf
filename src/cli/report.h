/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the faces of `tidemark report` get: one image of a process, loaded, and
 * what was asked for. A section of the report is a const descriptor with its
 * text, its JSON and its CSV (report_sections.c has the table).
 */
#pragma once

#include "base/json.h"
#include "cli/out.h"
#include "cli/suppressed.h"
#include "model/query.h"
#include "views/views.h"

struct report;

struct report_section {
	const char *name;
	const char *help;
	const char *view; /* of lists: the name of the view */
	const char *key;  /* in JSON; NULL: what it shows is always there */
	unsigned want;    /* enum query_want: what it needs to be asked for */
	unsigned needs;   /* enum trace_unknown: without any of these it is empty */
	/* For people. */
	int (*text)(const struct report *report, const struct report_section *section,
		    struct out *out, struct tm_error *err);
	/* The value of its key. */
	int (*json)(const struct report *report, const struct report_section *section,
		    struct json *json, struct tm_error *err);
	/* A table with a head line. */
	int (*csv)(const struct report *report, const struct report_section *section,
		   struct text *out, struct tm_error *err);
};
enum { REPORT_SECTIONS_MAX = 32 };

enum report_sort {
	REPORT_SORT_DEFAULT,
	REPORT_SORT_BYTES,
	REPORT_SORT_COUNT,
	REPORT_SORT_AVERAGE,
	REPORT_SORT_SELF,
	REPORT_SORT_TEMPORARY,
	REPORT_SORT_NAME,
};

struct report_options {
	const char *path;
	const char *from, *to, *at, *filter; /* as typed, or NULL */
	struct filter *parsed;               /* of `filter`; NULL = none */
	const char *function;                /* for the section "callers" */
	const char *kinds;                   /* a file of rules, or NULL */
	const struct view_mode *mode;        /* NULL = not asked for */
	enum report_sort sort;
	uint64_t limit;       /* with has_limit; 0 = all */
	uint64_t depth;       /* with has_depth; 0 = all */
	uint64_t image;       /* with has_image */
	uint64_t interval_ns; /* of follow */
	uint64_t limit_bytes; /* for the section "growth"; 0 = none given */
	unsigned fold;        /* kinds of frames, bits 1u << enum frame_kind */
	bool has_limit, has_depth, has_image, all_images;
	bool json, csv, stacks, exact, full_names, follow, no_pager, help;
	enum out_color color;
	struct suppressed_options suppressed;
	const struct report_section *sections[REPORT_SECTIONS_MAX]; /* none = the usual ones */
	size_t section_count;
};

struct report {
	const char *path;
	const char *opened_path; /* of exports: path itself, or that of a temporary trace */
	const struct report_options *options;
	struct trace_reader *reader;
	size_t section, section_count; /* of the file: images of the process */
	struct kinds *kinds;
	struct view_input input;
	struct query_section *query;
	struct model_totals totals; /* of the whole run */
	struct filter_bound *bound; /* NULL = no filter */
	bool is_part;               /* a range or a filter was asked for */
	bool is_asked;              /* the answer is filled: is_part, or a section wants it */
	struct query_answer answer;
	struct suppressed suppressed; /* taken out of the list of unfreed blocks */
	struct view_data *data;       /* of what was chosen */
	struct view_figures sum;      /* of all stacks that were chosen */
	struct view_rss rss;
};

/* ---- what was asked for ---- */

/*
 * Parses the command line. False after a message on standard error. What it
 * fills is to be released in both cases.
 */
bool report_parse(int argc, char **argv, struct report_options *ret_options);
/* '--at peak' is the mode peak. */
void report_settle_moment(struct report_options *options);
void report_options_done(struct report_options *options);
void report_print_help(void);

/* NULL if there is none of that name. */
const struct report_section *report_section_find(const char *name);
/* Number `index` of all; NULL at their end. */
const struct report_section *report_section_at(size_t index);

/* What the usual report shows, or was asked for; `text`: to be printed for people. */
size_t report_chosen(const struct report *report, const struct report_section **ret_sections);

/* --limit, or what is usual. SIZE_MAX = all. */
size_t report_limit(const struct report *report, size_t usual);
size_t report_depth(const struct report *report, size_t usual);
/* --mode, or the peak. */
const struct view_mode *report_mode(const struct report *report);
/* A view as --sort wants it; `order` is what it is about without --sort. */
struct view report_view(const struct report *report, const struct view *view,
			enum view_figure order);
/* A figure's words after a number: "unfreed blocks", "block live at detach". */
const char *report_figure_title(const struct report *report, enum view_figure figure, bool one);
/* "unfreed", "live at detach": what VIEW_UNFREED_* are here. */
const char *report_live_words(const struct report *report);
/* "what was live at the peak", "number of allocations": after 'by' or 'of'. */
const char *report_order_words(const struct report *report, enum view_figure order);
/* An attached recording: it knows nothing of older blocks. */
bool report_is_attached(const struct report *report);
/* Made of another tool's file: there was no recording of ours. */
bool report_is_imported(const struct report *report);

/* ---- facts ---- */

/* How the program ended as a sentence, without its full stop. */
void report_end_sentence(const struct trace_end *end, char *out, size_t out_bytes);
/* From the end of the recording, or else of the last event. */
uint64_t report_duration_ns(const struct report *report);
/* What is wrong with the file or with what it holds: a sentence, or NULL. */
const char *report_warning(const struct report *report);

/* ---- loading ---- */

/*
 * Loads image `report->section` of the open reader and asks what the options
 * want. -EINVAL: the command line makes no sense for this trace.
 */
TM_MUST_CHECK int report_load(struct report *report, struct tm_error *err);
void report_unload(struct report *report);

/* ---- faces ---- */

/* One object. */
TM_MUST_CHECK int report_json(const struct report *report, struct json *json, struct tm_error *err);
TM_MUST_CHECK int report_text(const struct report *report, struct out *out, struct tm_error *err);
TM_MUST_CHECK int report_csv(const struct report *report, struct text *out, struct tm_error *err);
/* --stacks without --json: one line per stack. */
void report_stack_lines(const struct report *report, struct out *out);
