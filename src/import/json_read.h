/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON of any size, token by token. Nothing is kept but the token at hand, so
 * memory does not depend on the file; depth is bounded.
 *
 *	while ((token = json_read_next(&json)) > JSON_READ_END)
 *		...
 *
 * Both a damaged file and one that is cut end with JSON_READ_END; json.cut tells.
 */
#pragma once

#include "base/text.h"
#include "import/input.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	JSON_READ_DEPTH = 1 << 16,
	JSON_READ_TEXT_MAX = 64 << 10, /* longer texts are cut */
};

enum json_token {
	JSON_READ_END = 0,
	JSON_READ_OBJECT,
	JSON_READ_OBJECT_END,
	JSON_READ_ARRAY,
	JSON_READ_ARRAY_END,
	JSON_READ_KEY,    /* text; its value comes next */
	JSON_READ_TEXT,   /* text */
	JSON_READ_NUMBER, /* number: whole, not below 0; what is not is rounded */
	JSON_READ_WORD,   /* true, false, null: number is 1 for true */
};

struct json_reader {
	struct import_input *in;
	const char *data; /* what is seen of the input */
	size_t at, seen;
	struct text text; /* of keys and texts */
	uint64_t number;
	unsigned depth;
	bool cut; /* it ended, or made no sense, before its end */
	/* The reader's own: */
	bool after_value, after_key, begun;
	uint8_t *nest; /* a bit per level: in an object */
};

/* Whether a file that begins so is an object that has all these texts in its head; NULL ends them.
 */
bool json_read_looks(const char *head, size_t bytes, const char *const parts[]);

/* -ENOMEM. */
TM_MUST_CHECK int json_read_init(struct json_reader *json, struct import_input *in);
/* The input stands behind what was read. */
void json_read_done(struct json_reader *json);
enum json_token json_read_next(struct json_reader *json);
/* Skips the value that comes next; after a key or within an array. */
void json_read_skip(struct json_reader *json);
/* Skips the rest of what is open at this depth, with its end. */
void json_read_leave(struct json_reader *json, unsigned depth);
/* Is the key or text this one? */
bool json_read_is(const struct json_reader *json, const char *text);
/* The next key of an object whose inside has this depth (outermost: 1); false at its end. */
bool json_read_key(struct json_reader *json, unsigned depth);
/* The next value if it is a text, cut to the room; to[] stays if it is none. */
void json_read_text(struct json_reader *json, char *to, size_t room);
/* The next value if it is a number, else 0. */
uint64_t json_read_number(struct json_reader *json);
