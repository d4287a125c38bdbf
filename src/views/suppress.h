/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suppressions in LeakSanitizer's syntax: stacks whose unfreed blocks are known
 * and accepted. They are taken out of what is called unfreed, and shown beside
 * it with their bytes; nothing is hidden. docs/suppressions.md is the manual.
 *
 *	# a comment
 *	leak:^start_pool$
 *	leak:libfoo.so
 *
 * A pattern is looked for in the function, file and module of every frame. `*`
 * stands for anything, `^` and `$` hold it to the begin and the end.
 */
#pragma once

#include "views/views.h"

struct suppressions;

struct suppression { /* all borrowed */
	const char *pattern;
	const char *origin; /* the file, "built in", "the program" */
	unsigned line;      /* there; 0 = none */
	/* What it took, once applied: */
	uint64_t stacks, blocks, bytes;
};

/* -ENOMEM. */
TM_MUST_CHECK int suppressions_new(struct suppressions **ret, struct tm_error *err);
struct suppressions *suppressions_free(struct suppressions *s);

/* Adds what a text says; the origin is copied. -EINVAL names origin and line; nothing is added. */
TM_MUST_CHECK int suppressions_add(struct suppressions *s, const char *text, const char *origin,
				   struct tm_error *err);
/* The same of a file of at most 1 MiB. */
TM_MUST_CHECK int suppressions_add_file(struct suppressions *s, const char *path,
					struct tm_error *err);
/* The built-in set: what the C library keeps for itself. */
TM_MUST_CHECK int suppressions_add_builtin(struct suppressions *s, struct tm_error *err);
/*
 * What the program's own __lsan_default_suppressions() says, read from its file without running
 * it; of an imported trace what that carries. *ret_note: "" or a sentence about what was there and
 * could not be read.
 */
TM_MUST_CHECK int suppressions_add_program(struct suppressions *s, const struct view_input *input,
					   char *ret_note, size_t note_bytes, struct tm_error *err);
const char *suppressions_builtin_text(void);

/*
 * Finds for each stack of the data the pattern that suppresses it, if any: of
 * the innermost frame that one matches the first. Counts what was unfreed there, and notes it in
 * the rows, which keep it when they are folded. Not after view_data_fold(). -ENOMEM.
 * O(frames x patterns + stacks).
 */
TM_MUST_CHECK int suppressions_apply(struct suppressions *s, struct view_data *data,
				     struct tm_error *err);
/* Of a stack of that data, not folded since; NULL = none. O(1). */
const struct suppression *suppressions_find(const struct suppressions *s, uint32_t stack);

/* Takes what is suppressed out of the data's unfreed figures, and puts it back. */
void suppressions_hide(struct view_data *data);
void suppressions_show(struct view_data *data);

size_t suppressions_count(const struct suppressions *s);
const struct suppression *suppressions_at(const struct suppressions *s, size_t index);
/* Of all patterns together. */
struct suppression suppressions_sum(const struct suppressions *s);

/* Does the pattern match? Case matters. The empty text is matched by nothing. */
bool suppressions_match(const char *pattern, const char *text);
