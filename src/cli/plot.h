/* SPDX-License-Identifier: Apache-2.0 */
/* Drawings made of characters: bars, and curves with axes. */
#pragma once

#include "cli/out.h"

enum { PLOT_BAR_MAX = 40 };
struct plot_text {
	char text[PLOT_BAR_MAX * 3 + 1];
};
/* A bar of at most `columns`, in eighths; what is not 0 is seen. */
struct plot_text plot_bar(uint64_t value, uint64_t largest, unsigned columns);

/* A curve of one line: eight heights, the largest fills it. */
void plot_spark(struct text *text, const uint64_t *values, unsigned columns);

/* A value as a label of the vertical axis. */
typedef struct units_text (*plot_label_fn)(const struct out *out, uint64_t value);

struct plot {
	const char *title;
	const uint64_t *values; /* one per column */
	unsigned columns, rows;
	plot_label_fn label;
	uint64_t start_ns, end_ns; /* of the horizontal axis */
	const char *mark;          /* above column mark_column; NULL = none */
	unsigned mark_column;
};
/* Columns that labels and axis take beside the curve. */
enum { PLOT_MARGIN = 11 };
/* An area below the values, from 0 to a round number above the largest. */
void plot_print(const struct plot *plot, struct out *out);
