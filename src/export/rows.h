/* SPDX-License-Identifier: Apache-2.0 */
/* What the formats share: the stacks that were chosen, and names as text. */
#pragma once

#include "export/export.h"

struct export_rows {
	const struct view_stack_row **list; /* the largest cost first */
	size_t count;
	struct view_figures sum; /* of those */
};
/* The stacks with any of these figures (bits 1u << enum view_figure), cut to the limit. -ENOMEM. */
TM_MUST_CHECK int export_rows_choose(struct export_rows *rows, const struct export_input *input,
				     unsigned figures, struct tm_error *err);
void export_rows_done(struct export_rows *rows);

/* "parse", "[libfoo.so+0x1234]"; never "". As it is: escape it. */
void export_frame_name(struct text *out, const struct view_frame *frame);
/* Control characters and bytes that are no UTF-8 as \xNN; each `from` becomes `to`. */
void export_line_text(struct text *out, const char *name, char from, char to);
/* For XML and HTML, between tags and in attributes. */
void export_markup_text(struct text *out, const char *name);
/* The command that was recorded, or the program; never NULL. */
const char *export_command(const struct export_input *input);
/* That figures are estimates, where they are; else NULL. */
const char *export_note(const struct export_input *input);
/* The command line for people, with the note behind it: in `room`, if need be. */
enum { EXPORT_TITLE = 1024 };
const char *export_title(const struct export_input *input, char room[EXPORT_TITLE]);
/* "no memory for the export". */
int export_no_memory(struct tm_error *err);
