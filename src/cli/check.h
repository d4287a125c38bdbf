/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of `tidemark check` share: the verdicts on a recording. */
#pragma once

#include "base/json.h"
#include "cli/budgets.h"
#include "cli/out.h"
#include "cli/side.h"
#include "cli/suppressed.h"
#include "views/diff.h"

enum { CHECK_CULPRITS = 3 };

struct culprit {
	uint32_t stack; /* of the recording's data */
	uint64_t value; /* of the budget's figure; with a baseline: how much it grew */
	uint64_t blocks;
};

struct verdict {
	const struct budget *budget;
	const char *why_unknown; /* a sentence, if it is not known */
	bool known;              /* else it could not be found out */
	bool broken;
	bool is_baseline;
	uint64_t value;
	double error;      /* standard error of the value where it is an estimate; else 0 */
	uint64_t baseline; /* with is_baseline */
	uint64_t suppressed_bytes;
	struct culprit culprits[CHECK_CULPRITS];
	size_t culprit_count;
};

struct check {
	const char *subject; /* the file, or the program's name */
	struct side side;
	struct side baseline;   /* path NULL: none */
	double tolerance;       /* of the baseline: 0.05 */
	struct budgets budgets; /* those of the baseline last */
	size_t own_count;       /* budgets that are not the baseline's */
	struct suppressed suppressed, baseline_suppressed;
	struct verdict *verdicts; /* as many as budgets */
	size_t broken, unknown;
	bool has_program;   /* it was run by us */
	int program_status; /* as a shell shows it */
	struct out *out;
};

/* Adds the baseline's budgets and judges all. -ENOMEM. */
TM_MUST_CHECK int check_judge(struct check *check, struct tm_error *err);

/* "parse_*: allocations", "peak" */
void check_put_subject(struct text *text, const struct verdict *verdict);
/* "1,203 is more than 1,000" or "12.3 MB is within 64.0 MB" */
void check_put_relation(struct text *text, const struct verdict *verdict);
/* The stack, one frame per line, each after `indent`. */
void check_put_stack(const struct check *check, struct text *text, uint32_t stack,
		     const char *indent);
/* "1.20 kB in 3 blocks"; of a baseline "+1.20 kB". */
void check_put_culprit(struct text *text, const struct verdict *verdict,
		       const struct culprit *culprit);

void check_text(const struct check *check);
void check_json(const struct check *check);
/* One line per broken budget, as GitHub's runner reads it. */
void check_github(const struct check *check, struct text *text);
void check_junit(const struct check *check, struct text *text);
