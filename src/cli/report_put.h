/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces that several sections of the report print. */
#pragma once

#include "cli/report.h"

/* ---- text ---- */

/* A blank line, the title, and "(5 of 12)" if not all are shown. */
void put_heading(struct out *out, const char *title, size_t shown, size_t count);
/* With its unit, or all its digits. */
struct units_text put_figure(const struct out *out, const struct view_figures *figures,
			     enum view_figure figure);
/* The same; bytes of sampled blocks with how sure they are: "1.20 GB ± 3 %". */
struct units_text put_sure(const struct report *report, const struct out *out,
			   const struct view_figures *figures, enum view_figure figure);
struct put_estimate {
	char text[64];
};
/* "1,200"; of sampled blocks "about 1,200". */
struct put_estimate put_count(const struct report *report, uint64_t count);
/* "1.20 GB"; of sampled blocks "about 1.20 GB ± 3 %". */
struct put_estimate put_estimate(const struct report *report, const struct out *out, uint64_t bytes,
				 uint64_t blocks);
/* " ± 3 %" of sampled blocks, else "". */
struct units_text put_error(const struct report *report, uint64_t bytes, uint64_t blocks);
/* "45.0 %"; of nothing: "-". */
struct units_text put_share(uint64_t part, uint64_t whole);
/* "foo" or "libfoo.so+0x1234" to `columns`. Returns the columns it takes. */
unsigned put_frame_name(struct out *out, const struct view_frame *frame, unsigned columns);
/* "cart.c:10" or "in libfoo.so"; "" if neither is known. */
void put_frame_place(struct text *text, const struct view_frame *frame);
const char *put_plural(uint64_t count);

/* ---- JSON ---- */

void put_json_known(struct json *json, const char *key, bool known, uint64_t value);
/* function, module, file, line, package: those that the row has. */
void put_json_row(struct json *json, const struct view_row *row);
/* The keys of a frame, into the open object. */
void put_json_frame(struct json *json, const struct view_frame *frame);

/* ---- CSV: RFC 4180, one line per row ---- */

void put_csv_text(struct text *out, const char *value); /* NULL: empty */
void put_csv_u64(struct text *out, uint64_t value);
/* The line ends: the comma after the last value becomes its end. */
void put_csv_end(struct text *out);
/* The keys of all figures, with this before them ("self_"). */
void put_csv_figure_keys(struct text *out, const char *prefix);
void put_csv_figures(struct text *out, const struct view_figures *figures);
