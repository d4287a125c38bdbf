/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of `tidemark diff` share: two sides, and what was asked for. */
#pragma once

#include "base/json.h"
#include "cli/out.h"
#include "cli/side.h"
#include "views/diff.h"

struct comparison;

/* A section of the output: a const descriptor with its two faces. */
struct comparison_section {
	const char *name;
	const char *help;
	enum view_figure figure; /* of lists: what changes */
	const char *view;        /* of flat lists: the name of the view */
	unsigned want;           /* enum query_want */
	unsigned needs;          /* enum trace_unknown, beside what its figure needs */
	bool usual;              /* shown when nothing else is asked for */
	int (*text)(const struct comparison *c, const struct comparison_section *section,
		    struct tm_error *err);
	int (*json)(const struct comparison *c, const struct comparison_section *section,
		    struct json *json, struct tm_error *err);
};
enum { COMPARISON_SECTIONS_MAX = 32 };

struct comparison {
	struct side before, after;
	struct diff *diff;
	double scale;            /* of what was counted before; 1 = as it is */
	const char *scale_words; /* "time", "allocations"; NULL = none */
	enum diff_sort sort;
	size_t limit;    /* SIZE_MAX = all */
	unsigned frames; /* of a stack, at most */
	unsigned depth;  /* of a tree; 0 = as usual */
	struct out *out;
	const struct comparison_section *sections[COMPARISON_SECTIONS_MAX];
	size_t section_count;
};

/* NULL if there is none of that name; number `index` of all, NULL at their end. */
const struct comparison_section *comparison_section_find(const char *name);
const struct comparison_section *comparison_section_at(size_t index);

/*
 * Why a section cannot be shown, and of which side: an imported file does not say
 * what it needs. NULL if it can.
 */
const char *comparison_unknown(const struct comparison *c, const struct comparison_section *section,
			       const struct side **ret_side);

/* ---- pieces ---- */

/* A figure of both sides. */
struct comparison_value {
	const char *key;   /* JSON */
	const char *title; /* text */
	enum { VALUE_BYTES, VALUE_COUNT, VALUE_TIME } unit;
	bool before_known, after_known;
	uint64_t before, after;
	double before_error, after_error; /* standard errors of estimates; 0: exact */
};
/* Number `index` of the totals; false at their end. */
bool comparison_total(const struct comparison *c, size_t index, struct comparison_value *ret);

/* "+1.20 MB", "-3", "0"; "?" if a side is not known */
struct units_text comparison_change(const struct comparison_value *value);
/* " ± 60.0 kB": how sure the change is; "" if it is exact. */
struct units_text comparison_error(const struct comparison_value *value);
/* "+12.3 %", "new", "gone", "" (also if a side is not known) */
struct units_text comparison_percent(const struct comparison_value *value);
/* "1.20 MB", "3"; "not known" */
struct units_text comparison_before(const struct comparison_value *value);
struct units_text comparison_after(const struct comparison_value *value);

/* ---- the faces of sections (diff_text.c, diff_tables.c) ---- */

#define COMPARISON_FACES(name)                                                                    \
	int comparison_##name##_text(const struct comparison *c,                                  \
				     const struct comparison_section *section,                    \
				     struct tm_error *err);                                       \
	int comparison_##name##_json(const struct comparison *c,                                  \
				     const struct comparison_section *section, struct json *json, \
				     struct tm_error *err)
COMPARISON_FACES(summary);
COMPARISON_FACES(sites);
COMPARISON_FACES(flat);
COMPARISON_FACES(tree);
COMPARISON_FACES(buckets);
COMPARISON_FACES(threads);
COMPARISON_FACES(timeline);
#undef COMPARISON_FACES
