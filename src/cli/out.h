/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standard output as one text: gathered, then written in one go, so that a
 * closed pipe or a full disk is met in one place.
 */
#pragma once

#include "base/text.h"
#include "base/units.h"

#include <stdbool.h>
#include <stdint.h>

enum out_color { OUT_COLOR_AUTO, OUT_COLOR_ALWAYS, OUT_COLOR_NEVER };

struct out {
	struct text text;
	unsigned width;  /* columns; 0 = as wide as it gets */
	unsigned height; /* lines of the terminal; 0 = it is none */
	bool color;
	bool exact;      /* figures with all their digits */
	bool full_names; /* functions with template arguments and generics, never cut */
};

/* Looks at standard output: a terminal has a width and colours; NO_COLOR and COLUMNS count. */
void out_init(struct out *out, enum out_color color);

enum out_style { OUT_PLAIN, OUT_BOLD, OUT_DIM, OUT_FIGURE, OUT_WARN, OUT_BAR, OUT_GROWN };
/* Begins a style (or, OUT_PLAIN, ends it); nothing without colours. */
void out_style(struct out *out, enum out_style style);

/*
 * Appends a name, made visible, cut in its middle to at most `columns` (0 = not
 * cut). Returns the columns it takes.
 */
unsigned out_name(struct out *out, const char *name, unsigned columns);
/*
 * The same for a function's name, without template arguments and generics unless
 * out->full_names; then in full. To fit, the type that it returns goes, then
 * parameters become (…), then template arguments <…>, and only then the middle goes.
 */
unsigned out_function(struct out *out, const char *name, unsigned columns);
/* The same for a list: its end goes. */
unsigned out_start(struct out *out, const char *text, unsigned columns);
/* Figures for people; with out->exact to the last byte and microsecond. */
struct units_text out_bytes(const struct out *out, uint64_t bytes);
struct units_text out_duration(const struct out *out, uint64_t nanoseconds);
/* Appends a paragraph, broken at blanks to the width, each line indented. */
void out_paragraph(struct out *out, unsigned indent, const char *text);

/*
 * Writes it all and releases it. Returns the exit status: 0, also when the
 * reader of a pipe has gone; 1 after a message when it could not be written.
 */
int out_finish(struct out *out);
/*
 * The same through a pager ($PAGER, else less, else more) if standard output is a
 * terminal that the text does not fit on.
 */
int out_finish_paged(struct out *out);
