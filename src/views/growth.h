/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which stacks grow, and how: the live bytes of each over time, judged by their
 * shape. docs/growth.md has the rules. The first and the last tenth of the range
 * are left out: a program fills its caches when it starts, and empties them when
 * it ends.
 */
#pragma once

#include "base/json.h"
#include "model/query.h"
#include "views/views.h"

enum growth_shape {
	GROWTH_STEADY,   /* grows steadily */
	GROWTH_STEPS,    /* grows in a few steps */
	GROWTH_SAWTOOTH, /* rises and falls */
	GROWTH_PLATEAU,  /* stays as it is, or rose and stays */
	GROWTH_FELL,
	GROWTH_SHAPES,
};
extern const char *const growth_shape_names[GROWTH_SHAPES]; /* "steady": for JSON */
extern const char *const growth_shape_words[GROWTH_SHAPES]; /* "grows steadily": for people */

struct growth_line {
	enum growth_shape shape;
	double slope; /* bytes per second: the straight line that fits best */
	double fit;   /* how well it does: 0 to 1 */
	uint64_t first_bytes, last_bytes, low_bytes, high_bytes;
	int64_t growth_bytes;  /* from first to last; of what swings: of its floor */
	const uint64_t *bytes; /* at each of the moments; borrowed */
};

struct growth_row {
	uint32_t stack; /* for view_next_frame() */
	double share;   /* of all that grew: 0 to 1 */
	struct growth_line line;
};

enum growth_limit {
	GROWTH_NO_LIMIT,
	GROWTH_LIMIT_GIVEN,
	GROWTH_LIMIT_CGROUP,
	GROWTH_LIMIT_MACHINE
};

struct growth {
	uint64_t from_ns, to_ns; /* what was judged */
	uint64_t *times_ns;      /* the moments */
	size_t moment_count;     /* less than GROWTH_MOMENTS_MIN: too few to judge */
	struct growth_line total;
	struct growth_row *rows; /* what fills the memory first stands first */
	size_t row_count;
	enum growth_limit limit;
	uint64_t limit_bytes, used_bytes; /* used: at the end of the range, as the limit counts */
	uint64_t *bytes;                  /* what the lines point into */
};
enum { GROWTH_MOMENTS = 41, GROWTH_MOMENTS_MIN = 8, GROWTH_STACKS_MAX = 4096 };

struct growth_options {
	uint64_t from_ns, to_ns;           /* the whole range */
	const struct filter_bound *filter; /* NULL: all */
	uint64_t limit_bytes;              /* 0: the cgroup's, else the machine's */
	struct query_progress progress;
};

/* The shape of one curve of GROWTH_MOMENTS_MIN to GROWTH_MOMENTS moments, which rise. */
void growth_judge(const uint64_t *times_ns, const uint64_t *bytes, size_t count,
		  struct growth_line *ret);
/* -ENOMEM, or what query_ask() and query_timeline() say. growth_done() frees it. */
TM_MUST_CHECK int growth_make(struct query_section *section, const struct view_data *data,
			      const struct growth_options *options, struct growth *ret,
			      struct tm_error *err);
void growth_done(struct growth *growth);

/* Seconds until what is left below the limit is full at this line's rate; below 0: never. */
double growth_full_in_s(const struct growth *growth, const struct growth_line *line);
/* Keys into the open object; at most so many stacks. */
void growth_json(struct json *json, const struct growth *growth, const struct view_data *data,
		 size_t limit);
