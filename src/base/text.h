/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A string that grows. Start with {0}, append, test the error once at the end:
 *
 *	struct text line = {0};
 *	text_print(&line, "%u blocks", count);
 *	if (text_error(&line)) ...
 *	puts(text_string(&line));
 *	text_done(&line);
 *
 * After a failure (no memory) appends do nothing and the content is what it was.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>

struct text {
	char *data;    /* NUL-terminated once anything was appended */
	size_t length; /* without the NUL */
	size_t room;
	int error; /* 0 or -errno of the first failure */
};

void text_put(struct text *text, const char *string);
void text_put_bytes(struct text *text, const void *data, size_t bytes);
void text_put_char(struct text *text, char c);
void text_put_repeated(struct text *text, char c, size_t count);
void text_print(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Append bytes of unknown origin (names, paths, command lines) so that a
 * terminal only shows them: control characters and what is not UTF-8 become
 * \xNN.
 */
void text_put_visible(struct text *text, const void *data, size_t bytes);

/* The content, "" when empty. Borrowed until the next append. */
const char *text_string(const struct text *text);

/* 0, or the -errno of the first append that failed. */
int text_error(const struct text *text) TM_MUST_CHECK;

/* Empty it and forget an error; the memory is kept. */
void text_clear(struct text *text);

/* Release the memory; the text is empty and may be used again. */
void text_done(struct text *text);

/*
 * Hand the string over (release it with tm_free); the text is empty after. On
 * failure -errno, and *ret_string is untouched.
 */
int text_take(struct text *text, char **ret_string) TM_MUST_CHECK;
